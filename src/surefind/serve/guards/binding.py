"""Where the service may listen, and the token that it needs anywhere but on this machine."""

import ipaddress
import logging
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from surefind.errors import InvalidArgument, InvalidFile, SurefindError

VARIABLE = "SUREFIND_TOKEN"
SHORTEST_TOKEN = 16
LONGEST_TOKEN = 1024  # a header of more is likely to be refused on its way
MAKE_ONE = 'python -c "import secrets; print(secrets.token_urlsafe(32))"'

logger = logging.getLogger("surefind.serve")


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches it.

    >>> [is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost")]
    [True, True, True, True]
    >>> [is_loopback(host) for host in ("0.0.0.0", "::", "", "0", "127.0.0.1.example.com")]
    [False, False, False, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False  # a name may lead anywhere
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def check_bind(host: str, token: str | None) -> None:
    """Refuse to listen where strangers could ask without a token, and tokens that cannot work."""
    if token is not None:
        _check_token(token)
    elif not is_loopback(host):
        where = host or "every address"
        raise SurefindError(
            f"{where} can be reached from other machines, and there is no token: whoever reaches "
            "it could see the whole gallery",
            fix=f"give a token by --token-file FILE or {VARIABLE}, "
            "or bind to 127.0.0.1 behind a proxy that asks who is there",
        )


def read_token(file: Path | None, environ: Mapping[str, str]) -> str | None:
    """The token of the file, else of the environment.

    Never of the command line, which other users of the machine can read.
    """
    if file is not None:
        token, origin = _read(file), str(file)
    elif VARIABLE in environ:
        token, origin = environ[VARIABLE].strip(), VARIABLE
    else:
        return None
    if not token:
        raise SurefindError(f"{origin} holds no token", fix=f"make one: {MAKE_ONE}")
    return token


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            content = opened.read(4 * LONGEST_TOKEN)
            mode = os.fstat(opened.fileno()).st_mode
        token = content.decode("utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise InvalidFile(
            f"cannot read the token in {file}: {reason}", fix="give a text file with one line"
        ) from None  # a decoding error holds the bytes
    if os.name == "posix" and mode & stat.S_IROTH:
        logger.warning("every user of this machine can read the token in %s: chmod 600", file)
    return token


def _check_token(token: str) -> None:
    """By length and kind only: what the token is never becomes part of a message."""
    if not SHORTEST_TOKEN <= len(token) <= LONGEST_TOKEN:
        raise InvalidArgument(
            "token",
            expected=f"{SHORTEST_TOKEN} to {LONGEST_TOKEN:,} characters",
            got=f"{len(token):,}",
            fix=f"make one: {MAKE_ONE}",
        )
    if not all("!" <= character <= "~" for character in token):
        raise InvalidArgument(
            "token",
            expected="letters, digits and signs of ASCII",
            got="spaces, control characters or others that no header can carry",
            fix=f"make one: {MAKE_ONE}",
        )
