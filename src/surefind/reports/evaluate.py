"""Evaluate a model on data: encode, search, measure."""

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from math import isnan
from pathlib import Path
from typing import NamedTuple

import numpy as np

from surefind.datasets import open_dataset, read_catalog, read_foreign
from surefind.embeddings import Embeddings
from surefind.encoders.encoder import Encoder
from surefind.encoders.image_encoder import ImageEncoder
from surefind.encoders.mc_dropout import McDropoutEncoder
from surefind.encoders.onnx.runtime import OnnxEncoder, open_encoder
from surefind.errors import InvalidArgument
from surefind.images.catalog import Catalog
from surefind.images.matches import Rows
from surefind.reports.corruption import Answer, climb, steps
from surefind.reports.judge import KS, Judgement, judge
from surefind.reports.letterbox import bars_auroc
from surefind.reports.measures import resamples_of
from surefind.reports.protocol import Embedded, embed_catalog
from surefind.reports.result import About, EvalResult, Ladder, QueryTable
from surefind.reports.signals import DEPTH, neighbours, uncertainty_signals
from surefind.validation import check_choice

SPLITS = ("test", "val", "train", "all")
PACKAGES = ("surefind", "torch", "timm", "faiss-cpu", "numpy", "scikit-learn")
OWN_FOREIGN = "its own foreign split"  # where nobody named foreign data, but there is some

Tell = Callable[[str, int, int], None]  # what is done, how much of it, out of how much


@dataclass(frozen=True)
class Request:
    """What to evaluate."""

    model: Path
    data: str
    split: str = "test"
    foreign: str | None = None  # out-of-distribution data, unless the data has its own
    passes: int | None = None  # of Monte-Carlo dropout
    ks: tuple[int, ...] = KS
    radius: float = 25.0  # metres, for images with positions
    ladder: int = 200  # queries that are corrupted; 0: none
    seed: int = 0
    command: str = ""
    runtime: str = "torch"  # or onnx, onnx-int8: what an export holds
    title: str = ""  # of the model; its folder's name, unless given


class Evaluation(NamedTuple):
    """The result and the queries behind it."""

    result: EvalResult
    queries: QueryTable


def evaluate(
    request: Request, *, kept_in: Path | None = None, tell: Tell = lambda *_: None
) -> Evaluation:
    """Encode, search and measure; embeddings are kept in a folder, if given, for the next time."""
    start = time.monotonic()
    check_choice("split", request.split, SPLITS)
    if not request.ks or min(request.ks) < 1:
        raise InvalidArgument("k", expected="numbers from 1 on", got=repr(request.ks))
    model = open_encoder(request.model, request.runtime)
    encoder: ImageEncoder = model
    if request.passes is not None:
        if isinstance(model, OnnxEncoder):
            raise InvalidArgument(
                "runtime",
                expected="torch, since an export has no dropout",
                got="onnx with --mc-passes",
            )
        encoder = McDropoutEncoder(model, passes=request.passes)
    name, catalog, foreign_catalog = _data(request)

    def embed(catalog: Catalog, what: str) -> Embedded:
        return embed_catalog(
            encoder,
            catalog,
            kept_in=kept_in,
            progress=lambda done: tell(f"encoding {what}", done, len(catalog)),
        )

    own = embed(catalog, "images")
    foreign = None if foreign_catalog is None else embed(foreign_catalog, "foreign images")
    judgement = judge(
        own,
        foreign,
        learned=encoder.has_variance,
        ks=request.ks,
        radius=request.radius,
        seed=request.seed,
        progress=lambda what: tell(what, 0, 1),
    )
    result = EvalResult(
        about=_about(request, model, name, foreign, judgement, time.monotonic() - start),
        rankings=judgement.rankings,
        exclusions=judgement.exclusions,
        ladder=_ladder(request, encoder, judgement, tell) if request.ladder else None,
    )
    return Evaluation(result, judgement.queries)


def _data(request: Request) -> tuple[str, Catalog, Catalog | None]:
    """The data's name, the images to judge, and foreign ones."""
    foreign = None if request.foreign is None else read_foreign(request.foreign)
    if request.split == "all":
        name, catalog = Path(request.data).stem, read_catalog(request.data)
    else:
        splits = open_dataset(request.data)
        name, catalog = splits.name, getattr(splits, request.split)
        foreign = splits.foreign if foreign is None else foreign
    if foreign is not None and set(foreign.files) & set(catalog.files):
        raise InvalidArgument(
            "--ood",
            expected="images that do not belong to the gallery",
            got=f"{request.foreign!r}, which shares images with {request.data!r}",
        )
    return name, catalog, foreign


def _ladder(request: Request, encoder: ImageEncoder, judgement: Judgement, tell: Tell) -> Ladder:
    """Corrupted queries ask the clean gallery."""
    own, protocol = judgement.own, judgement.protocol
    gallery = own.embeddings[protocol.gallery.tolist()]

    def ask(batch: Embeddings, rows: Rows) -> Answer:
        itself = None if protocol.itself is None else rows  # the gallery is the whole catalog
        found = neighbours("means", batch, gallery, DEPTH, itself=itself)
        signals = uncertainty_signals(
            batch, gallery, found, by_means=found, learned=encoder.has_variance
        )
        return Answer(
            protocol.hits(found.rows.numpy(), rows)[:, 0],
            {name: signal.numpy() for name, signal in signals.items()},
        )

    answerable = protocol.queries[protocol.n_matches > 0]
    size = min(request.ladder, len(answerable))
    rows = np.random.default_rng(request.seed).choice(answerable, size=size, replace=False)
    rows.sort()
    return climb(
        encoder,
        own.catalog,
        rows=rows,
        ask=ask,
        seed=request.seed,
        progress=lambda done: tell("corruption ladder", done, steps(len(rows))),
    )


def _about(
    request: Request,
    model: Encoder | OnnxEncoder,
    name: str,
    foreign: Embedded | None,
    judgement: Judgement,
    seconds: float,
) -> About:
    own = judgement.own
    scored = judgement.protocol.queries[judgement.protocol.n_matches > 0]
    bars = None if foreign is None else bars_auroc(own.catalog.files, foreign.catalog.files)
    return About(
        data=request.data,
        data_name=name,
        split=request.split,
        root=str(own.catalog.root),
        model=request.title or request.model.resolve().name,
        fingerprint=model.fingerprint,
        family=model.config.family if request.passes is None else "mc-dropout",
        dim=own.embeddings.dim,
        protocol=judgement.protocol.description,
        queries=len(scored),
        gallery=len(judgement.protocol.gallery),
        classes=len(own.catalog.classes),
        ks=request.ks,
        resamples=resamples_of(len(scored)),
        resampled_classes=len(np.unique(own.catalog.codes[scored])) if own.catalog.labels else 0,
        foreign=request.foreign or (OWN_FOREIGN if foreign else ""),
        foreign_root=str(foreign.catalog.root) if foreign else "",
        foreign_queries=len(foreign.catalog) if foreign else 0,
        bars_auroc=None if bars is None or isnan(bars) else bars,
        command=request.command,
        versions={"python": platform.python_version()} | {p: version(p) for p in PACKAGES},
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=round(seconds, 1),
    )
