"""Labelled vectors to an upgrade: which are vague, and how sure a hit among them is."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor

from surefind.embeddings import Gaussians
from surefind.encoders.encoder import POINT_VAR
from surefind.engines.engine import Engine, Rows
from surefind.engines.opening import create_engine
from surefind.engines.space import Space
from surefind.errors import InvalidArgument
from surefind.search.calibrating import STEPS, Progress, calibrate_engine, own_queries
from surefind.search.confidence.fitting import Wishes, check_wishes
from surefind.search.confidence.observed import check_queries
from surefind.search.confidence.observing import Doubt
from surefind.search.doubt.fitting import Fitted, fit_variance_heads
from surefind.upgrade.given import Values, as_texts, as_vectors
from surefind.upgrade.upgrade import RANKING, Upgrade, fingerprint_of


def calibrate(
    vectors: Values,
    labels: Sequence[object],
    *,
    wishes: Wishes | None = None,
    learn_doubt: bool = True,
    seed: int = 0,
    progress: Progress = lambda *_: None,
) -> Upgrade:
    """Uncertainty and calibrated confidence for vectors (N, D) of any model, which stay the same.

    The labelled vectors search one another. Classes should be ones that the model was not trained
    with. `learn_doubt` learns heads that say how vague a vector is; without, there is no variance.
    """
    wishes = wishes or Wishes()
    check_wishes(wishes)
    mean = as_vectors(vectors)
    names = _checked_labels(labels, len(mean))
    fitted = None
    if learn_doubt:
        fitted = fit_variance_heads(
            mean,
            names,
            steps=STEPS,
            seed=seed,
            progress=lambda done: progress("learning which vectors are vague", done, STEPS),
        )
    heads = None if fitted is None else fitted.heads
    with TemporaryDirectory(prefix="surefind-") as folder:
        engine = _gallery(Path(folder), mean, names, fitted)
        queries = own_queries(engine, seed=seed)
        rows = [int(name) for name in queries.itself]
        calibrated = calibrate_engine(
            engine,
            queries,
            wishes,
            ranking=RANKING,
            source=f"{len(mean)} labelled vectors",
            doubt=Doubt(heads, _doubt(fitted, rows)),
            progress=progress,
        )
        engine.close()
    return Upgrade(mean.shape[1], calibrated)


def _gallery(folder: Path, mean: Tensor, names: Sequence[str], fitted: Fitted | None) -> Engine:
    """The vectors in an engine, each as vague as heads say that did not see its class."""
    facts = {"fingerprint": fingerprint_of(mean.shape[1], fitted.heads if fitted else None)}
    space = Space(Gaussians.family, mean.shape[1], RANKING)
    engine = create_engine(str(folder / "gallery"), space, facts, kind="auto")
    var = mean.new_full((len(mean),), POINT_VAR) if fitted is None else fitted.log_var.exp()
    engine.add(
        Rows(
            ids=tuple(str(row) for row in range(len(mean))),
            embeddings=Gaussians(mean, var.float()),
            digests=("",) * len(mean),
            metadata=tuple({"label": name} for name in names),
        )
    )
    return engine


def _doubt(
    fitted: Fitted | None, rows: list[int]
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    if fitted is None:
        return np.zeros((len(rows), 2))
    return torch.stack([fitted.log_var, fitted.disagreement], dim=1)[rows].double().numpy()


def _checked_labels(labels: Sequence[object], count: int) -> list[str]:
    """All that can be known to be missing before the work."""
    names = as_texts(labels, count)
    missing = names.count("")
    if missing:
        raise InvalidArgument(
            "labels",
            expected="a label for every vector",
            got=f"{missing} of {count} missing",
            fix="leave out the vectors whose label is not known",
        )
    check_queries(np.unique(names, return_inverse=True)[1])
    return names
