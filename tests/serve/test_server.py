"""The command: graceful stop, and errors at the start."""

import io
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep

import numpy as np
import pytest
from PIL import Image
from servers import PATIENCE, client_of, running

TOGETHER = 20


@pytest.fixture(scope="module")
def large_picture() -> bytes:
    """Slow to decode."""
    pixels = np.random.default_rng(0).integers(0, 255, (1500, 1500, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=95)
    return file.getvalue()


def count(metrics: str, name: str) -> float:
    return sum(float(row.split()[-1]) for row in metrics.splitlines() if row.startswith(name))


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_accepted_requests_are_answered_before_the_stop(home, large_picture, number):
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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("nowhere",), "nowhere"),
        (("{index}", "--samples", "nowhere"), "nowhere"),
        (("{index}", "--report", "nowhere"), "surefind evaluate MODEL DATA -o nowhere"),
        (("{index}", "--host-name", "https://a.example"), "host name"),
        (("{index}", "--host", "0.0.0.0"), "no token"),
        (("{index}", "--host", "256.256.256.256", "--token-file", "{token}"), "cannot listen"),
        (("{index}", "--port", "{port}"), "another --port"),
    ],
)
def test_start_errors_are_one_message(surefind, home, tmp_path, options, said):
    (tmp_path / "token").write_text("a" * 32)
    (tmp_path / "token").chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as in_use:
        port = in_use.getsockname()[1]
        given = {"index": home / "index", "token": tmp_path / "token", "port": port}
        done = surefind("serve", "--port", 0, *(option.format(**given) for option in options))
    assert done.code == 1
    assert said in done.err and "Traceback" not in done.err
    assert done.err.count("error:") == 1 and done.err.count("fix:") <= 1
