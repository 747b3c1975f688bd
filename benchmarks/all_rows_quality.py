"""Rows about how right the answers are, from what the benchmarks have written."""

from all_rows import Result, Row, at_least, at_most

PROMISE = "class, the long run"  # made from half of the classes, without an end
AUROC, ECE = 0.80, 0.05


def accuracy(result: Result) -> list[Row]:
    rows = []
    for dim, most in (("128", 2e-5), ("2048", 1e-6)):
        (clt, _), (saddle, _) = (
            result["worst errors of P and log P"][dim][method] for method in ("clt", "saddlepoint")
        )
        what = f"worst error of P(τ < x), D = {dim}, `saddlepoint` (`clt`: {clt:.0e})"
        rows.append(at_most(what, saddle, most, shown=f"{saddle:.0e}"))
    return rows


def retrieval_birds(result: Result) -> list[Row]:
    recall = dict(result["recall_at_1"])
    untrained = recall.pop("untrained GeM")
    what = f"R@1 on CUB-200 (2010), {result['classes']} classes never trained on, untrained"
    return [
        at_least(f"{what} {untrained:.3f}: {name}", value, 0.58, shown=f"{value:.3f}")
        for name, value in recall.items()
    ]


def retrieval_glyphs(result: Result) -> list[Row]:
    recall, known = result["recall_at_1"], result["variance_and_corruption"]
    rows = []
    for name, value in known.items():
        what = f"rank correlation of learned variance and true corruption, unseen glyphs: {name}"
        rows += [
            at_least(what, value, 0.7, shown=f"{value:.2f}"),
            Row("  R@1 of the same", f"{recall[name]:.3f}"),
        ]
    return rows


def expansion(result: Result) -> list[Row]:
    """By means: what precisions add to the plain average of several pictures."""
    rows = []
    for name, found in result["models"].items():
        for count in ("2", "4"):
            less = found["means"][f"{count} photos, precisions"]["mAP@10 less plain"]
            what = (
                f"{count} pictures as one query, unseen glyphs: mAP@10 fused by precision less "
                f"that of the plain average, {name}"
            )
            rows.append(
                Row(what, f"{less['value']:+.3f} [{less['low']:+.3f}, {less['high']:+.3f}]")
            )
    return rows


def confidence(result: Result) -> list[Row]:
    rows = []
    for name, found in result["features"].items():
        rows += _of_set(name, found, result["splits"])
    return rows


def _of_set(name: str, found: Result, splits: int) -> list[Row]:
    fused, nearest = (found["rows"][way] for way in ("fused: all", "nearest distance"))
    auroc, rival, ece, other = (
        way[what]["value"] for what in ("auroc", "ece") for way in (fused, nearest)
    )
    kept, distance = (
        found["promises"][f"{way}, {PROMISE}"] for way in ("fused: all", "nearest distance")
    )
    novelty = found["novelty"]["value"]
    rows = [
        at_least(
            f"{name}: AUROC of “the first hit is wrong”, unseen classes, fused confidence "
            f"(nearest distance: {rival:.3f})", auroc, AUROC, shown=f"{auroc:.3f}",
        ),
        at_most(
            f"  calibration error of the same (distance calibrated in the same way: {other:.3f})",
            ece, ECE, shown=f"{ece:.3f}",
        ),
        Row(
            "  precision 0.9 promised with probability 0.9 from half of the classes: kept by the "
            f"other half, {splits} splits",
            f"{kept['kept_by_half']:.1%} (promised in {kept['promised']:.0%})", "≥ 90 %",
            kept["kept_by_half"] >= 0.9 if kept["promised"] else None,  # none made, none kept
        ),
        Row(
            "  share of queries answered under that promise (nearest distance)",
            f"{kept['coverage']:.2f} ({distance['coverage']:.2f})",
        ),
    ]  # fmt: skip
    what = f"  foreign queries, AUROC of novelty (black bars alone: {found['bars']:.3f})"
    if name == "glyphs":  # symbols among letters: nothing was promised of them
        return [*rows, Row(what, f"{novelty:.3f}")]
    return [*rows, at_least(what, novelty, 0.99, shown=f"{novelty:.4f}")]
