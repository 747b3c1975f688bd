"""Labelled vectors to an upgrade: which are vague, and how sure a hit among them is."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from torch import Tensor

from surefind.embeddings import Gaussians
from surefind.encoders.encoder import POINT_VAR
from surefind.engines.engine import Engine, Rows
from surefind.engines.opening import create_engine
from surefind.engines.space import Space
from surefind.search.confidence.calibrate import (
    Progress,
    Wishes,
    calibrate_engine,
    fit_doubt,
    own_queries,
    rows_asked,
)
from surefind.search.confidence.labelled_queries import check_queries
from surefind.search.confidence.variance_heads import VarianceHeads
from surefind.upgrade.upgrade import RANKING, Upgrade, fingerprint_of
from surefind.upgrade.validation import Values, as_texts, as_vectors, check_all_labelled


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

    The labelled vectors search one another; of those that are copies of one another, only the
    first is used. Classes should be ones that the model was not trained with. `learn_doubt` learns
    heads that say how vague a vector is; without, there is no variance.
    """
    given = as_vectors(vectors)
    names = as_texts(labels, len(given))
    check_all_labelled(names)
    check_queries(np.unique(names, return_inverse=True)[1])  # before the work
    once = rows_asked(given, names)
    mean, names = given[once], [names[row] for row in once]
    groups = np.unique(names, return_inverse=True)[1]
    doubt = None
    if learn_doubt:
        doubt = fit_doubt(mean, groups, what="vectors", seed=seed, progress=progress)
    with TemporaryDirectory(prefix="surefind-") as folder:
        engine = _gallery(Path(folder), mean, names, None if doubt is None else doubt.heads)
        queries = own_queries(engine, seed=seed)._replace(copies=len(given) - len(mean))
        rows = np.array([int(name) for name in queries.itself])
        calibrated = calibrate_engine(
            engine,
            queries,
            wishes or Wishes(),
            ranking=RANKING,
            source=f"{len(given)} labelled vectors",
            doubt=None if doubt is None else doubt.at(rows),
            progress=progress,
        )
        engine.close()
    return Upgrade(mean.shape[1], calibrated)


def _gallery(
    folder: Path, mean: Tensor, names: Sequence[str], heads: VarianceHeads | None
) -> Engine:
    """The vectors in an engine, without a variance: what heads say of them is the doubt."""
    facts = {"fingerprint": fingerprint_of(mean.shape[1], heads)}
    space = Space(Gaussians.family, mean.shape[1], RANKING)
    engine = create_engine(str(folder / "gallery"), space, facts, kind="auto")
    engine.add(
        Rows(
            ids=tuple(str(row) for row in range(len(mean))),
            embeddings=Gaussians(mean, mean.new_full((len(mean),), POINT_VAR)),
            digests=("",) * len(mean),
            metadata=tuple({"label": name} for name in names),
        )
    )
    return engine
