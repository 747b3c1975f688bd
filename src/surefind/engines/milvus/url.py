"""What a milvus:// URL says: which server, which database, which collection."""

import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from surefind.engines.engine import unreadable_url
from surefind.errors import InvalidArgument
from surefind.validation import nearest

FORM = "milvus://user:password@host:port/database?collection=name"
PORT = 19530
LONGEST_WAIT = 3600.0  # seconds
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_HOST = re.compile(r"[A-Za-z0-9._:-]+")


@dataclass(frozen=True)
class Place:
    """One collection on one server."""

    host: str
    port: int = PORT
    user: str = ""
    password: str = field(default="", repr=False)
    database: str = "default"
    collection: str = "surefind"
    secure: bool = False  # TLS
    timeout: float = 60.0  # seconds that a call may take

    @property
    def server(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """The URL without the password."""
        user = quote(self.user, safe="") + "@" if self.user else ""
        secure = "&secure=true" if self.secure else ""
        place = f"{self.server}/{self.database}?collection={self.collection}"
        return f"milvus://{user}{place}{secure}"


def parse(url: str) -> Place:
    """Names are checked here, so that they can be written into requests as they are."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise unreadable_url(FORM) from None  # the cause may show a password
    beyond = parts.path + parts.query + parts.fragment
    if parts.scheme != "milvus" or not host or parts.fragment or "@" in beyond:
        raise unreadable_url(FORM)
    if not _HOST.fullmatch(host) or port == 0 or "@" in parts.netloc.rpartition("@")[0]:
        raise unreadable_url(FORM)
    settings = _settings(parts)
    return Place(
        host=host,
        port=PORT if port is None else port,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=_name("database", unquote(parts.path).strip("/") or "default"),
        collection=_name("collection", settings.get("collection", "surefind")),
        secure=_truth(settings.get("secure", "false")),
        timeout=_seconds(settings.get("timeout", "60")),
    )


def _settings(parts: SplitResult) -> dict[str, str]:
    given = parse_qsl(parts.query, keep_blank_values=True)
    known = ("collection", "secure", "timeout")
    for name, _ in given:
        if name not in known:
            near = nearest(name, known)
            raise InvalidArgument(
                "engine",
                expected="collection=, secure= and timeout= after the '?'",
                got=repr(name[:80]),
                fix=f"did you mean {near}=...?" if near else "leave it out",
            )
    if len(dict(given)) < len(given):
        raise InvalidArgument(
            "engine",
            expected="each setting once",
            got=", ".join(name for name, _ in given),
            fix="leave one of each",
        )
    return dict(given)


def _name(what: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            what,
            expected="a name of letters, digits and _, at most 64, that no digit begins",
            got=repr(name[:80]),
            fix=f"choose another {what} in the URL: {FORM}",
        )
    return name


def _truth(written: str) -> bool:
    if written not in ("true", "false"):
        raise InvalidArgument(
            "secure", expected="true or false", got=repr(written[:80]), fix="?secure=true uses TLS"
        )
    return written == "true"


def _seconds(written: str) -> float:
    try:
        seconds = float(written)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= LONGEST_WAIT:
        raise InvalidArgument(
            "timeout",
            expected=f"seconds, more than 0 and at most {LONGEST_WAIT:g}",
            got=repr(written[:80]),
            fix="leave it out for 60 seconds",
        )
    return seconds
