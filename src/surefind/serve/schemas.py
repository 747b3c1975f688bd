"""What the routes answer with, as OpenAPI describes it."""

from typing import Any, Literal

from pydantic import BaseModel, Field

Number = float | None


class Problem(BaseModel):
    """What went wrong, and what to do about it."""

    problem: str
    fix: str


class ErrorAnswer(BaseModel):
    error: Problem


class Links(BaseModel):
    item: str
    thumbnail: str
    neighbours: str


class Item(BaseModel):
    item: str = Field(description="The image's name in URLs.")
    id: str
    label: str | None
    var: Number = Field(description="How vague the image is; 1/kappa on the sphere.")
    metadata: dict[str, Any]
    links: Links


class HitAnswer(Item):
    rank: int
    distance: Number = Field(description="Squared, between the means.")
    expected_distance: Number
    std: Number = Field(description="How far the true distance may be from the expected one.")
    confidence: Number = Field(description="Calibrated probability of a match; null until then.")


class QueryAnswer(BaseModel):
    var: Number
    bytes: int | None = None
    width: int | None = None
    height: int | None = None
    item: str | None = None
    id: str | None = None


class IndexAnswer(BaseModel):
    images: int
    version: int | None


class SecondsAnswer(BaseModel):
    decode: float
    wait: float
    encode: float
    search: float
    total: float


class SearchAnswer(BaseModel):
    query: QueryAnswer
    ranking: str
    reranked: bool = Field(description="Candidates of the index's own ranking, re-ordered.")
    verdict: Literal["match", "unsure", "foreign"] | None
    sentence: str | None = Field(description="Why that is the verdict.")
    confidence: Number = Field(description="That the first hit is a match.")
    novelty_p_value: Number
    show: int | None = Field(description="So many hits are worth a look.")
    advice: str | None
    uncalibrated: str | None = Field(description="Why there is no confidence.")
    calibrated: str | None = Field(description="What confidence rests on.")
    hits: list[HitAnswer]
    index: IndexAnswer
    seconds: SecondsAnswer


class EmbeddingAnswer(BaseModel):
    family: str
    mean: list[float]
    var: float
    fingerprint: str


class Vector(BaseModel):
    vector: list[float] = Field(min_length=1, max_length=65_536)


class TokenGiven(BaseModel):
    token: str = Field(max_length=4096)


class ThresholdAnswer(BaseModel):
    threshold: float
    coverage: float = Field(description="Share of the queries that are answered.")
    precision: Number = Field(description="Share of the answers that are right.")
    answered: int
    right: int


class ReliabilityAnswer(BaseModel):
    confidence: float = Field(description="What was said, on average.")
    right: float = Field(description="What was true.")
    queries: int


class CalibrationAnswer(BaseModel):
    created: str
    source: str
    queries: int
    classes: int
    copies: int = Field(description="Images left out because they are copies of a query.")
    remarks: list[str]
    made_with: str
    left_out: str | None = Field(description="The copies in a sentence; null if there are none.")
    promised: str
    shown: str
    foreign: str
    threshold: Number = Field(description="Confidence from which a hit is called a match.")
    precision: float
    probability: float
    coverage: float
    foreign_rate: float
    quality: dict[str, Number]
    curve: list[ThresholdAnswer] = Field(description="Of the calibration's own queries.")
    reliability: list[ReliabilityAnswer]


class LimitsAnswer(BaseModel):
    max_bytes: int
    max_k: int
    formats: list[str]


class SampleAnswer(BaseModel):
    name: str
    image: str | None
    item: str | None
    thumbnail: str


class InfoAnswer(BaseModel):
    name: str
    images: int
    family: str
    dim: int
    ranking: str
    rankings: list[str]
    engine: str
    version: int | None
    created: str | None
    fingerprint: str
    surefind: str
    takes_images: bool
    has_variance: bool
    labelled: bool
    pictures: bool
    limits: LimitsAnswer
    warnings: list[str]
    calibration: CalibrationAnswer | None
    how_to_calibrate: str | None
    samples: list[SampleAnswer]
    report: str | None


class UncertaintyAnswer(BaseModel):
    edges: list[float]
    counts: list[int]
    images: int
    of: int
    median: Number


class MapAnswer(BaseModel):
    ready: Literal[True]
    sentence: str
    items: list[str]
    ids: list[str]
    labels: list[str | None]
    x: list[float]
    y: list[float]
    var: list[float]


class MapPending(BaseModel):
    ready: Literal[False]
    sentence: str


class HealthAnswer(BaseModel):
    ok: Literal[True]


class ReadyAnswer(BaseModel):
    ready: bool
    version: int | None
    images: int | None
    warnings: list[str]
    reload: str | None = Field(description="Why the newest version could not be taken.")
