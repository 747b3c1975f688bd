"""The tests of documents can fail: what is wrong in one is found, and told where."""

from pathlib import Path

import pytest
from documents_blocks import blocks_of, ready_for


@pytest.fixture
def document(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "document.md"
        path.write_text(f"# A document\n\n{text}\n")
        return path

    return write


def sh(*lines: str) -> str:
    return "\n".join(["```sh", *lines, "```"])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("surefind check photos/ --no-such-option", "--no-such-option"),
        ("surefind chekc photos/", "chekc"),
        ("surefind check no-such-folder/", "no such file or folder"),
        ("surefind recipes bayes-centered+cpu", "did you mean bayes-centred"),
        ("surefind train photos/ -o model --set loss.marign=1", "marign"),
        ("surefind demo --no-such-option", "--no-such-option"),
        ("surefind index model photos/ -o index --engine pgvector://me@host/db?tabel=a", "tabel"),
        ("torchrun --nproc-per-node 2 -m surefind index a b -o c --kin flat", "--kin"),
        ("docker run surefind serve /index --prot 8000", "--prot"),
        ("frobnicate photos/", "no command that the tests know: frobnicate"),
        ("frobnicate | head -1", "no command that the tests know: frobnicate"),
        ("cat no-such-file", "exit code 1 of: cat no-such-file"),
        ("make no-such-target", "no such target"),
        ("pip install 'surefind[no-such]'", "no such extra"),
        ("python benchmarks/no-such.py", "no such file"),
        ("python benchmarks/loss.py --no-such", "no such option"),
        ("python -c 'raise SystemExit(1)'", "exit code 1"),
        ("curl http://127.0.0.1:8000/readyz", "exit code 7"),
    ],
)
def test_a_command_that_fails_is_found(document, read, line, told):
    with pytest.raises(AssertionError) as failure:
        read(document(sh("echo before", line, "echo after")))
    assert told in str(failure.value)
    assert "the sh block at document.md, line 4" in failure.value.__notes__[0]


@pytest.mark.parametrize("fence", ["```", "```bash", "``` console"])
def test_a_fence_that_does_not_say_what_it_holds_is_found(document, fence):
    with pytest.raises(AssertionError, match="line 3: a fence must say what it holds: ```python"):
        blocks_of(document(f"{fence}\nsurefind\n```"))


def test_a_fence_that_is_never_closed_is_found(document):
    with pytest.raises(AssertionError, match="never closed"):
        blocks_of(document("```sh\nsurefind"))


@pytest.mark.parametrize(
    ("language", "text", "error"),
    [
        ("python", "1 / 0", ZeroDivisionError),
        ("json", "{", ValueError),
        ("yaml", "a: [", Exception),
        ("toml", "a = ", ValueError),
        ("toml", "[encoder]\nbackbonne = 'tiny'", Exception),
    ],
)
def test_other_blocks_that_are_wrong_are_found(document, read, language, text, error):
    with pytest.raises(error) as failure:
        read(document(f"```{language}\n{text}\n```"))
    assert f"the {language} block at document.md, line 4" in failure.value.__notes__[0]


def test_what_cannot_stand_ready_is_found(document):
    with pytest.raises(AssertionError, match="modle"):
        ready_for(document("<!-- ready: modle -->"))


def test_blocks_share_folder_names_and_exports(document, read):
    path = document(
        "<!-- ready: index service -->\n"
        + sh("export WORD=kept", "surefind search index query.jpg; echo code $? > code")
        + "\n```python\nfrom pathlib import Path\ncode = Path('code').read_text().strip()\n```\n"
        + sh('echo "$WORD" | tr k K > word', "cat query.jpg | surefind search index -")
        + "\n```python\nassert (code, Path('word').read_text()) == ('code 0', 'Kept\\n')\n```\n"
        + sh("curl http://localhost:8000/readyz > ready", "surefind serve index --port 8000 &")
    )
    read(path)
