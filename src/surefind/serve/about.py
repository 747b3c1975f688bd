"""What the service tells about the index it serves."""

from dataclasses import asdict
from typing import Any

import surefind
from surefind.functional.ranking import RANKINGS
from surefind.images.decode import FORMATS
from surefind.search import sentences
from surefind.search.confidence.calibration import Calibration
from surefind.serve.answers import finite, without_path
from surefind.serve.gallery.curve import reliability, threshold_curve
from surefind.serve.schemas import (
    CalibrationAnswer,
    InfoAnswer,
    LimitsAnswer,
    ReliabilityAnswer,
    SampleAnswer,
    ThresholdAnswer,
)
from surefind.serve.settings import MAX_K
from surefind.serve.shelf import Shown


def info_answer(
    shown: Shown,
    *,
    max_bytes: int,
    has_variance: bool,
    labelled: bool,
    pictures: bool,
    samples: list[dict[str, Any]],
    report: bool,
) -> InfoAnswer:
    index = shown.index
    facts, calibration = index.describe(), index.calibration
    name = index.folder.resolve().name
    return InfoAnswer(
        name=name,
        images=shown.images,
        family=facts["family"],
        dim=facts["dim"],
        ranking=facts["ranking"],
        rankings=list(RANKINGS),
        engine=str(facts["engine"]).partition("://")[0],
        version=shown.version,
        created=facts.get("created"),
        fingerprint=facts["fingerprint"],
        surefind=surefind.__version__,
        takes_images=index.has_model,
        has_variance=has_variance,
        labelled=labelled,
        pictures=pictures,
        limits=LimitsAnswer(max_bytes=max_bytes, max_k=MAX_K, formats=list(FORMATS)),
        warnings=_warnings(shown),
        calibration=None if calibration is None else _calibration(calibration),
        how_to_calibrate=None if calibration else f"surefind calibrate {name} DATA",
        samples=[SampleAnswer(**sample) for sample in samples],
        report="/report/" if report else None,
    )


def _warnings(shown: Shown) -> list[str]:
    calibration = shown.index.calibration
    change = None if calibration is None else sentences.gallery_change(calibration, shown.images)
    return [*shown.warnings, *(told for told in (change, shown.trouble) if told)]


def _calibration(calibration: Calibration) -> CalibrationAnswer:
    calibration = without_path(calibration)
    origin, promise = calibration.origin, calibration.promise
    return CalibrationAnswer(
        created=origin.created,
        source=origin.source,
        queries=origin.queries,
        classes=origin.classes,
        copies=origin.copies,
        remarks=list(origin.remarks),
        made_with=sentences.made_with(calibration),
        left_out=sentences.copies_left_out(calibration),
        promised=sentences.promised(promise),
        shown=sentences.shown(calibration.showing),
        foreign=sentences.foreign_rule(calibration),
        threshold=promise.threshold,
        precision=promise.precision,
        probability=promise.probability,
        coverage=promise.coverage,
        foreign_rate=calibration.foreign_rate,
        quality={name: finite(value) for name, value in asdict(calibration.quality).items()},
        curve=[
            ThresholdAnswer(**row)
            for row in threshold_curve(calibration.curve, promised=promise.threshold)
        ],
        reliability=[ReliabilityAnswer(**row) for row in reliability(calibration.curve)],
    )
