"""Settings of the service."""

from dataclasses import dataclass
from pathlib import Path

MAX_K = 200  # hits per search
MAX_EXPAND = 50


@dataclass(frozen=True)
class Settings:
    """Address, access, limits and extras; checked by the command line."""

    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free port
    token: str | None = None  # required beyond localhost
    host_names: tuple[str, ...] = ()  # allowed in the Host header
    queue: int = 64  # requests in flight; more are refused with 503
    workers: int | None = None  # encoding threads, one core each; all cores unless given
    batch: int | None = None  # images per batch; chosen for the model unless given
    max_bytes: int = 32 * 2**20  # of an uploaded image
    uploads: int = 256 * 2**20  # bytes of all concurrent uploads
    connections: int = 2000
    header_seconds: float = 10.0  # for the head of a request to arrive
    upload_seconds: float = 30.0  # for its body
    answer_seconds: float = 30.0  # for the work
    reload_seconds: float = 2.0  # between checks for a newer version of the index; 0: never
    pictures: tuple[Path, ...] = ()  # folders of thumbnails, besides those indexed
    samples: Path | None = None  # a folder of example queries
    report: Path | None = None  # a folder of `surefind evaluate`
    access_log: bool = False
