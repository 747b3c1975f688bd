"""Uncertainty for vectors that one already has, from any model: they stay as they are."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from torch import Tensor

from surefind.embeddings import Gaussians
from surefind.encoders.encoder import POINT_VAR
from surefind.engines.engine import Rows
from surefind.engines.space import Space
from surefind.engines.where import Metadata
from surefind.errors import InvalidArgument, InvalidFile, SurefindError
from surefind.search.confidence.calibration import Calibrated, Calibration
from surefind.search.confidence.saving import calibration_documents, read_calibration
from surefind.search.confidence.variance_heads import VarianceHeads
from surefind.search.folder import EMBEDDED, IndexFolder
from surefind.search.index import Index
from surefind.search.neighbourhoods import Neighbourhoods
from surefind.storage import Documents
from surefind.upgrade.validation import Values, as_texts, as_vectors

SCHEMA = 1
RANKING = "mean"
FILE, FACTS = "upgrade.db", "upgrade.json"


@dataclass(frozen=True)
class Upgrade:
    """Heads that say how vague a vector is, and a calibration. Made by `surefind.calibrate`."""

    dim: int
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
        """Vectors (N, D) as they are, each with its variance."""
        mean = as_vectors(vectors, self.dim)
        if self.heads is None:
            return Gaussians(mean, mean.new_full((len(mean),), POINT_VAR))
        return Gaussians(mean, self.heads.var(mean))

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
        """A calibrated index of vectors, to be asked with `embed(queries)`.

        The calibration is that of the labelled vectors; `index.calibrate()` makes one for this
        gallery, if it has labels.
        """
        embeddings = self.embed(vectors)
        count = len(embeddings)
        names = [f"row {row}" for row in range(count)] if ids is None else [str(id_) for id_ in ids]
        known = [{}] * count if metadata is None else metadata
        if len(known) != count:
            raise InvalidArgument(
                "metadata", expected=f"{count}, one per vector", got=str(len(known))
            )
        texts = [""] * count if labels is None else as_texts(labels, count)
        facts = [
            {**its, **({"label": text} if text else {})}
            for its, text in zip(known, texts, strict=True)
        ]
        Rows(tuple(names), embeddings, ("",) * len(names), tuple(facts))  # refused before the work
        index = self.make_index(folder, engine=engine, kind=kind)
        index.add_embeddings(embeddings, names, metadata=facts)
        index.adopt(self.calibrated)
        return index

    def make_index(
        self, folder: str | Path, *, engine: str = EMBEDDED, kind: str = "auto"
    ) -> Index:
        """An empty index for `embed(vectors)`, not calibrated yet."""
        index = Index.create_empty(
            folder,
            Space(Gaussians.family, self.dim, RANKING),
            fingerprint=self.fingerprint,
            engine=engine,
            kind=kind,
        )
        self.save(IndexFolder(Path(folder)).upgrade)
        return index

    def save(self, folder: str | Path) -> None:
        """Write it to a folder; what is about one gallery alone is left out."""
        without = replace(self.calibrated, neighbourhoods=Neighbourhoods.empty())
        facts = {"schema": SCHEMA, "dim": self.dim, "fingerprint": self.fingerprint}
        documents = {FACTS: json.dumps(facts).encode()}
        Documents(Path(folder) / FILE).write(documents | calibration_documents(without))

    @classmethod
    def load(cls, folder: str | Path) -> "Upgrade":
        place = Path(folder)
        path = place / FILE
        if not path.exists():
            raise InvalidFile(
                f"{place} holds no upgrade: {FILE} is missing",
                fix="name the folder that `surefind upgrade` wrote",
            )
        try:
            documents = Documents(path)
            facts = json.loads(documents.read(FACTS).get(FACTS, b"{}"))
            if facts.get("schema") != SCHEMA:
                schema = facts.get("schema")
                raise InvalidFile(f"{path} has schema {schema!r}, this version reads {SCHEMA}")
            calibrated = read_calibration(
                documents, fingerprint=facts["fingerprint"], ranking=RANKING
            )
            made = cls(int(facts["dim"]), calibrated)
            if made.fingerprint != facts["fingerprint"]:
                raise InvalidFile("it is put together of two upgrades")
        except SurefindError as error:
            raise InvalidFile(
                f"{place} holds no whole upgrade: {error.problem}",
                fix="restore it from a copy, or upgrade the vectors again: "
                "surefind upgrade VECTORS -o FOLDER",
            ) from error
        return made

    @classmethod
    def of_index(cls, folder: str | Path) -> "Upgrade | None":
        """That of an index of vectors; none for an index of images."""
        place = IndexFolder(Path(folder)).upgrade
        return cls.load(place) if place.exists() else None


def is_upgrade(folder: str | Path) -> bool:
    return (Path(folder) / FILE).exists()


def fingerprint_of(dim: int, heads: VarianceHeads | None) -> str:
    """Of what `embed` computes."""
    digest = hashlib.sha256(f"vectors of {dim} dimensions\n".encode())
    tensors: Mapping[str, Tensor] = {} if heads is None else heads.tensors()
    for name in sorted(tensors):
        digest.update(f"{name} {tuple(tensors[name].shape)}\n".encode())
        digest.update(tensors[name].contiguous().numpy().data)
    return digest.hexdigest()
