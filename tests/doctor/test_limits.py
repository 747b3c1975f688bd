"""What a container allows, as the two versions of control groups write it down."""

from pathlib import Path

import pytest

from surefind.doctor import limits


@pytest.fixture
def write(tmp_path: Path, monkeypatch):
    """Files of control groups, and which group this process is in."""
    monkeypatch.setattr(limits, "GROUPS", tmp_path)
    monkeypatch.setattr(limits, "OWN", tmp_path / "own")

    def arrange(own: str, files: dict[str, str]) -> None:
        (tmp_path / "own").write_text(own)
        for name, content in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(content)

    return arrange


def test_version_2_is_read(write):
    write(
        "0::/box\n",
        {
            "box/cpu.max": "150000 100000\n",
            "box/memory.max": "4000\n",
            "box/memory.current": "3500\n",
            "box/memory.stat": "inactive_file 400\n",
        },
    )
    assert limits.cores_allowed() == 1.5
    assert limits.memory_left() == (4000, 900)


def test_version_1_is_read(write):
    write(
        "4:memory:/box\n1:cpu,cpuacct:/box\n",
        {
            "cpu/box/cpu.cfs_quota_us": "200000\n",
            "cpu/box/cpu.cfs_period_us": "100000\n",
            "memory/box/memory.limit_in_bytes": "4000\n",
            "memory/box/memory.usage_in_bytes": "1000\n",
        },
    )
    assert limits.cores_allowed() == 2
    assert limits.memory_left() == (4000, 3000)


def test_the_tightest_of_the_groups_around_counts(write):
    files = {"outer/cpu.max": "100000 100000\n", "outer/inner/cpu.max": "max 100000\n"}
    write("0::/outer/inner\n", files)
    assert limits.cores_allowed() == 1


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"box/cpu.max": "max 100000\n", "box/memory.max": "max\n"},
        {"box/memory.limit_in_bytes": f"{2**63 - 4096}\n", "box/cpu.cfs_quota_us": "-1\n"},
    ],
)
def test_no_limit_is_none(write, files):
    write("0::/box\n", files)
    assert limits.cores_allowed() is None
    assert limits.memory_left() is None
