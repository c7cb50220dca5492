"""Records of benchmarks name what made them, and pages are not written from others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from benchmarks import provenance, records
from benchmarks.data_sets import verified
from benchmarks.distributions import friedman
from benchmarks.laws import ImpossibleFigure
from benchmarks.provenance import ROOT, Origin, Pool, here
from benchmarks.records import UnusableRecords, append, body, current, kept_body, load, publish, read, save, usable


@pytest.fixture(autouse=True)
def _empty_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(records, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(records, "ORIGINS", tmp_path / "origins")
    monkeypatch.delenv("ACCEPT_OLDER", raising=False)
    records._used.clear()
    records._older.clear()
    yield
    records._used.clear()
    records._older.clear()


def changed(lines: str, **fields: Any) -> str:
    """The lines of a file of records whose origins have other fields, with the digests that belong to them."""
    texts = []
    digests: dict[str, str] = {}
    for document in (json.loads(line) for line in lines.splitlines() if line):
        if "origin" in document:
            old = Origin.read(document["origin"])
            new = Origin.read({**old.to_dict(), **{k: {**getattr(old, k), **v} for k, v in fields.items()}})
            digests[old.digest] = new.digest
            document = {"origin": new.to_dict()}
        else:
            by = digests[document["by"]]
            document |= {"by": by, "sha256": records._seal(by, document["record"])}
        texts.append(json.dumps(document, separators=(",", ":")))
    return "\n".join(texts)


@pytest.fixture
def path() -> Path:
    """A file with two records of the present code."""
    path = current("named", __file__)
    append(path, [["a", 1], {"error": 0.1}])
    append(path, [["b", 2], {"error": float("inf")}])
    return path


def test_a_record_is_read_as_it_was_written(path: Path) -> None:
    assert list(read(path)) == [[["a", 1], {"error": 0.1}], [["b", 2], {"error": float("inf")}]]


def test_records_of_two_programs_have_files_of_their_own() -> None:
    assert current("named", "benchmarks/coverage.py") != current("named", "benchmarks/weights.py")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"modules": {"benchmarks/data_sets.py": "0" * 16}}, "benchmarks/data_sets.py has changed"),
        ({"modules": {"benchmarks/gone.py": "0" * 16}}, "benchmarks/gone.py is gone"),
        ({"versions": {"numpy": "1.0.0"}}, "numpy was 1.0.0"),
        ({"versions": {"a-peer-of-nobody": "1.0"}}, "a-peer-of-nobody was 1.0, now absent"),
        ({"data": {"538_nba_games.csv.gz": "0" * 16}}, "the data 538_nba_games.csv.gz have changed"),
        ({"data": {"benchmarks/tables/derivates.json": "0" * 16}}, "derivates.json have changed"),
    ],
)
def test_records_of_other_code_versions_or_data_are_not_reused(
    path: Path, fields: dict[str, Any], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_text(changed(path.read_text("utf-8"), **fields), "utf-8")
    assert list(read(path)) == []
    assert "records that are not used: 2: of other code" in (message := capsys.readouterr().err)
    assert reason in message


def test_records_of_other_code_are_read_if_older_ones_are_accepted_and_the_page_says_so(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCEPT_OLDER", "1")
    path.write_text(changed(path.read_text("utf-8"), versions={"python": "2.7"}), "utf-8")
    assert len(list(read(path))) == 2
    assert any("of other code: python was 2.7" in reason for reason in records._older)
    records._older.clear()


def test_an_edited_record_is_not_reused(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text(path.read_text("utf-8").replace('"error": 0.1', '"error": 0.2'), "utf-8")
    assert list(read(path)) == [[["b", 2], {"error": float("inf")}]]
    assert "1: altered" in capsys.readouterr().err


def test_a_record_whose_digest_was_edited_is_not_reused(path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]
    lines[1]["by"] = "0" * 16
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    assert list(read(path)) == [[["b", 2], {"error": float("inf")}]]


def test_records_without_their_origin_are_not_reused(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for line in path.read_text("utf-8").splitlines() if '"origin"' not in line]
    path.write_text("\n".join(lines), "utf-8")
    assert list(read(path)) == []
    assert "2: of an earlier state" in capsys.readouterr().err


@pytest.mark.parametrize("garbage", ['["b", ', "[]", "null", '{"by": 1}', "\x00", "{}"])
def test_an_incomplete_record_does_not_spoil_another(
    path: Path, garbage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" + garbage)
    append(path, ["c", 3])
    assert list(read(path))[-1] == ["c", 3]
    assert "1: incomplete" in capsys.readouterr().err


def test_every_truncation_of_the_file_keeps_only_whole_records(path: Path) -> None:
    text, whole = path.read_text("utf-8"), list(read(path))
    for length in range(0, len(text), 97):
        path.write_text(text[:length], "utf-8")
        assert list(read(path)) == whole[: len(list(read(path)))]


def test_a_missing_file_has_no_records() -> None:
    assert list(read(current("missing", __file__))) == []


def test_what_a_worker_loads_and_reads_counts_for_the_record() -> None:
    table = ROOT / "benchmarks" / "tables" / "derivates.json"
    with Pool(1, get_context("spawn")) as pool:
        assert [done.result() for done in as_completed([pool.submit(verified, table)])] == [table]
        assert list(pool.map(abs, [1, -2])) == [1, 2]
        with pytest.raises(ZeroDivisionError):
            pool.submit(divmod, 1, 0).result()
    assert "benchmarks/data_sets.py" in provenance._WORKERS.modules
    assert "benchmarks/tables/derivates.json" in provenance._WORKERS.data
    assert provenance._WORKERS.modules.items() <= here().modules.items()


def test_the_origin_has_the_library_versions_and_no_path_of_this_machine() -> None:
    origin = here()
    assert {"library/calibrant/__init__.py", "benchmarks/data_sets.py"} <= set(origin.modules)
    assert not any("records" in name or "checks/" in name for name in origin.modules if name.startswith("benchmarks/"))
    assert {"python", "numpy", "scipy"} <= set(origin.versions)
    assert str(ROOT) not in json.dumps(origin.to_dict())
    assert origin.differences() == []
    assert Origin.read(json.loads(json.dumps(origin.to_dict()))).digest == origin.digest


@pytest.mark.slow
def test_packages_that_are_not_loaded_yet_have_the_version_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    import sklearn

    origin = here()
    assert origin.versions["sklearn"] == sklearn.__version__
    monkeypatch.setattr(provenance, "_versions", lambda: {"python": origin.versions["python"]})
    assert origin.differences() == []


RESULTS = "results.json"


def test_results_keep_their_order_and_parts_their_own_origin(tmp_path: Path) -> None:
    save(tmp_path / RESULTS, {"b": {"z": 1, "a": 2}, "a": [1.5, None]})
    save(tmp_path / RESULTS, {"c": 3}, merge=True)
    assert list(load(tmp_path / RESULTS, "make it").items()) == [("b", {"z": 1, "a": 2}), ("a", [1.5, None]), ("c", 3)]
    assert list(load(tmp_path / RESULTS, "make it")["b"]) == ["z", "a"]
    save(tmp_path / RESULTS, {"d": 4})
    assert load(tmp_path / RESULTS, "make it") == {"d": 4}


def test_a_run_makes_the_parts_again_that_are_of_other_code_or_altered(tmp_path: Path) -> None:
    assert usable(tmp_path / RESULTS) == {}
    save(tmp_path / RESULTS, {"a": 1, "b": 2, "c": 3})
    document = json.loads((tmp_path / RESULTS).read_text("utf-8"))
    document["parts"]["a"]["by"] = None
    document["parts"]["b"]["value"] = 5
    (tmp_path / RESULTS).write_text(json.dumps(document), "utf-8")
    assert usable(tmp_path / RESULTS) == {"c": 3}


def _remade(document: dict[str, Any], by: str | None, origin: dict[str, Any] | None) -> None:
    """Give the only part of a document another origin, with the digests that belong to it."""
    document["made_by"] = {} if by is None else {by: origin}
    part = document["parts"]["a"]
    part |= {"by": by, "sha256": records._seal(by, part["value"])}


def _without_origin(document: dict[str, Any]) -> None:
    _remade(document, None, None)


def _of_another_version(document: dict[str, Any]) -> None:
    (origin,) = document["made_by"].values()
    origin["versions"]["scipy"] = "0.1"
    _remade(document, Origin.read(origin).digest, origin)


def _of_another_module(document: dict[str, Any]) -> None:
    (origin,) = document["made_by"].values()
    origin["modules"]["benchmarks/data_sets.py"] = "f" * 16
    _remade(document, Origin.read(origin).digest, origin)


def _with_an_edited_origin(document: dict[str, Any]) -> None:
    for origin in document["made_by"].values():
        del origin["modules"]["benchmarks/data_sets.py"]


def _with_a_deleted_origin(document: dict[str, Any]) -> None:
    document["made_by"] = {}


def _edited(document: dict[str, Any]) -> None:
    document["parts"]["a"]["value"] = 2


def _of_an_unknown_shape(document: dict[str, Any]) -> None:
    document["parts"]["a"] = 1


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (_without_origin, "results.json, a: of an earlier state"),
        (_of_another_version, "results.json, a: of other code: scipy was 0.1"),
        (_of_another_module, "results.json, a: of other code: benchmarks/data_sets.py has changed"),
        (_edited, "results.json, a: altered since it was written"),
        (_with_an_edited_origin, "results.json, a: altered since it was written"),
        (_with_a_deleted_origin, "results.json, a: altered since it was written"),
        (_of_an_unknown_shape, "results.json, a: incomplete"),
    ],
)
def test_a_page_refuses_results_of_other_code_and_names_the_command(tmp_path: Path, edit: Any, message: str) -> None:
    save(tmp_path / RESULTS, {"a": 1})
    document = json.loads((tmp_path / RESULTS).read_text("utf-8"))
    edit(document)
    (tmp_path / RESULTS).write_text(json.dumps(document), "utf-8")
    with pytest.raises(UnusableRecords, match=f"{message}.*; run make it"):
        load(tmp_path / RESULTS, "make it")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"made_by": {}}', '{"made_by": {"a": 1}, "parts": {}}', '{"made_by": [], "parts": {}}'],
)
def test_damaged_results_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / RESULTS).write_text(text, "utf-8")
    with pytest.raises(UnusableRecords, match=r"results.json is damaged.*run make it"):
        load(tmp_path / RESULTS, "make it")
    with pytest.raises(UnusableRecords):
        save(tmp_path / RESULTS, {"a": 1}, merge=True)


def test_missing_results_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableRecords, match=r"results.json is missing; run make it"):
        load(tmp_path / RESULTS, "make it")


def test_a_page_of_older_results_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / RESULTS, {"a": 1})
    document = json.loads((tmp_path / RESULTS).read_text("utf-8"))
    _without_origin(document)
    (tmp_path / RESULTS).write_text(json.dumps(document), "utf-8")
    monkeypatch.setenv("ACCEPT_OLDER", "1")
    assert load(tmp_path / RESULTS, "make it") == {"a": 1}
    publish(tmp_path / "page.md", "# A page\n")
    last = (tmp_path / "page.md").read_text("utf-8").splitlines()[-1]
    assert last == (
        "Made from results of an earlier state: results.json (of an earlier state, before records named their code)."
    )
    publish(tmp_path / "other.md", "# Another page\n")
    assert "earlier state" not in (tmp_path / "other.md").read_text("utf-8")


def test_a_page_says_what_made_it_and_its_body_does_not(tmp_path: Path) -> None:
    publish(tmp_path / "page.md", "# A page\n\ntext\n")
    assert body(tmp_path / "page.md") == "# A page\n\ntext\n"
    stored = records.origin_of("page")
    assert stored is not None
    assert f"Code `{stored[0].code}`, Python " in (tmp_path / "page.md").read_text("utf-8")
    assert stored[1]["page_sha256"] == provenance.digest_of((tmp_path / "page.md").read_bytes())


def test_an_impossible_figure_leaves_the_page_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "clusters.md").write_text("before", "utf-8")
    with pytest.raises(ImpossibleFigure, match=r"clusters, Coverage, clusters must be in \[0, 1\]"):
        publish(tmp_path / "clusters.md", "# Coverage\n\n| | clusters |\n|---|---|\n| `ece` | 1.036 |\n")
    assert (tmp_path / "clusters.md").read_text("utf-8") == "before"
    assert records.origin_of("clusters") is None


def test_the_part_of_a_page_that_stays_has_to_be_of_the_present_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page.md").write_text("# Old\n", "utf-8")
    with pytest.raises(UnusableRecords, match=r"page.md: of an earlier state.*; run make it"):
        kept_body(tmp_path / "page.md", "make it")
    monkeypatch.setenv("ACCEPT_OLDER", "1")
    publish(tmp_path / "page.md", kept_body(tmp_path / "page.md", "make it") + "\nnew\n")
    assert "Made from results of an earlier state: the rest of page.md" in (tmp_path / "page.md").read_text("utf-8")
    publish(tmp_path / "page.md", "# New\n")
    monkeypatch.delenv("ACCEPT_OLDER")
    assert kept_body(tmp_path / "page.md", "make it") == "# New\n"


def test_the_page_of_variances_is_what_its_command_writes() -> None:
    runs = load(friedman.RESULTS, "make variance-regression", older=True)
    assert body(friedman.PAGE) == friedman.page(runs)
