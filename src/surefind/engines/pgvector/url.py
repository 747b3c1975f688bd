"""What a pgvector:// URL says: which server, which database, which table."""

import re
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

from surefind.engines.engine import unreadable_url
from surefind.engines.pgvector.driver import KNOWN_PARAMETERS, DatabaseError, read_url
from surefind.errors import InvalidArgument
from surefind.validation import nearest

FORM = "pgvector://user:password@host:port/database?table=name"
REGISTRY = "surefind_indexes"  # the table that lists all indexes
DEFAULTS = {
    "application_name": "surefind",
    "connect_timeout": "10",
    "keepalives_idle": "30",  # a server that vanished is noticed within a minute, not in hours
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
REFUSED = ("replication", "sslkeylogfile")  # speaks another protocol; writes secrets to a file
_PARTS = re.compile(r"pgvector://((?:[^@/]*@)?[^@?]*)(?:\?(.*))?", re.DOTALL)
_TABLE = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_PORTS = re.compile(r"[0-9,]*")


@dataclass(frozen=True)
class Place:
    """One table in one database."""

    parameters: dict[str, str] = field(repr=False)  # of the connection, with its password
    table: str = "surefind"

    @property
    def shown(self) -> str:
        """The URL without what is secret."""
        said = {name: self.parameters.get(name, "") for name in ("user", "host", "port", "dbname")}
        user = quote(said["user"], safe="") + "@" if said["user"] else ""
        port = f":{said['port']}" if said["port"] else ""
        path = f"/{quote(said['dbname'], safe='')}?"
        if "/" in said["host"]:  # a folder with a socket
            port = f"&port={said['port']}" if said["port"] else ""
            return f"pgvector://{user}{path}host={said['host']}{port}&table={self.table}"
        return f"pgvector://{user}{said['host']}{port}{path}table={self.table}"

    @property
    def secrets(self) -> tuple[str, ...]:
        secret = ("password", "sslpassword", "oauth_client_secret")
        return tuple(self.parameters[name] for name in secret if self.parameters.get(name))


def parse(url: str) -> Place:
    """Everything but `table` is libpq's, as in postgresql://...; so are PGPASSWORD and .pgpass."""
    parts = _PARTS.fullmatch(url)
    if parts is None:
        raise unreadable_url(FORM)
    others, tables = [], []
    for part in filter(None, (parts[2] or "").split("&")):
        name, _, value = part.partition("=")
        if unquote(name) == "table":
            tables.append(unquote(value))
        else:
            _check_parameter(unquote(name))
            others.append(part)
    try:
        parameters = read_url(f"postgresql://{parts[1]}?{'&'.join(others)}")
    except DatabaseError:
        raise unreadable_url(FORM) from None  # the cause may show a password
    if not _PORTS.fullmatch(parameters.get("port", "")):
        raise unreadable_url(FORM)
    if len(tables) > 1:
        raise InvalidArgument(
            "table", expected="one table", got=", ".join(map(repr, tables)), fix="leave one"
        )
    table = check_table(tables[0]) if tables else "surefind"
    return Place({**DEFAULTS, **parameters, "client_encoding": "utf8"}, table)


def check_table(name: str) -> str:
    if not _TABLE.fullmatch(name) or name == REGISTRY:
        raise InvalidArgument(
            "table",
            expected=f"a name of a-z, 0-9 and _, at most 48, other than {REGISTRY}",
            got=repr(name[:80]),
            fix="choose another name, e.g. ?table=products",
        )
    return name


def _check_parameter(name: str) -> None:
    if name not in KNOWN_PARAMETERS or name in REFUSED:
        near = nearest(name, ["table", *KNOWN_PARAMETERS]) if name not in REFUSED else None
        raise InvalidArgument(
            "engine",
            expected="table=name and connection parameters after the '?'",
            got=repr(name[:80]),
            fix=f"did you mean {near}=...?" if near else "leave it out",
        )
