"""Pages of the documentation are made from the code, or agree with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.pages import DOCS, PAGES
from benchmarks.papers import __main__ as papers
from service.formats.body import ENCODINGS
from service.formats.catalogue import BY_TYPE
from service.formats.media import EVENT, EVENTS, TENSORS
from service.settings import MIB, Settings
from service.web.forms import FIELDS

PAPERS = DOCS.parent / "papers.md"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_made_from_the_code_is_current(name: str) -> None:
    assert (DOCS / f"{name}.md").read_text("utf-8") == PAGES[name](), "run make reference"


def test_the_page_of_the_papers_has_the_values_of_the_other_pages() -> None:
    assert PAPERS.read_text("utf-8") == papers.page(), "run make papers"


@pytest.mark.parametrize("row", [line for line in PAPERS.read_text("utf-8").splitlines() if line.startswith("| ")])
def test_our_values_beside_those_of_the_papers_are_on_the_pages_that_they_link_to(row: str) -> None:
    ours = row.rstrip("| ").split(" | ")[-1]
    pages = [(PAPERS.parent / link).resolve() for link in re.findall(r"\]\(([^)#]+\.md)", ours)]
    numbers = re.findall(r"\d+\.\d+", re.sub(r"\]\([^)]*\)", "", ours))
    if pages:
        text = "\n".join(page.read_text("utf-8") for page in pages)
        assert [number for number in numbers if not re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", text)] == []


@pytest.mark.parametrize("page", sorted((DOCS.parent / "how-to").glob("*.md")), ids=lambda page: page.stem)
def test_a_page_whose_program_calls_the_service_installs_the_client(page: Path) -> None:
    text = page.read_text("utf-8")
    scripts = [page.with_name(name).read_text("utf-8") for name in set(re.findall(r"\]\((\w+\.py)\)", text))]
    if any("from calibrant.client import" in program for program in (text, *scripts)):
        lines = re.findall(r"(?:pip install|pip_requirements=).*\bcalibrant\b.*", text)
        assert [line for line in lines if "calibrant[client]" not in line] == []


@pytest.mark.parametrize("page", ["explanation/why-binned-ece-misleads.md", "benchmarks/index.md"])
def test_the_number_of_compared_methods_is_that_of_the_table(page: str) -> None:
    compared = (DOCS.parent / "benchmarks/calibrators.md").read_text("utf-8")
    ranks = compared.partition("## Mean ranks\n")[2].partition("\n## ")[0]
    stated = re.findall(r"(\d+) methods", (DOCS.parent / page).read_text("utf-8"))
    assert str(len(re.findall(r"^\| `", ranks, re.MULTILINE))) in stated


ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "memory.md").read_text("utf-8")


def test_every_decoder_is_in_the_table() -> None:
    decoders = {
        name for row in re.findall(r"^\| ([^|]*) \|", PAGE, re.MULTILINE) for name in re.findall("`([^`]+)`", row)
    }
    read = {*BY_TYPE, *ENCODINGS, EVENT, EVENTS, TENSORS, FIELDS, "multipart/form-data"}
    assert decoders == read


def test_every_test_of_the_table_exists() -> None:
    for path, name in re.findall(r"`(tests/[a-z_/]+\.py)(?:::(\w+))?`", PAGE):
        assert f"def {name or 'test_'}" in (ROOT / path).read_text("utf-8"), (path, name)


def test_the_stated_budget_is_the_default() -> None:
    assert Settings("redis://").max_request_memory == 2304 * MIB
    assert "(2,304 MiB)" in PAGE
    api = (ROOT / "deploy" / "kubernetes" / "base" / "api.yaml").read_text("utf-8")
    assert f'value: "{2304 * MIB}"' in api
