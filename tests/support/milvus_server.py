"""A real Milvus server for tests: the PyPI package `milvus`, on free ports, gone at exit.

Its parts talk over 127.0.0.1 and a password is asked for, as version 2.3 listens on every
interface and cannot be configured otherwise.
"""

import os
import random
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ATTEMPTS = 3  # to find ports that stay free until the server takes them
SECONDS_TO_START = 90
COMPONENTS = ("rootCoord", "proxy", "queryCoord", "queryNode", "indexNode", "dataCoord", "dataNode")
SETTINGS = {
    **{f"{part}.ip": "127.0.0.1" for part in COMPONENTS},
    "log.level": "warn",
    "proxy.timeTickInterval": 50,  # from here on: look more often, so that tests wait less
    "queryCoord.checkInterval": 100,
    "queryCoord.distPullInterval": 50,
    "queryCoord.checkHandoffInterval": 500,
}
PORTS = (
    *("etcd_port", "root_coord_port", "proxy_port", "proxy_internal_port", "query_coord_port"),
    *("query_node_port", "index_coord_port", "index_node_port", "data_coord_port"),
    *("data_node_port", "peer", "health"),
)
DIE_WITH_PARENT = """
import ctypes, os, sys
if sys.platform == "linux":  # the server is killed when whoever started it is gone
    ctypes.CDLL(None).prctl(1, 9)
os.execv(sys.argv[1], sys.argv[1:])
"""


class NotStarted(RuntimeError):
    """With the end of the server's own log."""


@dataclass
class MilvusServer:
    """A server process; its data stay in its folder when it is killed."""

    folder: Path
    programs: Path  # where the server was unpacked; can be shared
    user: str = "root"
    password: str = "Milvus"
    settings: Mapping[str, Any] = field(default_factory=dict)  # besides SETTINGS
    ports: dict[str, int] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"milvus://{self.user}:{self.password}@127.0.0.1:{self.ports['proxy_port']}/default"

    def start(self) -> None:
        """On the ports it had before, or on free ones."""
        if self.ports:
            self._run()
            return
        for attempt in range(1, ATTEMPTS + 1):
            self.ports = free_ports()
            try:
                self._configure()
                self._run()
                return
            except NotStarted:
                if attempt == ATTEMPTS:
                    raise
                shutil.rmtree(self.folder)

    def kill(self) -> None:
        """As a power cut would: no time to write anything down."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _run(self) -> None:
        environment = {
            **os.environ,
            "DEPLOY_MODE": "STANDALONE",
            "METRICS_PORT": str(self.ports["health"]),
            "MILVUS_RUN_DIR": str(self.folder / "run"),
            "ETCD_CONFIG_PATH": str(self.folder / "configs" / "etcd.yaml"),
            "LD_LIBRARY_PATH": str(self.programs / "bin"),
        }
        milvus = str(self.programs / "bin" / "milvus")
        with (self.folder / "out.log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-ISc", DIE_WITH_PARENT, milvus, "run", "standalone"],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._wait()

    def _configure(self) -> None:
        config = import_module("milvus").MilvusServerConfig(data_dir=str(self.folder))
        config.set("authorization_enabled", True)
        for name, value in {**SETTINGS, **self.settings}.items():
            config.set(name, value)
        config.update(**{name: port for name, port in self.ports.items() if "_port" in name})
        config.resolve()
        peer, client = (f"http://127.0.0.1:{self.ports[p]}" for p in ("peer", "etcd_port"))
        (self.folder / "configs" / "etcd.yaml").write_text(
            f"listen-client-urls: {client}\nadvertise-client-urls: {client}\n"
            f"listen-peer-urls: {peer}\ninitial-advertise-peer-urls: {peer}\n"
            f"initial-cluster: default={peer}\n"
        )

    def _wait(self) -> None:
        assert self.process is not None
        last = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < last and self.process.poll() is None:
            if self._healthy():
                return
            time.sleep(0.1)
        self.kill()
        log = (self.folder / "out.log").read_text(errors="replace")
        raise NotStarted(f"the Milvus server did not start:\n{log[-2000:]}")

    def _healthy(self) -> bool:
        url = f"http://127.0.0.1:{self.ports['health']}/healthz"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if b"OK" not in answer.read():
                    return False
            socket.create_connection(("127.0.0.1", self.ports["proxy_port"]), 1).close()
        except (urllib.error.URLError, OSError):
            return False
        return True


@contextmanager
def milvus_server(
    folder: Path, *, like: MilvusServer | None = None, settings: Mapping[str, Any] | None = None
) -> Iterator[MilvusServer]:
    """A server whose data are in `folder` as long as it runs; its log stays.

    Most of the time goes into unpacking its programs, which it can share: `like` another.
    """
    if find_spec("milvus") is None or find_spec("pymilvus") is None:
        pytest.skip("needs the packages milvus and pymilvus")
    programs = like.programs if like else folder / "programs"
    import_module("milvus")._initialize_data_files(str(programs))
    server = MilvusServer(folder / "server", programs, settings=settings or {})
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(server.folder / "data", ignore_errors=True)
        if like is None:
            shutil.rmtree(programs, ignore_errors=True)


def free_ports() -> dict[str, int]:
    """Below the range from which systems take ports for outgoing connections."""
    found: dict[str, int] = {}
    for name in PORTS:
        while name not in found:
            port = random.randrange(12_000, 32_000)
            with closing(socket.socket()) as probe:
                try:
                    probe.bind(("", port))
                except OSError:
                    continue
            if port not in found.values():
                found[name] = port
    return found
