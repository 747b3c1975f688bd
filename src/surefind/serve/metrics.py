"""Prometheus metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """Metrics of one app, in a registry of its own."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        self.requests = Counter(
            "surefind_requests", "Responses.", ["route", "method", "status"], registry=own
        )
        self.seconds = Histogram(
            "surefind_stage_seconds", "Time per stage.", ["stage"], buckets=SECONDS, registry=own
        )
        self.verdicts = Counter(
            "surefind_verdicts", "Searches; none: no confidence.", ["verdict"], registry=own
        )
        self.rejected = Counter(
            "surefind_rejected_requests", "Refused requests.", ["reason"], registry=own
        )
        self.batch = Histogram(
            "surefind_batch_size", "Requests per batch.", ["stage"], buckets=SIZES, registry=own
        )
        self.queue = Gauge("surefind_queue", "Queued requests.", ["stage"], registry=own)
        self.in_flight = Gauge("surefind_in_flight_requests", "In work.", registry=own)
        self.images = Gauge("surefind_index_images", "Images in the index.", registry=own)
        self.reloads = Gauge("surefind_index_reloads", "Newer versions loaded.", registry=own)
