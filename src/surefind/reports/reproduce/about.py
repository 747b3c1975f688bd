"""What a reader has to know before comparing: scale, data, command, and how figures are made."""

from pathlib import Path

from surefind.reports.reproduce.paper import (
    ABOUT,
    ABOUT_ALL,
    BACKBONES,
    TEST_QUERIES,
    TITLES,
    TRAINED_ON,
)
from surefind.reports.reproduce.plan import MC_DROPOUT_HEADS, Plan
from surefind.reports.reproduce.rows import ROWS
from surefind.reports.result import About

INTERVALS = (
    "In brackets the 95 % interval, which does not cover chance in training: {drawn} are "
    "resampled. With several seeds: means of the values and of the interval's ends, and ± the "
    "standard deviation between seeds."
)
AGAINST = (
    "The last column compares R@1 with the first row's on the same queries (share of seeds that "
    "are right): the difference, its interval, and p of a paired test that flips the signs of "
    "{drawn}."
)
DROPOUT_IN_HEAD = (
    "Triplet (MC=50) has its dropout in the head, since this backbone has none between its layers; "
    "the paper's has it in DenseNet-161."
)
BEST_FREE = (
    "Training-free is the best by AUROC of nearest distance, distance ratios and cosine, all of "
    "mean distances, chosen on the queries it is shown for: in its favour."
)


def facts(plan: Plan, about: About) -> tuple[str, ...]:
    """Before the table."""
    lines = [_scale(plan), _data(plan, about)]
    if about.foreign:
        lines.append(_foreign(about))
    return (*lines, f"Made by `{command(plan)}`.")


def notes(plan: Plan, about: About) -> tuple[str, ...]:
    """After the table."""
    drawn = "whole classes" if about.resampled_classes else "single queries"
    quoted = plan.dataset in TITLES
    own = [ABOUT[plan.dataset]] if plan.dataset in ABOUT else []
    if any(plan.recipe_name(row).startswith(MC_DROPOUT_HEADS) for row in plan.rows):
        own.append(DROPOUT_IN_HEAD)
    how = (INTERVALS.format(drawn=drawn), BEST_FREE, AGAINST.format(drawn=drawn))
    return (*how, *(ABOUT_ALL if quoted else ()), *own)


def command(plan: Plan) -> str:
    """The command line, without the folders of one machine."""
    parts = ["surefind reproduce", plan.dataset]
    if plan.train_data:
        parts += [f"--train-data {_short(plan.train_data)}"]
    if plan.models:
        parts += [f"--models {plan.models.name}"]
    if plan.dataset in TITLES:
        parts += [f"--data {_short(plan.data)}", f"--backbone {plan.backbone}"]
        parts += [f"--scale {plan.scale}"]
    if plan.seeds > 1:
        parts += [f"--seeds {plan.seeds}"]
    if plan.once:
        parts += [f"--once {','.join(plan.once)}"]
    if plan.rows != ROWS:
        parts += [f"--rows {','.join(row.name for row in plan.rows)}"]
    if plan.foreign:
        parts += [f"--ood {_short(plan.foreign)}"]
    parts += [f"--zero-shot {_short(data)}" for data in plan.zero_shot]
    for setting in plan.settings:
        key, _, value = setting.partition("=")
        parts += [f"--set {key}={_short(value)}"]
    return " ".join(parts)


def _scale(plan: Plan) -> str:
    trained = plan.recipe(plan.rows[0], 0).encoder.backbone
    layer = "glyphs" if plan.dataset == "glyphs" else plan.scale
    recipes = "its rows' recipes" if plan.at_paper_scale else f"`+{layer}` recipes"
    if plan.dataset == "glyphs":
        return f"Glyphs: {trained}, {recipes}; the paper has no such data."
    quoted = BACKBONES[plan.backbone]
    if plan.at_paper_scale:
        return f"Paper scale: {trained}, {recipes}, beside the paper's {quoted}."
    return (
        f"CPU scale: {trained}, {recipes}, not the paper's backbone; its figures are those of "
        f"{quoted}."
    )


def _data(plan: Plan, about: About) -> str:
    told = f"Data: {_short(plan.data)}, {about.queries:,} test queries."
    if plan.dataset in TRAINED_ON:
        trained = _short(plan.trained_on or plan.training_dataset)
        told = f"Models trained on {trained}. {told}"
    if plan.dataset not in TITLES:
        return told
    wanted = TEST_QUERIES.get(plan.dataset)
    if wanted is None:
        return f"{told} The paper does not say how many it had."
    if about.queries != wanted:
        title = TITLES[plan.dataset]
        return f"{told} **This is not the paper's test set**: {title} has {wanted:,}."
    return told


def _foreign(about: About) -> str:
    told = f"Foreign queries: {about.foreign_queries:,}, {_short(about.foreign)}."
    if about.bars_auroc is None:
        return told
    return f"{told} Their black bars alone give them away with AUROC {about.bars_auroc:.3f}."


def tell_data(about: About) -> str:
    """Data that no row was trained for."""
    matches = f"{about.classes} classes" if about.classes else "matches by position"
    return f"{_short(about.data)}, {about.queries:,} queries, {matches}"


def _short(source: str) -> str:
    """`cub200:/long/way/birds` as `cub200:birds`.

    >>> _short("cub200:/long/way/birds"), _short("glyphs"), _short("0.1")
    ('cub200:birds', 'glyphs', '0.1')
    """
    name, colon, place = source.rpartition(":")
    return f"{name}{colon}{Path(place).name}"
