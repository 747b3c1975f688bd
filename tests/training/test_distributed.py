"""Two gloo processes do what one does with the same batch."""

import os
import socket
import subprocess
import sys

import pytest
import torch

from surefind.distributed import ProcessGroup
from surefind.training.run_folder import read_log

KINDS = {
    "balanced": {},
    "tuples": {
        "batch": {"kind": "tuples", "tuples": 5, "negatives": 3},
        "mining": {"cache": 30, "every": 3},
    },
}


def free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def run(processes: int, *command: object) -> None:
    """What torchrun does."""
    port = free_port()
    runs = [
        subprocess.Popen(
            [sys.executable, *map(str, command)],
            env=os.environ
            | {
                "OMP_NUM_THREADS": "1",
                "WORLD_SIZE": str(processes),
                "RANK": str(rank),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
            },
        )
        for rank in range(processes)
    ]
    assert [one.wait(timeout=120) for one in runs] == [0] * processes


@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_train_as_one(kind: str, pictures, recipe, tmp_path):
    toml = tmp_path / "recipe.toml"
    toml.write_text(recipe(**KINDS[kind], schedule={"steps": 6}).to_toml())
    for processes in (1, 2):
        command = ("-m", "surefind", "train", pictures, "-o", tmp_path / str(processes))
        run(processes, *command, "--recipe", toml)
    logs = [
        [info for info in read_log(tmp_path / name / "run/log.csv") if info.loss == info.loss]
        for name in ("1", "2")
    ]
    for one, two in zip(*logs, strict=True):
        assert one.triplets == two.triplets
        assert two.loss == pytest.approx(one.loss, rel=1e-4)
    assert logs[0][0].loss == pytest.approx(logs[1][0].loss, rel=1e-6)
    states = [
        torch.load(tmp_path / name / "run/state.pt", weights_only=True)["model"]
        for name in ("1", "2")
    ]
    for key, value in states[0].items():
        assert torch.allclose(value, states[1][key], atol=2e-4), key


@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_shares_cover_everything_once(count: int, size: int):
    rows = [
        row for rank in range(size) for row in range(count)[ProcessGroup(rank, size).share(count)]
    ]
    assert rows == list(range(count))


@pytest.mark.parametrize("own", [False, True])
def test_only_a_group_that_it_made_ends_when_it_leaves(own: bool, tmp_path):
    """A script may have a group of its own, and go on with it after training."""
    script = tmp_path / "script.py"
    script.write_text(
        "import torch.distributed as dist\n"
        "from surefind.distributed import ProcessGroup\n"
        f"if {own}:\n"
        "    dist.init_process_group('gloo')\n"
        "world = ProcessGroup.join()\n"
        "assert world.size == dist.get_world_size() == 2\n"
        "world.leave()\n"
        f"assert dist.is_initialized() == {own}\n"
        f"if {own}:\n"
        "    dist.barrier()\n"
        "    dist.destroy_process_group()\n"
    )
    run(2, script)
