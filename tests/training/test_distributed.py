"""Two processes train as one does with the same batches."""

import os
import socket
import subprocess
import sys

import pytest
import torch

from surefind.distributed import ProcessGroup
from surefind.training.run_folder import read_log
from surefind.training.trainer import train

KINDS = {
    "balanced": {},
    "tuples": {"batch": {"kind": "tuples", "tuples": 5, "negatives": 3}, "mining": {"cache": 30, "every": 3}},
}


SCRIPT = """
import os, sys
import torch.distributed as dist
from surefind.cli.main import main
from surefind.distributed import ProcessGroup

group = ProcessGroup.join()
assert group.size == dist.get_world_size() == 2
group.leave()
assert not dist.is_initialized()
pictures, folder = sys.argv[1:]
store = {"init_method": f"file://{folder}/store", "rank": int(os.environ["RANK"]), "world_size": 2}
dist.init_process_group("gloo", **store)  # of the script: training uses it, and leaves it
for kind in ("balanced", "tuples"):
    recipe = f"{folder}/{kind}.toml"
    sys.argv = ["surefind", "train", pictures, "-o", f"{folder}/{kind}-2", "--recipe", recipe]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
dist.barrier()
dist.destroy_process_group()
"""


def run_two_processes(*command: object) -> None:
    """Start a command twice, with the environment variables of torchrun."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    known = {"OMP_NUM_THREADS": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    runs = [
        subprocess.Popen(
            [sys.executable, *map(str, command)], env=os.environ | known | {"MASTER_PORT": port, "RANK": str(rank)}
        )
        for rank in range(2)
    ]
    assert [run.wait(timeout=120) for run in runs] == [0, 0]


def test_two_processes_train_as_one(pictures, splits, recipe, tmp_path):
    for kind, changes in KINDS.items():
        chosen = recipe(**changes, schedule={"steps": 6})
        (tmp_path / f"{kind}.toml").write_text(chosen.to_toml())
        train(splits, chosen, tmp_path / f"{kind}-1")
    run_two_processes("-c", SCRIPT, pictures, tmp_path)
    for kind in KINDS:
        folders = [tmp_path / f"{kind}-{processes}" / "run" for processes in (1, 2)]
        logs = [[info for info in read_log(folder / "log.csv") if info.loss == info.loss] for folder in folders]
        for one, two in zip(*logs, strict=True):
            assert one.triplets == two.triplets
            assert two.loss == pytest.approx(one.loss, rel=1e-4)
        assert logs[0][0].loss == pytest.approx(logs[1][0].loss, rel=1e-6)
        states = [torch.load(folder / "state.pt", weights_only=True)["model"] for folder in folders]
        for key, value in states[0].items():
            assert torch.allclose(value, states[1][key], atol=2e-4), key


@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_shares_cover_everything_once(count: int, size: int):
    rows = [row for rank in range(size) for row in range(count)[ProcessGroup(rank, size).share(count)]]
    assert rows == list(range(count))
