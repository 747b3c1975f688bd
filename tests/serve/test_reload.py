"""A newer version takes the place of the one that is served, under load: nobody notices."""

import logging

import pytest
from reloading import reload_under_load
from serving import served

from surefind.search.index import Index

CLIENTS = 8


@pytest.mark.parametrize("reloads", [20, pytest.param(120, marks=pytest.mark.faults)])
def test_no_request_fails_while_versions_are_swapped_under_load(home, own, reloads):
    photos = [(home / "queries" / f"class{n:02}" / "0.png").read_bytes() for n in range(CLIENTS)]
    with served(Index.open(own), reload_seconds=0.02) as service:
        clients = reload_under_load(service, own, home / "queries", photos, reloads=reloads)
        taken = service.state.service.live.reloads
    assert [problem for client in clients for problem in client.wrong] == []
    assert taken >= reloads
    assert all(len(client.versions) > 1 for client in clients)
    answers, gone = sum(c.answers for c in clients), sum(c.gone for c in clients)
    logging.getLogger(__name__).info("%d reloads, %d answers, %d gone", taken, answers, gone)
