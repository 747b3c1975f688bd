"""Variance and calibrated confidence for existing vectors, which stay unchanged."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from surefind.confidence.calibrate import (
    CalibrationTargets,
    Progress,
    calibrate_engine,
    fit_query_variance,
    own_queries,
    rows_without_copies,
)
from surefind.confidence.calibration import Calibrated, Calibration, calibration_documents, read_calibration
from surefind.confidence.labelled_queries import QueryVariance, check_queries
from surefind.confidence.neighbours import LocalDensity
from surefind.confidence.variance_heads import VarianceHeads
from surefind.embeddings import Gaussians
from surefind.engines.base import Rows, Space
from surefind.engines.filters import Metadata
from surefind.engines.registry import create_engine
from surefind.errors import InvalidFile, SurefindError
from surefind.search.folder import EMBEDDED, UPGRADE_FILE, IndexFolder
from surefind.search.index import Index
from surefind.storage import Documents
from surefind.vectors.reader import Values, as_points, as_texts, as_vectors, check_all_labelled

SCHEMA = 1
RANKING = "mean"
FACTS = "upgrade.json"


@dataclass(frozen=True)
class Upgrade:
    """Variance heads and calibration for vectors of one model. Made by `surefind.calibrate`."""

    dim: int  # of the vectors
    calibrated: Calibrated

    @property
    def calibration(self) -> Calibration:
        return self.calibrated.calibration

    @property
    def heads(self) -> VarianceHeads | None:
        return self.calibrated.heads

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint_of(self.dim, self.heads)

    def embed(self, vectors: Values) -> Gaussians:
        """Return vectors (N, D) as Gaussians with learned variances."""
        points = as_points(vectors, self.dim)
        return points if self.heads is None else Gaussians(points.mean, self.heads.var(points.mean))

    def index(
        self,
        folder: str | Path,
        vectors: Values,
        *,
        ids: Sequence[str] | None = None,
        labels: Sequence[object] | None = None,
        metadata: Sequence[Metadata] | None = None,
        engine: str = EMBEDDED,
        kind: str = "auto",
    ) -> Index:
        """Create a calibrated index of vectors; search it with `embed(queries)`.

        The calibration is that of the labelled vectors; `index.calibrate()` fits one to this
        gallery, if it has labels.

        Args:
            folder: Folder to create.
            vectors: (N, D).
            ids: Ids; by default row numbers.
            labels: Labels; missing ones may be None, NaN or empty.
            metadata: Metadata per vector.
            engine: Vector store, as for `Index.create`.
            kind: Kind of search structure.

        Raises:
            InvalidArgument: An argument has the wrong shape or length; no folder is created.
        """
        embeddings = self.embed(vectors)
        count = len(embeddings)
        names = [f"row {row}" for row in range(count)] if ids is None else [str(id_) for id_ in ids]
        facts = [dict(its) for its in ([{}] * count if metadata is None else metadata)]
        for its, text in zip(facts, [] if labels is None else as_texts(labels, count), strict=False):
            its |= {"label": text} if text else {}
        # Checks lengths and ids before the folder is created.
        Rows(tuple(names), embeddings, ("",) * len(names), tuple(facts))
        index = self.make_index(folder, engine=engine, kind=kind)
        index.add_embeddings(embeddings, names, metadata=facts)
        index.adopt(self.calibrated)
        return index

    def make_index(self, folder: str | Path, *, engine: str = EMBEDDED, kind: str = "auto") -> Index:
        """Create an empty, uncalibrated index for `embed(vectors)`."""
        index = Index.create_empty(
            folder, Space(Gaussians.family, self.dim, RANKING), fingerprint=self.fingerprint, engine=engine, kind=kind
        )
        self.save(IndexFolder(Path(folder)).upgrade)
        return index

    def save(self, folder: str | Path) -> None:
        """Save to a folder, without the local density of the gallery."""
        without = replace(self.calibrated, density=LocalDensity.empty())
        facts = {"schema": SCHEMA, "dim": self.dim, "fingerprint": self.fingerprint}
        documents = {FACTS: json.dumps(facts).encode()}
        Documents(Path(folder) / UPGRADE_FILE).write(documents | calibration_documents(without))

    @classmethod
    def load(cls, folder: str | Path) -> "Upgrade":
        """Read from a folder; raise InvalidFile if there is none or it is damaged."""
        place = Path(folder)
        path = place / UPGRADE_FILE
        if not path.exists():
            raise InvalidFile(
                f"{place} holds no upgrade: {UPGRADE_FILE} is missing",
                fix="name the folder that `surefind upgrade` wrote",
            )
        try:
            documents = Documents(path)
            facts = json.loads(documents.read(FACTS).get(FACTS, b"{}"))
            if (schema := facts.get("schema")) != SCHEMA:
                raise InvalidFile(f"{path} has schema {schema!r}, this version reads {SCHEMA}")
            calibrated = read_calibration(documents, fingerprint=facts["fingerprint"], ranking=RANKING)
            made = cls(int(facts["dim"]), calibrated)
            if made.fingerprint != facts["fingerprint"]:
                raise InvalidFile("its parts belong to different upgrades")
        except SurefindError as error:
            raise InvalidFile(
                f"{place} holds no whole upgrade: {error.problem}",
                fix="restore it from a copy, or upgrade the vectors again: surefind upgrade VECTORS -o FOLDER",
            ) from error
        return made

    @classmethod
    def of_index(cls, folder: str | Path) -> "Upgrade | None":
        """Upgrade of an index of vectors; None for an index of images."""
        place = IndexFolder(Path(folder)).upgrade
        return cls.load(place) if place.exists() else None


def is_upgrade(folder: str | Path) -> bool:
    """Whether the folder holds an upgrade."""
    return (Path(folder) / UPGRADE_FILE).exists()


def fingerprint_of(dim: int, heads: VarianceHeads | None) -> str:
    """Fingerprint of `embed`."""
    digest = hashlib.sha256(f"vectors of {dim} dimensions\n".encode())
    for name, tensor in sorted(heads.tensors().items()) if heads is not None else ():
        digest.update(f"{name} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()


def calibrate(
    vectors: Values,
    labels: Sequence[object],
    *,
    targets: CalibrationTargets | None = None,
    learn_variance: bool = True,
    seed: int = 0,
    progress: Progress = lambda *_: None,
) -> Upgrade:
    """Fit variance and calibrated confidence to labelled vectors of any model.

    The vectors search one another; of copies, only the first is used.

    Args:
        vectors: (N, D); they are not changed.
        labels: (N,). Use classes that the model was not trained on.
        targets: Requested precision, miss rate, novelty level.
        learn_variance: Learn variance heads; otherwise vectors are points.
        seed: Seed of sampling and training.
        progress: Called with stage, done, total.

    Raises:
        InvalidArgument: Vectors or labels are invalid or too few.
    """
    given = torch.from_numpy(as_vectors(vectors))
    names = as_texts(labels, len(given))
    check_all_labelled(names)
    check_queries(np.unique(names, return_inverse=True)[1])  # before the work
    once = rows_without_copies(given, names)
    mean, names = given[once], [names[row] for row in once]
    groups = np.unique(names, return_inverse=True)[1]
    dim, query_variance = mean.shape[1], QueryVariance(None, np.zeros(len(mean)))
    if learn_variance:
        query_variance = fit_query_variance(mean, groups, what="vectors", seed=seed, progress=progress)
    with TemporaryDirectory(prefix="surefind-") as folder:
        facts = {"fingerprint": fingerprint_of(dim, query_variance.heads)}
        space = Space(Gaussians.family, dim, RANKING)
        engine = create_engine(str(Path(folder) / "gallery"), space, facts, kind="auto")
        engine.add(
            Rows(
                ids=tuple(map(str, range(len(mean)))),
                embeddings=as_points(mean),
                digests=("",) * len(mean),
                metadata=tuple({"label": name} for name in names),
            )
        )
        queries = own_queries(engine, seed=seed)._replace(copies=len(given) - len(mean))
        rows = np.array([int(name) for name in queries.self_ids])
        calibrated = calibrate_engine(
            engine,
            queries,
            targets or CalibrationTargets(),
            source=f"{len(given)} labelled vectors",
            query_variance=query_variance.at(rows),
            progress=progress,
        )
        engine.close()
    return Upgrade(dim, calibrated)
