"""The search of the documentation site: the guides and the decision records, with the scorer of the site."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
#: What people type -> the guide that must be first, or among the first.
FIRST = {
    "multilabel": "how-to/labels",
    "LLM confidence": "how-to/labels",
    "SVC": "how-to/scikit-learn",
    "JavaScript": "how-to/apply-elsewhere",
    "reproducible": "how-to/notebooks",
}
#: Loads the built index into the script of the site, with as much of a browser as it needs, and prints the results.
SEARCH = """
const fs = require("fs"), vm = require("vm"), [folder, ...queries] = process.argv.slice(1);
globalThis.document = { getElementById: () => null, addEventListener: () => {} };
globalThis.window = globalThis;
globalThis._ready = () => {};
globalThis.SPHINX_HIGHLIGHT_ENABLED = false;
const read = (name) => fs.readFileSync(`${folder}/${name}`, "utf-8");
const script = ["_static/language_data.js", "_static/searchtools.js", "searchindex.js"].map(read).join("\\n");
vm.runInThisContext(`${script}\\n;globalThis.Found = (q) => Search._performSearch(...Search._parseQuery(q));`);
console.log(JSON.stringify(queries.map((query) => Found(query).reverse().map(([page]) => page))));
"""


def _pages_of(folder: Path, queries: Sequence[str]) -> Mapping[str, list[str]]:
    """The pages of the results of each query, best first."""
    run = ["node", "-e", SEARCH, str(folder), *queries]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip(queries, json.loads(done.stdout), strict=True))


@pytest.mark.slow
def test_search_ranks_guides_before_decision_records_and_finds_what_people_type(tmp_path: Path) -> None:
    source, built = tmp_path / "source", tmp_path / "built"
    for folder in ("how-to", "adr"):
        shutil.copytree(DOCS / folder, source / folder)
    shutil.copy(DOCS / "search_scorer.js", source)
    (source / "index.md").write_text("# Index\n", "utf-8")
    settings = 'extensions = ["myst_parser"]\nhtml_theme = "basic"\nhtml_search_scorer = "search_scorer.js"\n'
    (source / "conf.py").write_text(settings, "utf-8")
    build = [sys.executable, "-m", "sphinx", "-Q", "-b", "html", str(source), str(built)]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    pages = _pages_of(built, [*FIRST, "weights", "alarms", "labels"])
    for query, guide in FIRST.items():
        assert pages[query][0] == guide, (query, pages[query][:5])
    for query in ("weights", "alarms", "labels"):
        is_record = [page.startswith("adr/") for page in pages[query]]
        assert any(is_record), query
        assert is_record == sorted(is_record), (query, pages[query])
