"""How an index is served."""

from dataclasses import dataclass
from pathlib import Path

MAX_K = 200  # hits of one answer
MAX_EXPAND = 50


@dataclass(frozen=True)
class Settings:
    """Who may ask, how much at a time, and what else is shown; checked by the command line."""

    host: str = "127.0.0.1"
    port: int = 8000  # 0: any that is free
    token: str | None = None  # who knows it may ask; needed beyond this machine
    host_names: tuple[str, ...] = ()  # names that the server is reached by
    queue: int = 64  # questions at a time; further ones are told to come back
    workers: int | None = None  # threads that encode, each on one core; all cores unless given
    batch: int | None = None  # images encoded together; what suits the model unless given
    max_bytes: int = 32 * 2**20  # of an image that is sent
    uploads: int = 256 * 2**20  # bytes of all uploads at a time
    connections: int = 2000
    header_seconds: float = 10.0  # for the head of a request to arrive
    upload_seconds: float = 30.0  # for its body
    answer_seconds: float = 30.0  # for the work
    reload_seconds: float = 2.0  # between looks for a newer version of the index; 0: never
    pictures: tuple[Path, ...] = ()  # folders that pictures are shown from, beside those indexed
    samples: Path | None = None  # a folder of pictures to try
    report: Path | None = None  # a folder of `surefind evaluate`
    access_log: bool = False
