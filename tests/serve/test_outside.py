"""No request opens a file outside the index and its images, or a connection.

The server runs in a child process, where an audit hook records files and connections.
"""

import os
import socket
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
import torch
from calibrations import make_calibrated_index
from child_processes import received, start
from PIL import Image
from raw_http import exchange, head_of, status_of
from servers import served

import surefind
from surefind.embeddings import Gaussians
from surefind.search.index import Index
from surefind.serve.gallery import item_of

STEPS = (
    "../", "..\\", "....//", "..;/", ".../", "..%2f", "%2e%2e/", "%2e%2e%2f", "%2e%2e%5c",
    "..%5c", "%252e%252e%252f", "..%252f", "..%c0%af", "%c0%ae%c0%ae/", "..%ef%bc%8f",
    "\u2025/", "\uff0e\uff0e/", "..\u2215", "..\u2044", "..\uff0f", "/..", "./../", "..//",
    ".%00./", "..%00/", "%u002e%u002e/", "0x2e0x2e/", "..%0d%0a/", "..\t/",
)  # fmt: skip
SECRET = "secret.png"  # in the parent of the folder of pictures
ITEM = item_of("class00/0.png")
PROCESSES = ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.posix_spawn")
NAMES = ("socket.getaddrinfo", "socket.gethostbyname", "urllib.Request")
PATHS = (
    "/v1/items/{}", "/v1/items/{}/thumbnail", "/v1/items/{}/neighbours", "/v1/samples/{}",
    "/page/{}", "/report/{}", "/docs/{}", "/v1/{}", "/{}",
)  # fmt: skip
QUERIES = (
    "/v1/items/{item}/thumbnail?side={}", "/v1/items/{item}/neighbours?k={}",
    "/v1/items/{item}/neighbours?ranking={}", "/v1/items/{item}/neighbours?where={}",
    "/v1/items/{item}/neighbours?where=label={}",
)  # fmt: skip
ODD_QUERIES = (
    "/v1/info?path={}", "/docs?url={}", "/v1/map?file={}", "/report/?file={}", "/page/page.js?f={}",
)  # fmt: skip


def traversals(secret: str, picture: str) -> list[str]:
    """Traversals to `secret`; `picture` is an image that may be shown."""
    by_steps = [4 * step + "etc/passwd" for step in STEPS]
    near = [step + SECRET for step in STEPS[:12]]
    absolute = [
        secret, f"/{secret}", f"//{secret}", f"file://{secret}", f"file:{secret}",
        f"{secret}%00.png", f"{secret}\0.png", quote(secret, safe=""), secret.replace("/", "\\"),
        f"{picture}/../../{SECRET}", f"{picture}/", f"{picture}%00", f"./{picture}/../../x",
        "/etc/passwd", "//etc/passwd", "\\\\127.0.0.1\\share\\x", "C:\\Windows\\win.ini", "C:/x",
        "/proc/self/environ", "/proc/self/cwd/pyproject.toml", "/dev/zero", "/dev/stdin", "~",
        "~/.ssh/id_rsa", "$HOME", "`id`", "|id", "index.html%00", "..", ".", "%2e", "%00",
        "CON", "a" * 5000, "http://127.0.0.1:9/x", "%", "%zz",
    ]  # fmt: skip
    return [*by_steps, *near, *absolute]


@dataclass
class Audit:
    """Responses, and what the process opened, connected to and started."""

    statuses: dict[str, Counter[int | None]] = field(default_factory=dict)
    opened: set[str] = field(default_factory=set)
    connected: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)
    leaks: list[str] = field(default_factory=list)  # requests answered with the secret


@contextmanager
def recorded(audit: Audit, *, server: int) -> Iterator[None]:
    """Record what the process does; a hook cannot be removed, so it is switched off."""
    active = True

    def hear(event: str, given: tuple[Any, ...]) -> None:
        if not active:
            return
        if event in ("open", "os.listdir", "os.scandir") and isinstance(given[0], str | bytes):
            audit.opened.add(os.fsdecode(given[0]))
        elif event in PROCESSES:
            audit.started.add(f"{event} {given}")
        elif event in NAMES or event == "socket.connect":
            place = given[1] if event == "socket.connect" else given[:2]
            if place != ("127.0.0.1", server):  # not a client, which is in this process too
                audit.connected.add(f"{event} {given}")

    sys.addaudithook(hear)
    try:
        yield
    finally:
        active = False


def exercise(home: str, decoy: int, pipe: Connection) -> None:
    """Run in the child process; nobody should connect to the port `decoy`."""
    place = Path(home)
    secret = place / SECRET
    import_module("sklearn.manifold")  # for the map; what it opens while it loads is not asked
    index = Index.open(place / "index")
    _add_hostile_rows(index, secret)
    with served(index, samples=place / "queries" / "class00") as service:
        seen = Audit()
        mark = secret.read_bytes()[-40:]
        photo = (place / "photos" / "class00" / "0.png").read_bytes()
        requests = Requests(service.url, mark, seen)
        with recorded(seen, server=int(service.url.rpartition(":")[2])):
            _send_all(requests, place, decoy=decoy, photo=photo)
    pipe.send(seen)


def watched(home: Path) -> tuple[Audit, int]:
    """Return the audit, and the number of connections to a port named in every request."""
    with socket.create_server(("127.0.0.1", 0)) as decoy:
        child, pipe = start(exercise, str(home), decoy.getsockname()[1])
        (seen,) = received(pipe)
        child.join()
        decoy.setblocking(False)
        try:
            decoy.accept()[0].close()
            return seen, 1
        except BlockingIOError:
            return seen, 0


def outside(paths: set[str], home: Path) -> list[str]:
    """Paths that belong neither to the index and its images nor to Python and the package."""
    fine = [home / "index", home / "photos", Path(surefind.__file__).parent, sys.prefix]
    fine += [sys.base_prefix, *sysconfig.get_paths().values()]
    fine += ["/proc/self/maps"]  # where numerical libraries look for one another
    roots = [os.path.realpath(path) for path in fine]
    return sorted(
        path for path in paths if not any(Path(os.path.realpath(path)).is_relative_to(root) for root in roots)
    )


def _add_hostile_rows(index: Index, secret: Path) -> None:
    """Add rows with hostile ids and paths."""
    names = _hostile_ids(secret)
    paths = ["x", "y", "/etc/passwd", "class00/linked.png", str(secret)]
    mean = np.random.default_rng(0).normal(size=(len(names), index.space.dim)).astype("f4")
    mean = torch.nn.functional.normalize(torch.from_numpy(mean), dim=1)
    facts = [{"path": path, "label": "hostile"} for path in paths]
    rows = Gaussians(mean, torch.full((len(names),), 0.01))
    index.add_embeddings(rows, names, metadata=facts)


def _hostile_ids(secret: Path) -> list[str]:
    return ["../" + SECRET, str(secret), "/etc/passwd", "class00/linked.png", "a/../../" + SECRET]


def _send_all(requests: "Requests", place: Path, *, decoy: int, photo: bytes) -> None:
    hostile = _hostile_ids(place / SECRET)
    for text in traversals(str(place / SECRET), "class00/0.png"):
        _send_paths(requests, text, by_name=text not in hostile)
    for url in (f"http://127.0.0.1:{decoy}/a.png", f"//127.0.0.1:{decoy}", "file:///etc/passwd"):
        _send_urls(requests, url, photo)
    for path in ("/", "/v1/info", "/v1/map", "/v1/samples/0", "/docs"):
        requests.get("plain", path)
    for name in ("class00/0.png", *hostile):
        requests.get(f"thumbnail of {Path(name).name}", f"/v1/items/{item_of(name)}/thumbnail")


def _send_paths(requests: "Requests", text: str, *, by_name: bool) -> None:
    raw = quote(text, safe="/%\\;:~$`|&()+,@!*'")
    for path in PATHS:
        requests.get(path, path.format(raw))
    for path in PATHS[:3] if by_name else ():
        requests.get(f"{path} by name", path.format(item_of(text)))
    for path in QUERIES:
        requests.get(path, path.format(quote(text, safe=""), item=ITEM))


def _send_urls(requests: "Requests", url: str, photo: bytes) -> None:
    raw = quote(url, safe="")
    for path in (*QUERIES, *ODD_QUERIES):
        requests.get(path, path.format(raw, item=ITEM))
    for path in ("/v1/search", "/v1/embed", "/v1/session", "/v1/search/vector"):
        for body in (url.encode(), b'{"url": "%s"}' % url.encode(), photo):
            requests.post(path, f"{path}?url={raw}", body, f"Referer: {url}")


class Requests:
    """Raw requests, without a client that would normalise them."""

    def __init__(self, url: str, mark: bytes, seen: Audit) -> None:
        self._url, self._mark, self._seen = url, mark, seen

    def get(self, kind: str, path: str) -> None:
        self._send(kind, head_of("GET", path, "Connection: close"))

    def post(self, kind: str, path: str, body: bytes, *lines: str) -> None:
        head = head_of("POST", path, "Connection: close", f"Content-Length: {len(body)}", *lines)
        self._send(kind, head + body)

    def _send(self, kind: str, request: bytes) -> None:
        said = exchange(self._url, request)
        self._seen.statuses.setdefault(kind, Counter())[status_of(said)] += 1
        if self._mark in said or b"root:" in said:
            self._seen.leaks.append(repr(request[:200]))


@pytest.fixture(scope="module")
def place(model, tmp_path_factory) -> Path:
    """An index, a secret beside its images, and a link to the secret among them."""
    folder = make_calibrated_index(tmp_path_factory.mktemp("watched"), model)
    pixels = np.random.default_rng(7).integers(0, 255, (20, 20, 3), np.uint8)
    Image.fromarray(pixels).save(folder / SECRET)
    (folder / "photos" / "class00" / "linked.png").symlink_to(folder / SECRET)
    return folder


@pytest.fixture(scope="module")
def seen(place) -> Audit:
    found, strangers = watched(place)
    assert strangers == 0, "somebody connected to a URL of a request"
    return found


def test_no_outside_file_connection_or_process_is_opened(seen, place):
    assert outside(seen.opened, place) == []
    assert str(place / "photos" / "class00" / "0.png") in seen.opened  # the watch does see
    assert seen.leaks == []  # no answer holds what is outside
    assert seen.connected == set() and seen.started == set()


@pytest.mark.parametrize("route", [*PATHS, *(f"{path} by name" for path in PATHS[:3])])
def test_a_path_traversal_is_not_found(seen, route):
    refused = {404, 400, 422}
    assert set(seen.statuses[route]) <= refused and seen.statuses[route][404] > 0


def test_paths_and_urls_in_requests_cause_no_internal_error(seen):
    every = {status for counted in seen.statuses.values() for status in counted}
    assert None not in every and max(every) < 500


def test_only_images_inside_the_folder_are_shown(seen):
    assert seen.statuses["thumbnail of 0.png"] == {200: 1}
    for name in ("linked.png", "passwd", SECRET):
        assert set(seen.statuses[f"thumbnail of {name}"]) == {404}
