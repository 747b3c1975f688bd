"""Overload: admitted requests are answered, the others get 503 with Retry-After."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from raw_http import connected, head_of
from servers import PATIENCE, client_of, served, wait_until

from surefind.search.index import Index
from surefind.serve.service import Service

QUEUE = 8


class Door:
    """Blocks the encoder while it is closed, and counts encoded images."""

    def __init__(self, encode) -> None:
        self.open, self.encoded, self._encode = Event(), 0, encode

    def __call__(self, service, key, images):
        assert self.open.wait(PATIENCE)
        self.encoded += len(images)
        return self._encode(service, key, images)


@pytest.fixture
def door(monkeypatch) -> Door:
    made = Door(Service._embed)
    monkeypatch.setattr(Service, "_embed", lambda *given: made(*given))
    return made


def test_at_four_times_the_limit_admitted_requests_are_answered_and_the_others_refused(home, photo, door):
    with served(Index.open(home / "index"), queue=QUEUE, workers=1, batch=1) as service:
        with ThreadPoolExecutor(4 * QUEUE) as pool, client_of(service.url) as client:
            ask = lambda _: client.post("/v1/search", content=photo)
            accepted = [pool.submit(ask, n) for n in range(QUEUE)]
            wait_until(lambda: service.state.admission.in_flight == QUEUE)
            refused = [pool.submit(ask, n) for n in range(3 * QUEUE)]
            refusals = [one.result(PATIENCE) for one in refused]
            assert service.client.get("/healthz").status_code == 200
            assert not any(one.done() for one in accepted)
            door.open.set()
            answers = [one.result(PATIENCE) for one in accepted]
        assert Counter(one.status_code for one in refusals) == {503: 3 * QUEUE}
        assert all(int(one.headers["retry-after"]) >= 1 for one in refusals)
        assert Counter(one.status_code for one in answers) == {200: QUEUE}
        rejects = 'surefind_rejected_requests_total{reason="busy"} 24.0'
        assert rejects in service.client.get("/metrics").text
        assert service.client.post("/v1/search", content=photo).status_code == 200


def test_requests_of_disconnected_clients_are_cancelled(home, photo, door):
    request = head_of("POST", "/v1/search", f"Content-Length: {len(photo)}") + photo
    with served(Index.open(home / "index"), workers=1, batch=1) as service:
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(service.client.post, "/v1/search", content=photo)
            wait_until(lambda: service.state.admission.in_flight == 1)
            leaving = [connected(service.url) for _ in range(10)]
            for client in leaving:
                client.sendall(request)
            wait_until(lambda: service.state.admission.in_flight == 11)
            for client in leaving:
                client.close()
            wait_until(lambda: service.state.admission.in_flight == 1)
            door.open.set()
            assert first.result(PATIENCE).status_code == 200
        assert service.client.post("/v1/search", content=photo).status_code == 200
    assert door.encoded == 2  # the one that waited, and the one that came afterwards


def test_a_request_beyond_the_deadline_gets_503(home, photo, door):
    with served(Index.open(home / "index"), answer_seconds=0.2) as service:
        response = service.client.post("/v1/search", content=photo)
        assert response.status_code == 503 and "no answer within" in response.text
        assert int(response.headers["retry-after"]) >= 1
        assert service.state.admission.in_flight == 0
        door.open.set()
