"""Store a calibration as documents: JSON, and safetensors of its arrays."""

import json
from dataclasses import asdict

from safetensors import SafetensorError
from safetensors.torch import load, save

from surefind.confidence.calibration import Calibrated, Calibration, Origin
from surefind.confidence.density import LocalDensity
from surefind.confidence.evidence import COLUMNS
from surefind.confidence.variance_heads import VarianceHeads
from surefind.errors import InvalidFile, SurefindError
from surefind.settings import parse
from surefind.storage import Documents

SCHEMA = 1
CALIBRATION = "calibration"  # prefix of the document names
FACTS, DENSITY, HEADS = (f"{CALIBRATION}.{its}" for its in ("json", "density", "heads"))
REMEDY = "calibrate again: surefind calibrate INDEX DATA"


def calibration_documents(calibrated: Calibrated) -> dict[str, bytes | None]:
    """Return the documents of a calibration; None deletes one."""
    heads = calibrated.heads
    facts = {
        "schema": SCHEMA,
        "calibration": asdict(calibrated.calibration),
        "heads": heads is not None,
    }
    return {
        FACTS: json.dumps(facts, allow_nan=False).encode(),
        DENSITY: calibrated.density.to_bytes(),
        HEADS: None if heads is None else save(heads.tensors()),
    }


def read_calibration(documents: Documents, *, fingerprint: str, ranking: str) -> Calibrated:
    """Read a calibration; raise InvalidFile if it is damaged or of another model or ranking."""
    path = documents.path
    try:
        found = documents.read(CALIBRATION)
        facts = json.loads(found[FACTS])
        if facts["schema"] != SCHEMA:
            raise InvalidFile(
                f"{path}: the calibration has schema {facts['schema']!r}, this version "
                f"reads {SCHEMA}"
            )
        calibration = parse(Calibration, facts["calibration"], where=str(path))
        check_origin(calibration.origin, fingerprint, ranking)
        if unknown := set(calibration.model.names) - COLUMNS.keys():
            raise InvalidFile(
                f"{path}: the calibration has evidence that this version does not know: "
                f"{min(unknown)}"
            )
        heads = VarianceHeads.from_tensors(load(found[HEADS])) if facts["heads"] else None
        return Calibrated(calibration, LocalDensity.from_bytes(found[DENSITY]), heads)
    except SurefindError as error:
        raise InvalidFile(error.problem, fix=REMEDY) from error
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise InvalidFile(
            f"the calibration in {path} cannot be read: {error}", fix=REMEDY
        ) from error


def check_origin(origin: Origin, fingerprint: str, ranking: str) -> None:
    """Raise InvalidFile if a calibration is of another model or ranking."""
    if (origin.fingerprint, origin.ranking) != (fingerprint, ranking):
        raise InvalidFile(
            f"this is the calibration of another index: model {origin.fingerprint[:12]} by "
            f"{origin.ranking} distance, this index has {fingerprint[:12]} by {ranking}",
            fix=REMEDY,
        )
