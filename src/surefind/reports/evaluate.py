"""Evaluate a model on data: encode, search, measure, and search again with corrupted queries."""

import platform
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from itertools import product
from math import isnan, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata  # type: ignore[import-untyped]

from surefind import metrics
from surefind.confidence.match_model import crossfitted
from surefind.datasets import open_dataset, read_catalog, read_foreign
from surefind.embeddings import Embeddings
from surefind.encoders.encoder import Encoder, McDropoutEncoder
from surefind.encoders.image_encoder import ImageEncoder
from surefind.encoders.open import open_encoder
from surefind.errors import InvalidArgument
from surefind.images.catalog import Catalog
from surefind.images.corruptions import KINDS, LEVELS, corrupt
from surefind.images.decode import ImageRejected, ImageSource, decode, decode_picture
from surefind.images.matches import Rows
from surefind.reports.rankings import KS, Embedded, RankingEvaluation, embed_catalog, evaluate_rankings, resamples_of
from surefind.reports.result import About, EvalResult, Ladder, QueryTable, Rung
from surefind.reports.signals import DEPTH, neighbours, uncertainty_signals
from surefind.validation import check_choice

SPLITS = ("test", "val", "train", "all")
PACKAGES = ("surefind", "torch", "timm", "faiss-cpu", "numpy", "scikit-learn")
OWN_FOREIGN = "its own foreign split"  # recorded where --ood is not given but the data has one
BLACK = 8  # the brightest channel of a pixel in a bar
STRAY = 24  # what JPEG makes of a few of them
STRAY_SHARE = 0.02  # of the pixels of one row or column
FOLDS = 5  # of the fit to bars
MIN_IMAGES, AT_MOST = 10, 1000  # of each kind

Progress = Callable[[str, int, int], None]  # stage, done, total
Searched = tuple[NDArray[np.bool_], dict[str, NDArray[np.float64]]]  # top hit is right; signals


@dataclass(frozen=True)
class Request:
    """Model, data and options of an evaluation."""

    model: Path
    data: str
    split: str = "test"
    foreign: str | None = None  # out-of-distribution data, unless the data has its own
    passes: int | None = None  # of Monte-Carlo dropout
    ks: tuple[int, ...] = KS
    radius: float = 25.0  # metres, for images with positions
    ladder: int = 0  # queries that are corrupted
    seed: int = 0
    command: str = ""
    runtime: str = "torch"  # or onnx, onnx-int8: what an export holds
    title: str = ""  # of the model; its folder's name, unless given


class Evaluation(NamedTuple):
    result: EvalResult
    queries: QueryTable


def evaluate(request: Request, *, kept_in: Path | None = None, progress: Progress = lambda *_: None) -> Evaluation:
    """Encode the data, search it and measure retrieval, calibration and uncertainty.

    Args:
        request: Model, data and options.
        kept_in: Folder in which embeddings are cached for the next run.
        progress: Called with the stage, the work done and its total.

    Raises:
        SurefindError: The model or data cannot be read, or no query has a match.
    """
    start = time.monotonic()
    check_choice("split", request.split, SPLITS)
    if not request.ks or min(request.ks) < 1:
        raise InvalidArgument("k", expected="numbers from 1 on", got=repr(request.ks))
    model = encoder = open_encoder(request.model, runtime=request.runtime)
    if request.passes is not None:
        if not isinstance(model, Encoder):
            raise InvalidArgument(
                "runtime", expected="torch, since an export has no dropout", got="onnx with --mc-passes"
            )
        encoder = McDropoutEncoder(model, passes=request.passes)
    name, catalog, foreign_catalog = _data(request)

    def embed(catalog: Catalog, what: str) -> Embedded:
        return embed_catalog(
            encoder, catalog, kept_in=kept_in, progress=lambda done: progress(f"encoding {what}", done, len(catalog))
        )

    images = embed(catalog, "images")
    foreign = None if foreign_catalog is None else embed(foreign_catalog, "foreign images")
    evaluated = evaluate_rankings(
        images,
        foreign,
        learned=encoder.has_variance,
        ks=request.ks,
        radius=request.radius,
        seed=request.seed,
        progress=lambda what: progress(what, 0, 1),
    )
    seconds, own, protocol = time.monotonic() - start, evaluated.own, evaluated.protocol
    scored = protocol.queries[protocol.n_matches > 0]
    bars = None if foreign is None else bars_auroc(own.catalog.files, foreign.catalog.files)
    about = About(
        data=request.data,
        data_name=name,
        split=request.split,
        root=str(own.catalog.root),
        model=request.title or request.model.resolve().name,
        fingerprint=model.fingerprint,
        family=model.config.family if request.passes is None else "mc-dropout",
        dim=own.embeddings.dim,
        protocol=protocol.description,
        queries=len(scored),
        gallery=len(protocol.gallery),
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
    ladder = _ladder(request, encoder, evaluated, progress) if request.ladder else None
    result = EvalResult(about, evaluated.rankings, evaluated.exclusions, ladder)
    return Evaluation(result, evaluated.queries)


def _data(request: Request) -> tuple[str, Catalog, Catalog | None]:
    """Return the name of the data, its images, and the foreign ones."""
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


def _ladder(request: Request, encoder: ImageEncoder, evaluated: RankingEvaluation, progress: Progress) -> Ladder:
    """Search the clean gallery with corrupted queries."""
    own, protocol = evaluated.own, evaluated.protocol
    gallery = own.embeddings[protocol.gallery.tolist()]

    def search(batch: Embeddings, rows: Rows) -> Searched:
        itself = None if protocol.itself is None else rows  # the gallery is the whole catalog
        found = neighbours("means", batch, gallery, DEPTH, itself=itself)
        signals = uncertainty_signals(batch, gallery, found, by_means=found, learned=encoder.has_variance)
        right = protocol.hits(found.rows.numpy(), rows)[:, 0]
        return right, {name: signal.numpy() for name, signal in signals.items()}

    answerable = protocol.queries[protocol.n_matches > 0]
    size = min(request.ladder, len(answerable))
    rows = np.random.default_rng(request.seed).choice(answerable, size=size, replace=False)
    rows.sort()
    told = partial(progress, "corruption ladder")
    return corruption_ladder(encoder, own.catalog, rows=rows, search=search, seed=request.seed, progress=told)


def corruption_ladder(
    encoder: ImageEncoder,
    catalog: Catalog,
    *,
    rows: Rows,
    search: Callable[[Embeddings, Rows], Searched],
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Ladder:
    """Search with the queries at `rows` of the catalog at every kind and level of corruption.

    `progress` is called with the number of images encoded so far, and of all.
    """
    total = len(rows) * (1 + len(KINDS) * LEVELS)

    def encode(images: Sequence[ImageSource], before: int) -> Embeddings:
        return encoder.encode_all(
            images, max_bad_share=0.0, progress=lambda done: progress(before + done, total)
        ).embeddings

    clean = encode([catalog.file(int(row)) for row in rows], 0)
    results = {kind: [search(clean, rows)] for kind in KINDS}
    for rung, (kind, level) in enumerate(product(KINDS, range(1, LEVELS + 1)), start=1):
        images = _Corrupted(catalog, rows, kind=kind, level=level, seed=seed)
        results[kind].append(search(encode(images, rung * len(rows)), rows))
    progress(total, total)
    rungs = tuple(
        Rung(
            kind=kind,
            level=level,
            recall=float(right.mean()),
            signals={name: float(np.median(values)) for name, values in signals.items()},
        )
        for kind, found in results.items()
        for level, (right, signals) in enumerate(found)
    )
    spearman = {
        kind: {name: mean_rank_correlation(np.stack([signals[name] for _, signals in found])) for name in found[0][1]}
        for kind, found in results.items()
    }
    return Ladder(queries=len(rows), rungs=rungs, spearman=spearman)


class _Corrupted(Sequence[ImageSource]):
    """Corrupted images, made when they are read to save memory."""

    def __init__(self, catalog: Catalog, rows: Rows, *, kind: str, level: int, seed: int) -> None:
        self.catalog, self.rows = catalog, rows.tolist()
        self.kind, self.level, self.seed = kind, level, seed

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:  # Any: no slices
        row = self.rows[index]
        image = decode_picture(self.catalog.file(row))
        return corrupt(image, self.kind, self.level, seed=(self.seed, row))


def mean_rank_correlation(uncertainty: NDArray[np.float64]) -> float:
    """Return Spearman's correlation of level and uncertainty (levels, n), the mean over n queries.

    A query whose uncertainty is constant counts as 0.
    """
    levels = np.arange(len(uncertainty)) - (len(uncertainty) - 1) / 2
    ranks = rankdata(uncertainty, axis=0)
    ranks -= ranks.mean(axis=0)
    length = np.sqrt((levels**2).sum() * (ranks**2).sum(axis=0))
    correlation = np.divide(levels @ ranks, length, out=np.zeros(len(length)), where=length > 0)
    return float(correlation.mean())


def bar_widths(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the widths of black bars at top, bottom, left and right of an image (H, W, 3).

    They are shares of its height or width; an image that is all black has 1 on every side.
    """
    brightest = pixels.max(axis=2)
    rows, columns = (
        ((lines > BLACK).mean(axis=1) <= STRAY_SHARE) & (lines.max(axis=1) <= STRAY)
        for lines in (brightest, brightest.T)
    )
    return np.array([np.logical_and.accumulate(s).mean() for s in (rows, rows[::-1], columns, columns[::-1])])


def bars_auroc(own: Sequence[Path], foreign: Sequence[Path]) -> float:
    """Return the AUROC with which black bars alone separate foreign images from own ones.

    Where one data set is letterboxed and another is not, any encoder separates them without regard
    to their content: an OOD metric means something only above this baseline. It is the mean over
    five folds of a logistic regression on the widths of the bars and their squares, of at most
    1000 images of each kind. Unreadable images are skipped; nan with fewer than 10 of a kind.
    """
    random = np.random.default_rng(0)

    def widths_of(files: Sequence[Path]) -> NDArray[np.float64]:
        chosen = [files[number] for number in random.permutation(len(files))[:AT_MOST]]
        with ThreadPoolExecutor(4) as pool:
            found = [each for each in pool.map(_widths_of_file, chosen) if each is not None]
        return np.array(found).reshape(-1, 4)

    ours, theirs = widths_of(own), widths_of(foreign)
    if min(len(ours), len(theirs)) < MIN_IMAGES:
        return nan
    widths = np.concatenate([ours, theirs])
    fold = np.concatenate([random.permutation(len(each)) % FOLDS for each in (ours, theirs)])
    is_foreign = np.arange(len(widths)) >= len(ours)
    columns = np.hstack([widths, widths**2])
    probability = crossfitted(columns, is_foreign, fold, directions=(0,) * columns.shape[1])
    return metrics.auroc_within(*map(torch.from_numpy, (probability, is_foreign, fold)))


def _widths_of_file(file: Path) -> NDArray[np.float64] | None:
    with suppress(ImageRejected):
        return bar_widths(decode(file).permute(1, 2, 0).numpy())
    return None
