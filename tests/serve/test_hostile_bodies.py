"""What is sent instead of a picture: refused with a reason, never a failure of the service."""

import pytest
from hostile_bodies import damaged_pictures, good_pictures, not_pictures

from surefind.images.decode import ImageRejected, decode

ROUTES = ("/v1/search", "/v1/embed")


def can_be_decoded(content: bytes) -> bool:
    try:
        decode(content)
    except ImageRejected:
        return False
    return True


def told_why(response) -> bool:
    error = response.json()["error"]
    return set(error) == {"problem", "fix"} and all(error.values())


@pytest.mark.parametrize("kind", good_pictures())
def test_a_picture_of_every_format_is_answered(service, kind):
    response = service.client.post("/v1/search", content=good_pictures()[kind])
    assert response.status_code == 200
    assert (response.json()["query"]["width"], response.json()["query"]["height"]) == (32, 24)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", not_pictures())
def test_what_is_no_picture_is_refused_with_the_reason(service, route, name):
    response = service.client.post(route, content=not_pictures()[name])
    assert response.status_code == 422 and told_why(response)


@pytest.mark.parametrize("route", ROUTES)
def test_damaged_pictures_are_answered_if_they_can_be_decoded_and_refused_if_not(service, route):
    answered = 0
    for content in damaged_pictures(200, seed=len(route)):
        response = service.client.post(route, content=content)
        assert response.status_code == (200 if can_be_decoded(content) else 422), content[:40]
        assert response.status_code == 200 or told_why(response)
        answered += response.status_code == 200
    assert 0 < answered < 200  # both were tried


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "kind", ["application/json", "multipart/form-data; boundary=x", "Multipart/Mixed", "multipart/"]
)
def test_a_wrapped_picture_is_refused_with_advice_how_to_send_it(service, photo, route, kind):
    response = service.client.post(route, content=photo, headers={"Content-Type": kind})
    assert response.status_code == 415 and "--data-binary" in response.json()["error"]["fix"]


@pytest.mark.parametrize(
    "kind", ["", "image/png", "text/plain", "a/b; c=d", "x" * 3000, "image/svg+xml", "\xff"]
)
def test_other_content_types_are_not_believed_but_looked_through(service, photo, kind):
    headers = {"Content-Type": kind.encode("latin-1")}
    response = service.client.post("/v1/search", content=photo, headers=headers)
    assert response.status_code == 200


NOT_JSON = (b"", b"[]", b"{}", b"[" * 30_000, b"\xff\xfe\x00", b"1" * 10_000)
TOKENS = (b'{"token": 1}', b'{"token": "\\ud800"}', b'{"token": "' + b"a" * 5000 + b'"}')
VECTORS = tuple(
    b'{"vector": [%s]}' % numbers
    for numbers in (b"", b"1,2,3", b"1," * 65_536 + b"1", b"NaN," * 15 + b"0", b"1e39," * 15 + b"0")
)


@pytest.mark.parametrize("body", [*NOT_JSON, *TOKENS], ids=lambda body: repr(body[:20]))
def test_what_is_no_token_in_json_is_refused_with_the_reason(service, body):
    response = service.client.post("/v1/session", content=body)
    assert response.status_code in (400, 422) and told_why(response)


@pytest.mark.parametrize("body", [*NOT_JSON, *VECTORS], ids=lambda body: repr(body[:20]))
def test_what_is_no_vector_in_json_is_refused_with_the_reason(vector_service, body):
    response = vector_service.client.post("/v1/search/vector", content=body)
    assert response.status_code in (400, 422) and response.json()["error"]["problem"]


def test_images_for_an_index_of_vectors_are_refused_with_advice(vector_service, photo):
    for route in ROUTES:
        response = vector_service.client.post(route, content=photo)
        assert (
            response.status_code == 409 and "/v1/search/vector" in response.json()["error"]["fix"]
        )


def test_vectors_for_an_index_of_images_are_refused_with_advice(service):
    response = service.client.post("/v1/search/vector", json={"vector": [0.0] * 16})
    assert response.status_code == 409 and "/v1/search" in response.json()["error"]["fix"]
