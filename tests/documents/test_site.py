"""The site: strictly built, whole, and without a request to anywhere else."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from documents_blocks import ROOT, name_of


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    said = done.stdout + done.stderr  # not --quiet: that would also count no warning
    assert done.returncode == 0 and "WARNING" not in said, f"mkdocs build --strict:\n{said}"
    return folder


def test_pages_load_nothing_from_elsewhere(site):
    address = r"[\"']?(?:https?:)?//"
    loads = re.compile(
        rf"<(?:script|img|iframe|source)\b[^>]*\bsrc={address}|"
        rf"<link\b(?=[^>]*rel=[\"']?(?:stylesheet|preload|icon))[^>]*href={address}"
    )
    for page in site.rglob("*.html"):
        assert not loads.search(page.read_text()), page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", sheet.read_text()), sheet
        assert "@import" not in sheet.read_text(), sheet


@pytest.mark.parametrize("path", sorted(ROOT.glob("*.md")), ids=name_of)
def test_links_of_a_document_beside_the_site_lead_to_a_file_and_an_anchor(path: Path, site):
    """Those of pages are validated by mkdocs."""
    docs = ROOT / "docs"
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", path.read_text()):
        if target.startswith(("http", "mailto:")):
            continue
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), target
        if anchor and file.is_relative_to(docs):
            name = file.relative_to(docs).with_suffix("")
            page = site / (name.parent if name.name == "index" else name) / "index.html"
            assert f'id="{anchor}"' in page.read_text(), f"{target}#{anchor}"


def test_the_reference_has_every_command_with_its_options(site):
    import typer

    from surefind.cli.commands import app

    text = (site / "reference" / "commands" / "index.html").read_text()
    for name, command in typer.main.get_command(app).commands.items():
        assert f'id="surefind-{name}"' in text, name
        options = [parameter.opts[0] for parameter in command.params]
        missing = [option for option in options if option[0] == "-" and f"{option}</code>" not in text]
        assert not missing, name


def test_the_reference_has_every_key_of_a_recipe(site):
    from surefind.training.recipe import Recipe

    text = (site / "reference" / "recipes" / "index.html").read_text()
    for table, keys in Recipe().as_dict().items():
        if isinstance(keys, dict):
            assert f'id="{table}"' in text
            assert [key for key in keys if f"<code>{key}</code>" not in text] == []


def test_the_reference_has_every_name_of_the_package(site):
    import surefind

    text = "".join(page.read_text() for page in (site / "reference").rglob("index.html"))
    for home in (surefind, surefind.functional, surefind.losses, surefind.metrics):
        for name in home.__all__:
            if name not in ("encoders", "functional", "losses", "metrics", "DEFINITIONS"):
                assert re.search(rf'id="surefind\.[\w.]*\b{name}"', text), name
