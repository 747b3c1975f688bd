"""Counters of the service, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """One set for each app, so that two in a process do not count together."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        self.requests = Counter(
            "surefind_requests", "Requests answered.", ["route", "method", "status"], registry=own
        )
        self.seconds = Histogram(
            "surefind_stage_seconds", "Time of a search.", ["stage"], buckets=SECONDS, registry=own
        )
        self.verdicts = Counter(
            "surefind_verdicts", "Searches; none: not calibrated.", ["verdict"], registry=own
        )
        self.rejected = Counter(
            "surefind_rejects", "Questions that were not answered.", ["reason"], registry=own
        )
        self.batch = Histogram(
            "surefind_batch_size", "Answered together.", ["stage"], buckets=SIZES, registry=own
        )
        self.queue = Gauge("surefind_queue", "Questions that wait.", ["stage"], registry=own)
        self.in_flight = Gauge("surefind_places_taken", "Requests being worked on.", registry=own)
        self.images = Gauge("surefind_index_images", "Images in the index.", registry=own)
        self.reloads = Gauge("surefind_index_reloads", "Newer versions taken.", registry=own)
