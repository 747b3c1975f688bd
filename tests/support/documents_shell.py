"""Shell blocks in a real bash, whose commands are answered by the test.

The only commands it finds are a few plain tools and stand-ins. A stand-in sends its arguments to
the test and says what comes back, so that `surefind` runs in this process and costs no start of
its own.
"""

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from command import Done

TOOLS = (
    "basename", "bash", "cat", "chmod", "cp", "cut", "dirname", "du", "env", "find", "grep", "head",
    "ls", "mkdir", "mv", "rm", "sed", "seq", "sh", "sleep", "sort", "tail", "tee", "touch", "tr",
    "uniq", "wc", "xargs",
)  # fmt: skip
ANSWERS = {0, 3, 4}  # of surefind; the last two are what it thinks of a query
SECONDS = 170  # for a block that waits for something

STAND_IN = """\
#!{python} -IS
import base64, json, os, socket, sys
asked = {{
    "words": [os.path.basename(sys.argv[0]), *sys.argv[1:]], "folder": os.getcwd(),
    "environment": dict(os.environ), "stdin": base64.b64encode(sys.stdin.buffer.read()).decode(),
}}
with socket.create_connection(("127.0.0.1", {port})) as line:
    line.sendall(json.dumps(asked).encode())
    line.shutdown(socket.SHUT_WR)
    said = json.loads(b"".join(iter(lambda: line.recv(65536), b"")))
sys.stdout.write(said["out"])
sys.stderr.write(said["err"])
sys.exit(said["code"])
"""

BEFORE = """\
set -o allexport; [ -f "$REMEMBERED" ] && . "$REMEMBERED"; set +o allexport
command_not_found_handle() { echo "no command that the tests know: $*" >> "$FAILED"; return 127; }
trap 'code=$?; case "$code $BASH_COMMAND" in "3 "*surefind*|"4 "*surefind*) ;;
  *) echo "exit code $code of: $BASH_COMMAND" >> "$FAILED";; esac' ERR
"""
AFTER = '\n:; export -p > "$REMEMBERED"\n'


class Call(NamedTuple):
    """A command as bash has understood it."""

    words: list[str]
    folder: Path
    environment: dict[str, str]
    stdin: bytes

    @property
    def program(self) -> str:
        return self.words[0]


class Shell:
    """Blocks one after the other, in one folder; what they export is kept."""

    def __init__(
        self, place: Path, *, folder: Path, programs: Mapping[str, Callable[[Call], Done]]
    ) -> None:
        self.place, self.folder, self.programs = place, folder, programs
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listening.settimeout(0.02)
        self.failed: list[str] = []
        _write_programs(place / "bin", programs, port=self.listening.getsockname()[1])
        (folder / ".venv").mkdir(exist_ok=True)
        (folder / ".venv" / "bin").symlink_to(place / "bin")

    def close(self) -> None:
        self.listening.close()

    def run(self, script: str) -> str:
        """What it printed; a command that is unknown or fails is an AssertionError."""
        failed, said = self.place / "failed", self.place / "said"
        failed.write_text("")
        with said.open("w") as out:
            process = subprocess.Popen(
                ["bash", "--norc", "-c", BEFORE + script + AFTER],
                cwd=self.folder,
                env=self._environment(failed),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
            try:
                self._answer_until_it_ends(process)
            finally:
                process.kill()
                process.wait()
        complaints = [*failed.read_text().splitlines(), *self.failed]
        assert not complaints, "\n".join([*complaints, "", "it said:", said.read_text()[-3000:]])
        return said.read_text()

    def _environment(self, failed: Path) -> dict[str, str]:
        kept = {
            name: os.environ[name] for name in ("LANG", "LC_ALL", "TMPDIR") if name in os.environ
        }
        return {
            **kept,
            "PATH": str(self.place / "bin"),
            "HOME": str(self.folder),
            "FAILED": str(failed),
            "REMEMBERED": str(self.place / "remembered"),
        }

    def _answer_until_it_ends(self, process: "subprocess.Popen[bytes]") -> None:
        for _ in range(int(SECONDS / 0.02)):
            if process.poll() is not None:
                return
            try:
                line, _ = self.listening.accept()
            except TimeoutError:
                continue
            with line:
                line.settimeout(10)
                asked = json.loads(b"".join(iter(lambda: line.recv(65536), b"")))
                asked["stdin"] = base64.b64decode(asked["stdin"])
                done = self._answer(Call(**asked | {"folder": Path(asked["folder"])}))
                line.sendall(json.dumps(done._asdict()).encode())
        self.failed.append(f"not finished after {SECONDS} seconds")

    def _answer(self, call: Call) -> Done:
        try:
            done = self.programs[call.program](call)
        except AssertionError as error:
            done = Done(1, "", f"{error}\n")
        if done.code not in ANSWERS:
            self.failed.append(f"{' '.join(call.words)}\nexit code {done.code}: {done.err.strip()}")
        return done


def _write_programs(folder: Path, programs: Mapping[str, object], *, port: int) -> None:
    folder.mkdir(parents=True)
    for name in TOOLS:
        if (tool := shutil.which(name)) is not None:
            (folder / name).symlink_to(tool)
    (folder / "activate").touch()
    for name in programs:
        (folder / name).write_text(STAND_IN.format(python=sys.executable, port=port))
        (folder / name).chmod(0o755)
