"""The real service, started for a moment, asked by HTTP, and ended."""

import json
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from surefind.demo.questions import SHOWN, Question
from surefind.errors import SurefindError

PACKAGES = ("fastapi", "uvicorn", "prometheus_client")
INSTALL = "pip install 'surefind[serve]'"
PATIENCE = 30.0  # seconds to start, to answer, to end
SAME = 1e-3  # of a confidence: batches round in other ways


@dataclass(frozen=True)
class Answered:
    """What the service said."""

    verdicts: tuple[str, ...]
    same: bool  # as the index said when it was asked here
    milliseconds: float  # of the slowest answer, as the service counts


def is_installed() -> bool:
    return all(find_spec(package) is not None for package in PACKAGES)


def ask_service(index: Path, questions: Sequence[Question]) -> Answered:
    """Send the pictures of the questions, and compare the answers."""
    with _served(index) as url:
        answers = [_ask(url, question.path.read_bytes()) for question in questions]
    pairs = zip(questions, answers, strict=True)
    return Answered(
        tuple(answer["verdict"] for answer in answers),
        all(_agree(question, answer) for question, answer in pairs),
        1000 * max(answer["seconds"]["total"] for answer in answers),
    )


def _agree(question: Question, answer: dict[str, Any]) -> bool:
    here = question.result
    said, expected = answer["confidence"], here.confidence
    alike = said == expected or abs((said or 0.0) - (expected or 0.0)) < SAME
    first = answer["hits"][0]["id"] == here.hits[0].id
    return bool(first and alike and answer["verdict"] == here.verdict)


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """By a thread, on a port that is free, for this machine only."""
    from surefind.search.index import Index
    from surefind.serve.app import make_app
    from surefind.serve.server import bound, server_of
    from surefind.serve.settings import Settings
    from surefind.serve.state import AppState

    settings = Settings(port=0, reload_seconds=0)
    with bound(settings) as listening:
        server = server_of(make_app(AppState(Index.open(folder), settings)), settings)
        thread = threading.Thread(
            target=server.run, kwargs={"sockets": [listening]}, daemon=True, name="surefind-demo"
        )
        thread.start()
        try:
            _wait(lambda: server.started or not thread.is_alive())
            yield f"http://{settings.host}:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE)


def _ask(url: str, picture: bytes) -> dict[str, Any]:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    question = urllib.request.Request(f"{url}/v1/search?k={SHOWN}", data=picture)  # noqa: S310
    question.add_header("Content-Type", "application/octet-stream")
    try:
        with direct.open(question, timeout=PATIENCE) as answer:
            said: dict[str, Any] = json.load(answer)
    except (OSError, ValueError) as error:
        raise SurefindError(
            f"the service at {url} does not answer: {error}",
            fix="try it by itself: surefind serve INDEX",
        ) from error
    return said


def _wait(is_over: Any) -> None:
    until = monotonic() + PATIENCE
    while not is_over() and monotonic() < until:
        sleep(0.02)
