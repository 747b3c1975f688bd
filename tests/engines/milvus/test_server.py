"""The server that the tests start: several at a time, and none is left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from milvus_server import free_ports, milvus_server

pytestmark = pytest.mark.milvus

ABANDONING = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from milvus_server import MilvusServer
server = MilvusServer(Path(sys.argv[2]), Path(sys.argv[3]))
server.start()
print(server.process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().split(")")[1].split()[0] != "Z"


def test_two_servers_run_side_by_side_and_end(milvus, tmp_path):
    with milvus_server(tmp_path, like=milvus) as other:
        pid = other.process.pid
        assert alive(pid) and alive(milvus.process.pid)
        assert not {*other.ports.values()} & {*milvus.ports.values()}
        assert os.getpgid(pid) != os.getpgid(0)  # Ctrl-C is not meant for it
    assert not alive(pid)
    assert not (tmp_path / "server" / "data").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
def test_a_server_ends_when_its_tests_are_killed(milvus, tmp_path, request):
    support = str(request.config.rootpath / "tests" / "support")
    arguments = [support, str(tmp_path), str(milvus.programs)]
    run = subprocess.run(
        [sys.executable, "-c", ABANDONING, *arguments], capture_output=True, text=True
    )
    assert run.returncode == -signal.SIGKILL
    pid = int(run.stdout)
    for _ in range(100):
        if not alive(pid):
            break
        time.sleep(0.1)
    assert not alive(pid)


def test_ports_are_different():
    ports = free_ports()
    assert len({*ports.values()}) == len(ports) == 12
