"""A server in a child whose files and connections are watched by an audit hook."""

import os
import socket
import sys
import sysconfig
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import torch
from children import received, start
from raw_http import head_of, status_of, told
from serving import served
from traversals import SECRET, traversals

import surefind
from surefind.embeddings import Gaussians
from surefind.search.index import Index
from surefind.serve.gallery import item_of

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


@dataclass
class Neighbourhood:
    """What was answered, and what the process did meanwhile."""

    statuses: dict[str, Counter[int | None]] = field(default_factory=dict)
    opened: set[str] = field(default_factory=set)
    connected: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)
    leaks: list[str] = field(default_factory=list)  # requests that were answered with the secret
    requests: int = 0


class Watch:
    """Listens from `begin` on; a hook can never be taken away."""

    def __init__(self, seen: Neighbourhood, *, server: int) -> None:
        self._seen, self._server, self._on = seen, server, False
        sys.addaudithook(self._hear)

    def begin(self) -> None:
        self._on = True

    def end(self) -> None:
        self._on = False

    def _hear(self, event: str, given: tuple[Any, ...]) -> None:
        if not self._on:
            return
        if event in ("open", "os.listdir", "os.scandir") and isinstance(given[0], str | bytes):
            self._seen.opened.add(os.fsdecode(given[0]))
        elif event in PROCESSES:
            self._seen.started.add(f"{event} {given}")
        elif event in NAMES or event == "socket.connect":
            place = given[1] if event == "socket.connect" else given[:2]
            if place != ("127.0.0.1", self._server):  # not a client, which is in this process too
                self._seen.connected.add(f"{event} {given}")


def exercise(home: str, decoy: int, pipe: Connection) -> None:
    """What the child does. `decoy` is a port that nobody should connect to."""
    place = Path(home)
    secret = place / SECRET
    index = Index.open(place / "index")
    _add_rows_that_lie(index, secret)
    with served(index, samples=place / "queries" / "class00") as service:
        seen = Neighbourhood()
        watch = Watch(seen, server=int(service.url.rpartition(":")[2]))
        mark = secret.read_bytes()[-40:]
        photo = (place / "photos" / "class00" / "0.png").read_bytes()
        watch.begin()
        _ask_all(Asking(service.url, mark, seen), place, decoy=decoy, photo=photo)
        watch.end()
    pipe.send(seen)


def watched(home: Path) -> tuple[Neighbourhood, int]:
    """What was seen, and how many connected to a port that was named in every question."""
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
    """Those that are neither of the index and its pictures nor of Python and the package."""
    fine = [home / "index", home / "photos", Path(surefind.__file__).parent, sys.prefix]
    fine += [sys.base_prefix, *sysconfig.get_paths().values()]
    fine += ["/proc/self/maps"]  # where numerical libraries look for one another
    roots = [os.path.realpath(path) for path in fine]
    return sorted(
        path
        for path in paths
        if not any(Path(os.path.realpath(path)).is_relative_to(root) for root in roots)
    )


def _add_rows_that_lie(index: Index, secret: Path) -> None:
    """Ids and paths of a hostile writer."""
    names = _lies(secret)
    paths = ["x", "y", "/etc/passwd", "class00/linked.png", str(secret)]
    mean = np.random.default_rng(0).normal(size=(len(names), index.space.dim)).astype("f4")
    mean = torch.nn.functional.normalize(torch.from_numpy(mean), dim=1)
    facts = [{"path": path, "label": "lies"} for path in paths]
    rows = Gaussians(mean, torch.full((len(names),), 0.01))
    index.add_embeddings(rows, names, metadata=facts)


def _lies(secret: Path) -> list[str]:
    return ["../" + SECRET, str(secret), "/etc/passwd", "class00/linked.png", "a/../../" + SECRET]


def _ask_all(asking: "Asking", place: Path, *, decoy: int, photo: bytes) -> None:
    lies = _lies(place / SECRET)
    for text in traversals(str(place / SECRET), "class00/0.png"):
        _ask_by_path(asking, text, by_name=text not in lies)
    for url in (f"http://127.0.0.1:{decoy}/a.png", f"//127.0.0.1:{decoy}", "file:///etc/passwd"):
        _ask_by_url(asking, url, photo)
    for path in ("/", "/v1/info", "/v1/map", "/v1/uncertainty", "/v1/samples/0", "/docs"):
        asking.get("plain", path)
    for name in ("class00/0.png", *lies):
        asking.get(f"thumbnail of {Path(name).name}", f"/v1/items/{item_of(name)}/thumbnail")


def _ask_by_path(asking: "Asking", text: str, *, by_name: bool) -> None:
    raw = quote(text, safe="/%\\;:~$`|&()+,@!*'")
    for path in PATHS:
        asking.get(path, path.format(raw))
    for path in PATHS[:3] if by_name else ():
        asking.get(f"{path} by name", path.format(item_of(text)))
    for path in QUERIES:
        asking.get(path, path.format(quote(text, safe=""), item=ITEM))


def _ask_by_url(asking: "Asking", url: str, photo: bytes) -> None:
    raw = quote(url, safe="")
    for path in (*QUERIES, *ODD_QUERIES):
        asking.get(path, path.format(raw, item=ITEM))
    for path in ("/v1/search", "/v1/embed", "/v1/session", "/v1/search/vector"):
        for body in (url.encode(), b'{"url": "%s"}' % url.encode(), photo):
            asking.post(path, f"{path}?url={raw}", body, f"Referer: {url}")


class Asking:
    """Requests as they are written, without a client that would tidy them up."""

    def __init__(self, url: str, mark: bytes, seen: Neighbourhood) -> None:
        self._url, self._mark, self._seen = url, mark, seen

    def get(self, kind: str, path: str) -> None:
        self._ask(kind, head_of("GET", path, "Connection: close"))

    def post(self, kind: str, path: str, body: bytes, *lines: str) -> None:
        head = head_of("POST", path, "Connection: close", f"Content-Length: {len(body)}", *lines)
        self._ask(kind, head + body)

    def _ask(self, kind: str, request: bytes) -> None:
        said = told(self._url, request)
        self._seen.requests += 1
        self._seen.statuses.setdefault(kind, Counter())[status_of(said)] += 1
        if self._mark in said or b"root:" in said:
            self._seen.leaks.append(repr(request[:200]))
