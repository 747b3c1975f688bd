"""Servers that answer, as the doctor sees them."""

import pytest

from surefind.doctor.engines import engines


@pytest.mark.parametrize("name", ["pgvector", "milvus"])
def test_a_server_that_answers_is_fine(name, request):
    server = request.getfixturevalue("postgres" if name == "pgvector" else name)
    url = server.url() if name == "pgvector" else server.url
    found = {finding.what: finding for finding in engines([url])}
    assert found[name].state == "fine", found[name]
