"""Counters of the service, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64)
METHODS = ("GET", "HEAD", "POST")  # a client may invent others, as many as it likes


class Metrics:
    """One set for each app, so that two in a process do not count together."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        self.requests = Counter(
            "surefind_requests", "Requests answered.", ["route", "method", "status"], registry=own
        )
        self.seconds = Histogram(
            "surefind_stage_seconds",
            "Time of a search by stage; wait is the time in queues.",
            ["stage"],
            buckets=SECONDS,
            registry=own,
        )
        self.verdicts = Counter(
            "surefind_verdicts", "Searches by verdict; none: not calibrated.", ["verdict"],
            registry=own,
        )  # fmt: skip
        self.rejects = Counter(
            "surefind_rejects", "Questions that were not answered.", ["reason"], registry=own
        )
        self.batch = Histogram(
            "surefind_batch_size", "Questions answered together.", ["stage"], buckets=SIZES,
            registry=own,
        )  # fmt: skip
        self.queue = Gauge("surefind_queue", "Questions that wait.", ["stage"], registry=own)
        self.places = Gauge("surefind_places_taken", "Questions in work or waiting.", registry=own)
        self.images = Gauge("surefind_index_images", "Images in the index.", registry=own)
        self.reloads = Gauge("surefind_index_reloads", "Newer versions taken.", registry=own)

    def page(self) -> bytes:
        return generate_latest(self.registry)


class CountRequests:
    """Each answer by the route that gave it; what has no route counts as one."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "none")
                method = scope["method"] if scope["method"] in METHODS else "other"
                self.metrics.requests.labels(route, method, message["status"]).inc()
            await send(message)

        await self.app(scope, receive, counting)
