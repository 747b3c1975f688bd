"""What the hub refuses, in words that say what to do."""

import os
from collections.abc import Iterator

from surefind.errors import InvalidFile

_LOG_IN = "log in with `hf auth login`, or set HF_TOKEN"
_LATER = "run the same again later: what is downloaded already is kept"
_ALL_OR_NOTHING = "run the same again later: it is one commit, all or nothing"


class HubError(InvalidFile):
    """A model that the hub did not give or did not take."""


def no_token(repo: str) -> HubError:
    return HubError(
        f"cannot upload to {repo}: nobody is logged in to the hub",
        fix=f"{_LOG_IN}, with a token that may write",
    )


def download_error(repo: str, revision: str | None, error: Exception) -> HubError:
    """Why there is no model: the folder may be meant, or the hub."""
    from huggingface_hub import constants, errors, get_token

    chain = tuple(_causes(error))
    nothing = f"{repo} holds no model: there is no such folder, and"
    if _any(chain, errors.GatedRepoError):
        return HubError(
            f"{repo} is there on the hub, but only for those it has let in",
            fix=f"ask for access at {constants.ENDPOINT}/{repo}, then {_LOG_IN}",
        )
    if _any(chain, errors.RevisionNotFoundError):
        return HubError(
            f"{repo} has no version {revision!r} on the hub",
            fix=f"choose a branch, tag or commit of {constants.ENDPOINT}/{repo}",
        )
    if _any(chain, errors.RepositoryNotFoundError):
        private = "log in as somebody who may see it" if get_token() else _LOG_IN
        return HubError(
            f"{nothing} the hub has no model of that name that you may see",
            fix=f"check the spelling of the folder or of owner/name; if it is private, {private}",
        )
    if (status := _status(chain)) in (401, 403):
        return _bad_token(f"{nothing} the hub", status)
    if status is not None:
        return HubError(f"the hub answered {status} when asked for {repo}", fix=_LATER)
    if _any(chain, errors.OfflineModeIsEnabled):
        return HubError(
            f"{nothing} the hub is not asked, as HF_HUB_OFFLINE is set, and its cache has no "
            "whole copy",
            fix="check the spelling of the folder, or unset HF_HUB_OFFLINE",
        )
    if isinstance(error, errors.LocalEntryNotFoundError) or _is_connection(chain):
        return HubError(
            f"{nothing} the hub at {constants.ENDPOINT} cannot be reached",
            fix="check the spelling of the folder, or the connection and HF_ENDPOINT",
        )
    return _broken_off(f"the download of {repo} broke off", error, fix=_LATER)


def upload_error(repo: str, error: Exception) -> HubError:
    """Why nothing was uploaded."""
    from huggingface_hub import constants

    chain = tuple(_causes(error))
    problem = f"cannot upload to {repo}:"
    if (status := _status(chain)) in (401, 403):
        return _bad_token(f"{problem} the hub", status)
    if status == 404:
        return HubError(
            f"{problem} the hub has no such account, organisation or branch",
            fix="check the spelling of owner/name",
        )
    if status is not None:
        return HubError(
            f"{problem} the hub answered {status}", fix="run the same again later: it is one commit"
        )
    if _is_connection(chain):
        return HubError(
            f"{problem} the hub at {constants.ENDPOINT} cannot be reached",
            fix="check the connection and HF_ENDPOINT, and that HF_HUB_OFFLINE is not set",
        )
    return _broken_off(f"{problem} it broke off", error, fix=_ALL_OR_NOTHING)


def _bad_token(subject: str, status: int) -> HubError:
    if status == 401:
        return HubError(f"{subject} does not know your token", fix=f"{_LOG_IN} to a valid one")
    return HubError(
        f"{subject} does not allow that with your token", fix=f"{_LOG_IN} to one that may"
    )


def _broken_off(problem: str, error: Exception, *, fix: str) -> HubError:
    """The rest: a full disk, a connection that was cut, an answer that nobody expected."""
    if isinstance(error, OSError) and error.errno is not None:
        said = os.strerror(error.errno)
        return HubError(f"{problem}: {said}", fix="see to the disk of the cache, HF_HOME")
    first_line = next(iter(str(error).splitlines()), "")
    return HubError(f"{problem}: {first_line or type(error).__name__}", fix=fix)


def _status(chain: tuple[BaseException, ...]) -> int | None:
    from huggingface_hub.errors import HfHubHTTPError

    for error in chain:
        if isinstance(error, HfHubHTTPError):
            status: int = error.response.status_code
            return status
    return None


def _is_connection(chain: tuple[BaseException, ...]) -> bool:
    """Whatever HTTP library there is below; a timeout is one, too."""
    names = {kind.__name__ for error in chain for kind in type(error).__mro__}
    return bool(names & {"ConnectError", "ConnectionError", "ConnectTimeout", "TimeoutException"})


def _any(chain: tuple[BaseException, ...], kind: type[BaseException]) -> bool:
    return any(isinstance(error, kind) for error in chain)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__
