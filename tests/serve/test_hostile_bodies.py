"""Bodies that are damaged, huge or not images: refused with a reason, without an internal error."""

import gzip
import io
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from mutations import mutated
from PIL import Image
from raw_http import flooded, head_of
from servers import client_of, running, served

from surefind.images.decode import ImageRejected, decode
from surefind.search.index import Index

ROUTES = ("/v1/search", "/v1/embed")
GOOD, BAD = 200, 117
GIGABYTE = 2**30
FLAT = 100 * 2**20  # bytes of growth within the noise
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP")


def good_pictures() -> dict[str, bytes]:
    """A small image of every format."""
    pixels = np.random.default_rng(0).integers(0, 255, (24, 32, 3), np.uint8)
    return {kind: _saved(Image.fromarray(pixels), kind) for kind in FORMATS}


def not_pictures() -> dict[str, bytes]:
    """Other files, and a small file that claims to be huge; `decode` is tested with more."""
    good = good_pictures()
    return {
        "nothing": b"",
        "text": b"hello",
        "EPS": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n(touch) system\n",
        "SVG of a file": b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><svg>&b;</svg>',
        "URL": b"http://127.0.0.1:9/photo.png",
        "gzip of a picture": gzip.compress(good["PNG"]),
        "pickle": b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
        "multipart": b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\n\x89PNG\r\n--x--',
        "GIF of 65535 pixels a side": b"GIF89a" + struct.pack("<HH", 65_535, 65_535) + bytes(20),
        "BMP of a huge size": good["BMP"][:18] + b"\xff\xff\xff\x7f" * 2 + good["BMP"][26:],
    }


def damaged_pictures(count: int, *, seed: int) -> Iterator[bytes]:
    """Mutated images of every format; some can still be decoded."""
    random = np.random.default_rng(seed)
    good = list(good_pictures().values())
    for number in range(count):
        other = good[random.integers(len(good))]
        yield mutated(good[number % len(good)], other, random)


def _saved(picture: Image.Image, kind: str) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind)
    return file.getvalue()


def is_explained(response) -> bool:
    error = response.json()["error"]
    return set(error) == {"problem", "fix"} and all(error.values())


def test_an_image_of_every_format_is_searched(service):
    for content in good_pictures().values():
        query = service.client.post("/v1/search", content=content).json()["query"]
        assert (query["width"], query["height"], query["bytes"]) == (32, 24, len(content))


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", not_pictures())
def test_other_files_are_refused_with_a_reason(service, route, name):
    response = service.client.post(route, content=not_pictures()[name])
    assert response.status_code == 422 and is_explained(response)


def test_damaged_images_are_refused_unless_they_can_be_decoded(service):
    answered = 0
    for content in damaged_pictures(200, seed=0):
        response = service.client.post("/v1/search", content=content)
        try:
            decode(content)
        except ImageRejected:
            assert response.status_code == 422 and is_explained(response), content[:40]
        else:
            assert response.status_code == 200, content[:40]
            answered += 1
    assert 0 < answered < 200  # both were tried


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "kind", ["application/json", "multipart/form-data; boundary=x", "Multipart/Mixed", "multipart/"]
)
def test_a_form_or_json_is_refused_with_advice(service, photo, route, kind):
    response = service.client.post(route, content=photo, headers={"Content-Type": kind})
    assert response.status_code == 415 and "--data-binary" in response.json()["error"]["fix"]


@pytest.mark.parametrize("kind", ["", "image/png", "text/plain", "a/b; c=d", "x" * 3000, "image/svg+xml", "\xff"])
def test_other_content_types_are_ignored(service, photo, kind):
    headers = {"Content-Type": kind.encode("latin-1")}
    response = service.client.post("/v1/search", content=photo, headers=headers)
    assert response.status_code == 200


NOT_JSON = (b"", b"[]", b"{}", b"[" * 30_000, b"\xff\xfe\x00", b"1" * 10_000)
VECTORS = tuple(
    b'{"vector": [%s]}' % numbers
    for numbers in (b"", b"1,2,3", b"1," * 65_536 + b"1", b"NaN," * 15 + b"0", b"1e39," * 15 + b"0")
)


@pytest.mark.parametrize("body", [*NOT_JSON, *VECTORS], ids=lambda body: repr(body[:20]))
def test_an_invalid_vector_body_is_refused_with_a_reason(vector_service, body):
    response = vector_service.client.post("/v1/search/vector", content=body)
    assert response.status_code in (400, 422) and response.json()["error"]["problem"]


def test_images_and_vectors_sent_to_the_wrong_index_are_refused_with_advice(service, vector_service, photo):
    for route in ROUTES:
        refused = vector_service.client.post(route, content=photo)
        assert refused.status_code == 409 and "/v1/search/vector" in refused.json()["error"]["fix"]
    refused = service.client.post("/v1/search/vector", json={"vector": [0.0] * 16})
    assert refused.status_code == 409 and "/v1/search" in refused.json()["error"]["fix"]


# among other requests


def test_one_bad_image_among_two_hundred_is_refused_alone_and_counted(home, picture):
    sent = [picture(seed) for seed in range(GOOD + 1)]
    sent[BAD] = sent[BAD][: len(sent[BAD]) // 2]
    with served(Index.open(home / "index")) as service, client_of(service.url) as client:
        with ThreadPoolExecutor(16) as pool:
            responses = list(pool.map(lambda one: client.post("/v1/search", content=one), sent))
        metrics = client.get("/metrics").text
    assert [n for n, one in enumerate(responses) if one.status_code != 200] == [BAD]
    refused = responses[BAD]
    assert refused.status_code == 422 and "truncated" in refused.json()["error"]["problem"]
    assert 'surefind_rejected_requests_total{reason="image"} 1.0' in metrics
    assert metrics.count("surefind_rejected_requests_total{") == 1
    assert 'surefind_requests_total{method="POST",route="/v1/search",status="422"} 1.0' in metrics


def test_every_client_gets_the_result_of_its_own_image(home):
    """However they are batched: each indexed photo finds itself first."""
    names = [f"class{n:02}/{m}.png" for n in range(24) for m in range(2)]
    photos = [(home / "photos" / name).read_bytes() for name in names]
    with (
        served(Index.open(home / "index"), workers=2) as service,
        client_of(service.url) as client,
        ThreadPoolExecutor(8) as pool,
    ):
        found = list(pool.map(lambda one: client.post("/v1/search?k=1", content=one), photos))
    assert [one.json()["hits"][0]["id"] for one in found] == names


# a gigabyte


@pytest.fixture(scope="module")
def vector_process(vectors):
    with running(vectors) as started:
        yield started


@pytest.mark.parametrize("route", [*ROUTES, "/v1/search/vector"])
@pytest.mark.parametrize("header", [f"Content-Length: {GIGABYTE}", "Transfer-Encoding: chunked"])
def test_a_gigabyte_is_refused_with_flat_memory(process, vector_process, route, header):
    flooding = vector_process if "vector" in route else process
    flooding.forget_peak()
    before, chunked = flooding.memory(), "chunked" in header
    head = head_of("POST", route, header)
    assert flooded(flooding.url, head, size=GIGABYTE, chunked=chunked) == 413
    assert flooding.peak() - before < FLAT
    assert flooding.client.get("/healthz").status_code == 200
