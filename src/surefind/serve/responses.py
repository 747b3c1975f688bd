"""From results to what a client is sent: no path of this machine, no number that is none."""

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import surefind
from surefind.engines.engine import Rows
from surefind.engines.where import Metadata
from surefind.functional.ranking import RANKINGS
from surefind.images.decode import FORMATS
from surefind.search import sentences
from surefind.search.confidence.calibration import Calibration
from surefind.search.hits import Hit
from surefind.serve.gallery import item_of, reliability, threshold_curve
from surefind.serve.live_index import ServedVersion
from surefind.serve.schemas import (
    CalibrationAnswer,
    HitAnswer,
    IndexAnswer,
    InfoAnswer,
    Item,
    LimitsAnswer,
    Links,
    QueryAnswer,
    SampleAnswer,
    SearchAnswer,
    SecondsAnswer,
)
from surefind.serve.service import PATH, Answered
from surefind.serve.settings import MAX_K
from surefind.serve.state import AppState


def search_answer(answered: Answered) -> SearchAnswer:
    result, served = answered.result, answered.served
    calibration = served.index.calibration
    judged = result.verdict is not None
    asked: dict[str, Any] = answered.picture or {}
    if answered.item is not None:
        asked = {"id": answered.item, "item": item_of(answered.item)}
    return SearchAnswer(
        query=QueryAnswer(var=finite(result.query_var), **asked),
        ranking=result.ranking,
        reranked=result.reranked,
        verdict=result.verdict,  # type: ignore[arg-type]  # checked by the model
        sentence=sentences.meaning(result, calibration) if judged else None,
        confidence=result.confidence,
        novelty_p_value=result.novelty_p_value,
        show=result.show,
        advice=sentences.how_many_to_look_at(result, calibration),
        uncalibrated=result.uncalibrated and served.without_folder(result.uncalibrated),
        calibrated=sentences.made_with(_without_path(calibration))
        if judged and calibration is not None
        else None,
        hits=[_hit(rank, hit) for rank, hit in enumerate(result.hits, 1)],
        index=IndexAnswer(images=served.images, version=served.version),
        seconds=SecondsAnswer(**asdict(answered.seconds)),
    )


def item_answer(rows: Rows) -> Item:
    """Of the first row."""
    spread = float(rows.embeddings.spread[0])
    var = 1 / spread if rows.embeddings.family == "von-mises-fisher" else spread
    return Item(**_item(rows.ids[0], rows.metadata[0]), var=finite(var))


def info_answer(state: AppState) -> InfoAnswer:
    """The index, its calibration and the limits; not for the event loop."""
    served, (sample, _) = state.service.live.current, state.overview()
    index = served.index
    facts, calibration = index.describe(), index.calibration
    name = index.folder.resolve().name
    samples = sample.to_try()
    if state.samples is not None:
        links = [f"/v1/samples/{number}" for number in range(len(state.samples))]
        samples = [
            SampleAnswer(name=one.name, image=link, item=None, thumbnail=link)
            for one, link in zip(state.samples, links, strict=True)
        ]
    return InfoAnswer(
        name=name,
        images=served.images,
        family=facts["family"],
        dim=facts["dim"],
        ranking=facts["ranking"],
        rankings=list(RANKINGS),
        engine=str(facts["engine"]).partition("://")[0],
        version=served.version,
        created=facts.get("created"),
        fingerprint=facts["fingerprint"],
        surefind=surefind.__version__,
        takes_images=index.has_model,
        has_variance=bool(sample.uncertainty.edges),
        labelled=sample.labelled,
        pictures=bool(state.picture_roots),
        limits=LimitsAnswer(max_bytes=state.settings.max_bytes, max_k=MAX_K, formats=list(FORMATS)),
        warnings=_warnings(served),
        calibration=None if calibration is None else _calibration(calibration),
        how_to_calibrate=None if calibration else f"surefind calibrate {name} DATA",
        samples=samples,
        report=None if state.report is None else "/report/",
    )


def finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def _warnings(served: ServedVersion) -> list[str]:
    calibration = served.index.calibration
    change = None if calibration is None else sentences.gallery_change(calibration, served.images)
    return [*served.warnings, *(told for told in (change, served.trouble) if told)]


def _calibration(calibration: Calibration) -> CalibrationAnswer:
    calibration = _without_path(calibration)
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
        curve=threshold_curve(calibration.curve, promised=promise.threshold),
        reliability=reliability(calibration.curve),
    )


def _without_path(calibration: Calibration) -> Calibration:
    """The source of the labelled queries by its name alone."""
    name = Path(calibration.origin.source).name
    return replace(calibration, origin=replace(calibration.origin, source=name))


def _hit(rank: int, hit: Hit) -> HitAnswer:
    return HitAnswer(
        **_item(hit.id, hit.metadata),
        rank=rank,
        var=finite(hit.var),
        distance=finite(hit.distance),
        expected_distance=finite(hit.expected_distance),
        std=finite(hit.std),
        confidence=hit.confidence,
    )


def _item(name: str, metadata: Metadata) -> dict[str, Any]:
    item = item_of(name)
    place, label = f"/v1/items/{item}", metadata.get("label")
    return {
        "item": item,
        "id": name,
        "label": None if label is None else str(label),
        "metadata": {key: value for key, value in metadata.items() if key != PATH},
        "links": Links(
            item=place, thumbnail=f"{place}/thumbnail", neighbours=f"{place}/neighbours"
        ),
    }
