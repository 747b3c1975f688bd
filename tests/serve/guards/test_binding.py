"""Open to this machine alone, unless there is a token."""

import logging
from pathlib import Path

import pytest

from surefind.errors import InvalidArgument, InvalidFile, SurefindError
from surefind.serve.guards.binding import LONGEST_TOKEN, check_bind, read_token

GOOD = "0123456789abcdef"
LOOPBACK = ["127.0.0.1", "127.0.0.2", "127.255.255.254", "::1", "localhost", "LocalHost"]
LOOPBACK += ["0:0:0:0:0:0:0:1", "::ffff:127.0.0.1"]
BEYOND = ["0.0.0.0", "::", "", "0", "192.168.1.7", "10.0.0.1", "8.8.8.8", "fe80::1", "photos"]
BEYOND += ["128.0.0.1", "127.0.0.1.example.com", "localhost.example.com", "::ffff:10.0.0.1", "*"]
UNUSABLE = [
    "",
    "short",
    GOOD[1:],
    "with a space in it",
    "line\nbreak, and more",
    "tab\tand more of",
]
UNUSABLE += ["ключ от всех дверей", "nul\0and more of it", "del\x7fand more of it"]
UNUSABLE += ["x" * (LONGEST_TOKEN + 1)]
MATRIX = [
    *[(host, token, True) for host in LOOPBACK for token in (None, GOOD)],
    *[(host, GOOD, True) for host in BEYOND],
    *[(host, None, False) for host in BEYOND],
    *[(host, token, False) for host in ("127.0.0.1", "0.0.0.0") for token in UNUSABLE],
]


@pytest.mark.parametrize(("host", "token", "allowed"), MATRIX)
def test_who_can_be_reached_by_others_needs_a_token(host: str, token: str | None, allowed: bool):
    if allowed:
        check_bind(host, token)
        return
    with pytest.raises(SurefindError) as caught:
        check_bind(host, token)
    assert caught.value.fix
    if token:
        assert token not in str(caught.value)


def test_the_refusal_says_how_to_give_a_token_and_what_to_do_without():
    with pytest.raises(SurefindError) as caught:
        check_bind("0.0.0.0", None)
    for way in ("--token-file FILE", "SUREFIND_TOKEN", "127.0.0.1"):
        assert way in caught.value.fix


def test_a_token_too_short_is_named_by_its_length():
    with pytest.raises(InvalidArgument, match="16 to 1,024 characters, got 3"):
        check_bind("127.0.0.1", "abc")


def make_file(folder: Path, content: bytes, *, mode: int = 0o600) -> Path:
    file = folder / "token"
    file.write_bytes(content)
    file.chmod(mode)
    return file


def test_without_file_and_variable_there_is_no_token():
    assert read_token(None, {}) is None


def test_the_file_comes_before_the_environment(tmp_path: Path):
    file = make_file(tmp_path, f"{GOOD}\n".encode())
    assert read_token(file, {"SUREFIND_TOKEN": "another"}) == GOOD
    assert read_token(None, {"SUREFIND_TOKEN": f" {GOOD}\n"}) == GOOD


@pytest.mark.parametrize("content", [b"", b"\n", b" \t\r\n"])
def test_an_empty_token_is_an_error_not_no_token(tmp_path: Path, content: bytes):
    with pytest.raises(SurefindError, match="holds no token"):
        read_token(make_file(tmp_path, content), {})
    with pytest.raises(SurefindError, match="SUREFIND_TOKEN holds no token"):
        read_token(None, {"SUREFIND_TOKEN": content.decode()})


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path):
    for missing in (tmp_path / "none", tmp_path):
        with pytest.raises(InvalidFile, match="cannot read the token"):
            read_token(missing, {})


def test_a_file_that_is_no_text_is_an_error_that_does_not_hold_it(tmp_path: Path):
    with pytest.raises(InvalidFile, match="not text") as caught:
        read_token(make_file(tmp_path, b"\xff\xfesecret"), {})
    assert "secret" not in str(caught.value) and caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_mark_of_the_editor_is_no_part_of_the_token(tmp_path: Path):
    assert read_token(make_file(tmp_path, b"\xef\xbb\xbf" + GOOD.encode()), {}) == GOOD


@pytest.mark.parametrize(("mode", "warned"), [(0o600, 0), (0o640, 0), (0o644, 1)])
def test_a_token_that_everybody_can_read_is_warned_of(tmp_path: Path, caplog, mode, warned):
    caplog.set_level(logging.DEBUG)
    read_token(make_file(tmp_path, GOOD.encode(), mode=mode), {})
    assert len(caplog.records) == warned
    assert all(record.name == "surefind.serve" for record in caplog.records)
    assert GOOD not in caplog.text
