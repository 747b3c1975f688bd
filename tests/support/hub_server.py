"""A local fake of the part of the Hugging Face Hub API that models need."""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from huggingface_hub import close_session, constants

TOKEN = "hf_only-for-tests"
OF_THE_LIBRARY = "ignore:Use 'content=<:DeprecationWarning"  # it uploads as its HTTP library did
Files = dict[str, bytes]


class Refusal(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, code: str = "", message: str = "", *, body: object = None) -> None:
        self.status, self.body = status, body or {}
        self.headers = {"X-Error-Code": code, "X-Error-Message": message}


class Hub:
    """Repositories with branches of commits, and what is to go wrong."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.repos: dict[str, dict[str, str]] = {}  # branches, by repository
        self.private: set[str] = set()
        self.commits: dict[str, Files] = {}
        self.large: dict[str, bytes] = {}
        self.asked: list[str] = []  # "GET /api/models/...", in their order
        self.gated: set[str] = set()
        self.failing: dict[str, int] = {}  # status by a part of the path
        self.shorten = 0  # bytes that are missing at the end of every file

    def files(self, repo: str, revision: str = "main") -> Files:
        if repo not in self.repos:
            raise Refusal(404, "RepoNotFound", "Repository not found")
        commit = self.repos[repo].get(revision, revision)
        if commit not in self.commits:
            raise Refusal(404, "RevisionNotFound", "Invalid rev id")
        return self.commits[commit]

    def commit(self, repo: str, branch: str, files: Files) -> str:
        name = hashlib.sha1(f"{repo} {branch} {len(self.commits)}".encode()).hexdigest()
        self.commits[name] = files
        self.repos[repo][branch] = name
        return name

    def create(self, repo: str, files: Files | None = None) -> None:
        self.repos[repo] = {}
        self.commit(repo, "main", files or {})


@contextmanager
def hub_server() -> Iterator[Hub]:
    """Ends with the block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    hub = server.hub = Hub(f"http://127.0.0.1:{server.server_port}")  # type: ignore[attr-defined]
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(name="hub")
def a_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """The only hub that this process knows, with an empty cache; somebody is logged in."""
    with hub_server() as server:
        template = f"{server.address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        settings = {
            "ENDPOINT": server.address,
            "HUGGINGFACE_CO_URL_TEMPLATE": template,
            "HF_HUB_OFFLINE": False,
            "HF_HUB_DISABLE_XET": True,
            "HF_HUB_CACHE": str(tmp_path / "cache"),
            "HF_TOKEN_PATH": str(tmp_path / "no-token"),
            "AGENT_HARNESSES_PATH": str(tmp_path / "harnesses.json"),
        }
        for name, value in settings.items():
            monkeypatch.setattr(constants, name, value, raising=name != "AGENT_HARNESSES_PATH")
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)
        yield server
        close_session()


REPO = r"(?P<repo>[\w.-]+/[\w.-]+)"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    @property
    def hub(self) -> Hub:
        return self.server.hub  # type: ignore[attr-defined,no-any-return]

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append(f"{self.command} {path}")
        self.body = self._read()
        try:
            for part, status in self.hub.failing.items():
                if part in path:
                    raise Refusal(status)
            for method, pattern, answer in ROUTES:
                found = re.fullmatch(pattern, path)
                if found and self.command in method.split():
                    answer(self, **found.groupdict())
                    return
            raise Refusal(404)
        except Refusal as refusal:
            body = json.dumps(refusal.body).encode()
            self._send(body, status=refusal.status, headers=refusal.headers)

    def _read(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _json(self, value: object) -> None:
        self._send(json.dumps(value).encode(), headers={"Content-Type": "application/json"})

    def _send(self, body: bytes, *, status: int = 200, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _check(self, repo: str | None = None) -> None:
        """Check the token; private repositories need one."""
        token = self.headers.get("Authorization")
        if token not in (None, f"Bearer {TOKEN}"):
            raise Refusal(401, "", "Invalid credentials in Authorization header")
        if repo in self.hub.gated:
            raise Refusal(403, "GatedRepo", "Access is restricted")
        if token is None and (repo is None or repo in self.hub.private):
            raise Refusal(401, "RepoNotFound", "Repository not found")

    def create(self) -> None:
        self._check()
        asked = json.loads(self.body)
        repo = f"{asked['organization']}/{asked['name']}"
        url = {"url": f"{self.hub.address}/{repo}"}
        if repo in self.hub.repos:
            raise Refusal(409, body=url)
        self.hub.create(repo)
        if asked.get("visibility") == "private":
            self.hub.private.add(repo)
        self._json(url)

    def branch(self, repo: str, revision: str) -> None:
        self._check()
        self.hub.files(repo)
        if revision in self.hub.repos[repo]:
            raise Refusal(409)
        self.hub.repos[repo][revision] = self.hub.repos[repo]["main"]
        self._json({})

    def validate(self) -> None:
        front = json.loads(self.body)["content"].split("---\n")[1]
        if not isinstance(yaml.safe_load(front), dict):
            raise Refusal(400)
        self._json({"errors": [], "warnings": []})

    def info(self, repo: str, revision: str | None = None) -> None:
        self._check(repo)
        self.hub.files(repo, revision or "main")
        branches = self.hub.repos[repo]
        sha = branches.get(revision or "main", revision)
        self._json({"id": repo, "modelId": repo, "sha": sha, "siblings": [], "tags": []})

    def tree(self, repo: str, revision: str) -> None:
        self._check(repo)
        files = self.hub.files(repo, revision)
        found = [
            {"type": "file", "path": path, "size": len(content), "oid": _digest(content)}
            for path, content in files.items()
        ]
        self._json(found)

    def preupload(self, repo: str, revision: str) -> None:
        self._check()
        self.hub.files(repo, revision)
        large = (".safetensors", ".onnx")
        files = []
        for path in (entry["path"] for entry in json.loads(self.body)["files"]):
            mode = "lfs" if path.endswith(large) else "regular"
            files.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": None})
        self._json({"files": files})

    def batch(self, repo: str) -> None:
        self._check()
        objects = json.loads(self.body)["objects"]
        for entry in objects:
            href = f"{self.hub.address}/large/{entry['oid']}"
            entry["actions"] = {"upload": {"href": href, "header": {}}}
        self._json({"transfer": "basic", "objects": objects})

    def store(self, oid: str) -> None:
        if hashlib.sha256(self.body).hexdigest() != oid:
            raise Refusal(400)
        self.hub.large[oid] = self.body
        self._json({})

    def commit(self, repo: str, revision: str) -> None:
        self._check()
        files = dict(self.hub.files(repo, revision))
        for line in self.body.splitlines():
            entry = json.loads(line)
            kind, value = entry["key"], entry["value"]
            if kind == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif kind == "lfsFile":
                files[value["path"]] = self.hub.large[value["oid"]]
            elif kind == "deletedFile":
                del files[value["path"]]
        name = self.hub.commit(repo, revision, files)
        url = f"{self.hub.address}/{repo}/commit/{name}"
        self._json({"commitUrl": url, "commitOid": name})

    def resolve(self, repo: str, revision: str, path: str) -> None:
        self._check(repo)
        content = self.hub.files(repo, revision).get(path)
        if content is None:
            raise Refusal(404, "EntryNotFound", "Entry not found")
        branches = self.hub.repos[repo]
        headers = {
            "X-Repo-Commit": branches.get(revision, revision),
            "ETag": f'"{_digest(content)}"',
            "X-Linked-Size": str(len(content)),
        }
        sent = content if self.command == "HEAD" else content[: len(content) - self.hub.shorten]
        self._send(sent, headers=headers)


def _digest(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


REVISION = r"(?P<revision>[^/]+)"
ROUTES: list[tuple[str, str, Callable[..., None]]] = [
    ("POST", r"/api/repos/create", _Handler.create),
    ("POST", r"/api/validate-yaml", _Handler.validate),
    ("GET", rf"/api/models/{REPO}", _Handler.info),
    ("GET", rf"/api/models/{REPO}/revision/{REVISION}", _Handler.info),
    ("GET", rf"/api/models/{REPO}/tree/{REVISION}", _Handler.tree),
    ("POST", rf"/api/models/{REPO}/branch/{REVISION}", _Handler.branch),
    ("POST", rf"/api/models/{REPO}/preupload/{REVISION}", _Handler.preupload),
    ("POST", rf"/api/models/{REPO}/commit/{REVISION}", _Handler.commit),
    ("POST", rf"/{REPO}\.git/info/lfs/objects/batch", _Handler.batch),
    ("PUT", r"/large/(?P<oid>\w+)", _Handler.store),
    ("GET HEAD", rf"/{REPO}/resolve/{REVISION}/(?P<path>.+)", _Handler.resolve),
]
