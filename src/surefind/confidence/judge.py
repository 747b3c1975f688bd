"""Judge hits: the confidence of each, verdicts and labels, and drift of the queries."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefind.confidence.calibration import Calibrated
from surefind.confidence.class_table import ClassTable, Numbers, labels_of
from surefind.confidence.conformal import MATCH
from surefind.confidence.drift import FEWEST, Drift, compare, first_hit_columns, label_reference
from surefind.confidence.evidence import NEIGHBOURS
from surefind.confidence.label_model import label_neighbourhood
from surefind.confidence.match_model import ConfidenceModel
from surefind.confidence.neighbours import copies_among
from surefind.engines.base import Engine, Queries, Rows
from surefind.engines.knn import Nearest, nearest, records_of
from surefind.errors import InvalidArgument


class Judge(NamedTuple):
    """Calibration of an index, and the classes of its images if it rests on them."""

    calibrated: Calibrated
    classes: ClassTable | None
    guaranteed: bool  # whether the guarantee is for this gallery and these searches

    @property
    def field(self) -> str:
        """Metadata field of the labels."""
        return self.calibrated.calibration.origin.field

    def answers(
        self,
        engine: Engine,
        query: Queries,
        near: Nearest,
        labels: Sequence[str | None],
        place: NDArray[np.int64],
        *,
        inside: Rows | None,
    ) -> tuple[Numbers, list[dict[str, Any]]]:
        """Return the confidence of each hit, (Q, K), NaN if unknown, and what results have more.

        `labels` are those of some images, `place` is that of each hit among them, (Q, K). `inside`
        has the rows of the queries if they are in the index.
        """
        calibration, classes = self.calibrated.calibration, self.classes
        confidence = np.full(near.keys.shape, np.nan)
        if classes is None:
            judged = calibration.judge(
                self.calibrated.collect_neighbourhood(engine, query, near, inside=inside is not None)
            )
            confidence[:, :NEIGHBOURS] = judged.confidence
        else:
            code = classes.codes_of(labels)[place]
            order = np.argsort(near.distance[:, :NEIGHBOURS], axis=1, kind="stable")
            nearest_first = np.arange(len(order))[:, None], order
            own = None if inside is None else classes.codes_of(labels_of(inside.metadata, classes.field))
            left_out = None if own is None else (own >= 0).astype(float)
            judged = calibration.judge_labels(
                label_neighbourhood(
                    classes, query.mean, near.distance[nearest_first], code[nearest_first], own=own, left_out=left_out
                )
            )
            confidence[nearest_first] = judged.confidence
        copies = copies_among(near, query.mean)
        copied = np.any(copies, axis=1).tolist()
        answers: list[dict[str, Any]] = [
            {
                "verdict": MATCH if copy else verdict,  # a copy is a match by definition
                "guaranteed": self.guaranteed,
                "variant": calibration.origin.variant,
                "novelty_p_value": 1.0 if copy else p_value,
                "show": 1 if copy else show,
            }
            for copy, verdict, p_value, show in zip(
                copied, judged.verdict, judged.p_value.tolist(), judged.show.tolist(), strict=True
            )
        ]
        if classes is not None and judged.labels is not None:
            every_query = zip(*map(np.ndarray.tolist, judged.labels), strict=True)
            for number, (its, probabilities, size) in enumerate(every_query):
                every = {one: probability for one, probability in zip(its, probabilities, strict=True) if one >= 0}
                for rank, one in enumerate(code[number, NEIGHBOURS:].tolist(), NEIGHBOURS):
                    confidence[number, rank] = every.get(one, np.nan)
                if copied[number] and (one := int(code[number, copies[number].argmax()])) >= 0:
                    every, size = {one: 1.0}, 1
                if every:
                    likely = {classes.names[one]: probability for one, probability in every.items()}
                    label, *others = likely
                    answers[number] |= {
                        "label": label,
                        "label_confidence": likely[label],
                        "labels": likely,
                        "label_set": (label, *others[: size - 1]),
                    }
        confidence[copies] = 1.0
        return confidence, answers

    def drift(self, engine: Engine, query: Queries) -> tuple[Drift, ...]:
        """Return the evidence columns in which queries differ from the calibration queries."""
        calibration = self.calibrated.calibration
        if not calibration.reference_quantiles:
            raise InvalidArgument(
                "index", expected="a calibration with queries of its own", got="the prior calibration"
            )
        near = nearest(engine, query, NEIGHBOURS, ranking=calibration.origin.ranking)
        enough = np.flatnonzero(near.found == NEIGHBOURS)
        if len(enough) < FEWEST:
            raise InvalidArgument(
                "queries",
                expected=f"at least {FEWEST} queries that find {NEIGHBOURS} images each",
                got=f"{len(enough)} of {len(query.mean)}",
            )
        near, query = near.at(enough), query.at(enough)
        if self.classes is not None:
            records, place = records_of(engine, near)
            labels = labels_of(records.metadata, self.classes.field)
            code = self.classes.codes_of(labels)[place]
            found = label_neighbourhood(self.classes, query.mean, near.distance, code)
            sure = np.nanmax(calibration.judge_labels(found).confidence, axis=1, initial=0.0)
            return compare(calibration.reference_quantiles, label_reference(found, sure))
        assert isinstance(calibration.model, ConfidenceModel)
        neighbourhood = self.calibrated.collect_neighbourhood(engine, query, near)
        sure = calibration.model.confidence(neighbourhood).max(axis=1)
        now = first_hit_columns(neighbourhood, calibration.model.names, sure)
        return compare(calibration.reference_quantiles, now)
