"""The database fails: 503 meanwhile, and recovery when it is back."""

import pytest
from postgres import postgres_server
from servers import served, wait_until

from surefind.encoders import Encoder
from surefind.engines.pgvector.connection import parse
from surefind.search.index import Index
from surefind.serve.gallery import item_of

ITEM = item_of("class00/0.png")


@pytest.fixture
def server():
    with postgres_server() as started:
        yield started


@pytest.fixture
def service(server, model, home, tmp_path):
    url = server.url()
    Index.create(tmp_path / "index", Encoder.load(model), home / "photos", engine=url).close()
    with served(Index.open(tmp_path / "index", engine=url), reload_seconds=0.1) as shared:
        yield shared


def test_requests_get_503_until_the_database_is_back(server, service, photo, caplog):
    place = parse(server.url(table="surefind"))
    assert service.client.post("/v1/search", content=photo).status_code == 200
    server.kill()
    try:
        for response in (
            service.client.post("/v1/search", content=photo),
            service.client.get(f"/v1/items/{ITEM}"),
            service.client.get(f"/v1/items/{ITEM}/neighbours"),
            service.client.get(f"/v1/items/{ITEM}/thumbnail"),
        ):
            assert response.status_code == 503, response.text
            assert int(response.headers["retry-after"]) >= 1
            assert set(response.json()["error"]) == {"problem", "fix"}
            assert str(server.port) not in response.text and str(server.data) not in response.text
        wait_until(lambda: service.client.get("/readyz").json()["reload"] is not None)
        ready = service.client.get("/readyz")
        assert ready.status_code == 503 and ready.json()["ready"] is False
        assert ready.json()["warnings"]
        for name in ("user", "host", "port", "dbname"):  # only the log has the details
            assert place.parameters[name] not in ready.text, name
        assert place.shown in caplog.text
        assert service.client.get("/healthz").status_code == 200
        assert service.client.post("/v1/embed", content=photo).status_code == 200
    finally:
        server.start()
    wait_until(lambda: service.client.get("/readyz").status_code == 200)
    assert len(service.client.post("/v1/search?k=5", content=photo).json()["hits"]) == 5
    wait_until(lambda: service.client.get(f"/v1/items/{ITEM}/neighbours").status_code == 200)
