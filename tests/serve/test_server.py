"""How the command ends: what is in work is answered, and what cannot begin says why."""

import io
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep

import numpy as np
import pytest
from PIL import Image
from serving import PATIENCE, client_of, running

from surefind.errors import InvalidFile
from surefind.serve.state import read_report

TOGETHER = 20


@pytest.fixture(scope="module")
def large_picture() -> bytes:
    """Takes a while to decode."""
    pixels = np.random.default_rng(0).integers(0, 255, (1500, 1500, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=95)
    return file.getvalue()


def count(metrics: str, name: str) -> float:
    return sum(float(row.split()[-1]) for row in metrics.splitlines() if row.startswith(name))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_is_in_work_is_answered_before_the_end(home, large_picture, number):
    searches = 'surefind_requests_total{method="POST",route="/v1/search"'
    with running(home / "index") as process, client_of(process.url) as client:
        with ThreadPoolExecutor(TOGETHER) as pool:
            ask = lambda _: client.post("/v1/search", content=large_picture)
            asked = [pool.submit(ask, n) for n in range(TOGETHER)]
            ends, inside = monotonic() + PATIENCE, 0.0
            while inside < TOGETHER:
                assert monotonic() < ends
                metrics = process.client.get("/metrics").text
                inside = count(metrics, "surefind_in_flight_requests") + count(metrics, searches)
                sleep(0.01)
            done = sum(one.done() for one in asked)
            process.process.send_signal(number)
            answers = [one.result(PATIENCE) for one in asked]
        assert [one.status_code for one in answers] == [200] * TOGETHER
        assert done < TOGETHER  # some were still in work
        assert process.process.wait(PATIENCE) == 0
        assert "Traceback" not in process.log()


def test_a_port_that_is_taken_is_told_with_what_to_do_and_no_thread_stays(home):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "surefind", "serve", str(home / "index"), "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and "--port" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("nowhere",), "nowhere"),
        (("{index}", "--samples", "nowhere"), "nowhere"),
        (("{index}", "--report", "nowhere"), "report"),
        (("{index}", "--host-name", "https://a.example"), "host name"),
        (("{index}", "--host", "256.256.256.256", "--token-file", "{token}"), "cannot listen"),
    ],
)
def test_what_cannot_begin_says_why_in_one_message(surefind, home, tmp_path, options, said):
    (tmp_path / "token").write_text("a" * 32)
    (tmp_path / "token").chmod(0o600)
    given = {"index": home / "index", "token": tmp_path / "token"}
    done = surefind("serve", "--port", 0, *(option.format(**given) for option in options))
    assert done.code == 1
    assert said in done.err and "Traceback" not in done.err
    assert done.err.count("error:") == 1 and done.err.count("fix:") <= 1


def test_a_report_is_read_as_it_is_and_a_missing_one_says_how_to_make_one(tmp_path):
    with pytest.raises(InvalidFile, match=r"report.html: No such file") as caught:
        read_report(tmp_path)
    assert f"surefind evaluate MODEL DATA -o {tmp_path}" in caught.value.fix
    (tmp_path / "report.html").write_bytes(b"<html>\xc3\xa9")
    assert read_report(tmp_path) == b"<html>\xc3\xa9"
