"""From results to what a client is sent: no path of this machine, no number that is none."""

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from surefind.engines.engine import Rows
from surefind.engines.where import Metadata
from surefind.search.confidence.calibration import Calibration
from surefind.search.hits import Hit, SearchResult
from surefind.search.sentences import how_many_to_look_at, made_with, meaning
from surefind.serve.asking import PATH, Answered, Seconds
from surefind.serve.gallery.items import item_of
from surefind.serve.schemas import (
    HitAnswer,
    IndexAnswer,
    Item,
    Links,
    QueryAnswer,
    SearchAnswer,
    SecondsAnswer,
)


def search_answer(answered: Answered) -> SearchAnswer:
    result, shown = answered.result, answered.shown
    calibration = shown.index.calibration
    judged = result.verdict is not None
    return SearchAnswer(
        query=_query(answered),
        ranking=result.ranking,
        reranked=result.reranked,
        verdict=result.verdict,  # type: ignore[arg-type]  # checked by the model
        sentence=meaning(result, calibration) if judged else None,
        confidence=result.confidence,
        novelty_p_value=result.novelty_p_value,
        show=result.show,
        advice=how_many_to_look_at(result, calibration),
        uncalibrated=result.uncalibrated and shown.without_folder(result.uncalibrated),
        calibrated=_rests_on(result, calibration),
        hits=[_hit(rank + 1, hit) for rank, hit in enumerate(result.hits)],
        index=IndexAnswer(images=shown.images, version=shown.version),
        seconds=SecondsAnswer(**asdict(answered.seconds)),
    )


def item_answer(rows: Rows) -> Item:
    """Of the first row."""
    name, metadata = rows.ids[0], rows.metadata[0]
    spread = float(rows.embeddings.spread[0])
    var = 1 / spread if rows.embeddings.family == "von-mises-fisher" else spread
    return Item(**_item(name, metadata), var=finite(var))


def server_timing(seconds: Seconds) -> str:
    """The header that browsers show beside a request, in milliseconds."""
    return ", ".join(f"{stage};dur={1000 * spent:.1f}" for stage, spent in asdict(seconds).items())


def links_of(item: str) -> Links:
    place = f"/v1/items/{item}"
    return Links(item=place, thumbnail=f"{place}/thumbnail", neighbours=f"{place}/neighbours")


def without_path(calibration: Calibration) -> Calibration:
    """The source of the labelled queries by its name alone."""
    name = Path(calibration.origin.source).name
    return replace(calibration, origin=replace(calibration.origin, source=name))


def finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def _query(answered: Answered) -> QueryAnswer:
    picture = {} if answered.picture is None else answered.picture._asdict()
    known: dict[str, Any] = {}
    if answered.item is not None:
        known = {"id": answered.item, "item": item_of(answered.item)}
    return QueryAnswer(var=finite(answered.result.query_var), **picture, **known)


def _rests_on(result: SearchResult, calibration: Calibration | None) -> str | None:
    if calibration is None or result.verdict is None:
        return None
    return made_with(without_path(calibration))


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
    label = metadata.get("label")
    return {
        "item": item,
        "id": name,
        "label": None if label is None else str(label),
        "metadata": {key: value for key, value in metadata.items() if key != PATH},
        "links": links_of(item),
    }
