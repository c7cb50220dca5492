"""Records of benchmarks with what made them, and the writing of pages.

A record of a long run is a line of a file in ``.calibrant``, which a later run of the same code reuses. Results in the
repository are parts of a JSON document. Both have the digest of their origin and of their content, so that records of
other code, and edited ones, are not used silently.

With ``ACCEPT_OLDER=1`` in the environment (``make online ACCEPT_OLDER=1``), a page is written from results or records
of other code, and says so.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks import laws
from benchmarks.provenance import ROOT, Origin, digest_of, here, joined, text_of

KEPT = ROOT / ".calibrant"
#: One file for each page, with the origin of its figures.
ORIGINS = ROOT / "benchmarks" / "origins"
_OLDER = "ACCEPT_OLDER"
_UNKNOWN = "of an earlier state, before records named their code"
_MADE_BY, _NOTE = "Code `", "Made from results of an earlier state: "
#: What the next page is made of: origins of the records that were read, and names of older results.
_used: dict[str, Origin] = {}
_older: list[str] = []


class UnusableRecords(ValueError):
    """Records that are missing, damaged or of other code, so that no page is made from them."""


def current(name: str, program: str) -> Path:
    """Return the file of the records of a program (its ``__file__``)."""
    *_, folder, module = Path(program).parts
    path = KEPT / "records" / f"{folder}.{module.removesuffix('.py')}" / f"{name}.jsonl"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def read(path: Path) -> Iterator[Any]:
    """Read the records that the present code made; print how many others there are, and why they are not used."""
    origins: dict[str, Origin] = {}
    verdicts: dict[str, str | None] = {}
    reasons: Counter[str] = Counter()
    for line in path.read_text("utf-8").splitlines() if path.exists() else []:
        if not line:
            continue
        try:
            document = json.loads(line)
            if "origin" in document:
                origin = Origin.read(document["origin"])
                origins[origin.digest] = origin
                continue
            by, record = document["by"], document["record"]
            altered = document["sha256"] != _seal(by, record)
        except (ValueError, TypeError, KeyError):
            reasons["incomplete"] += 1
            continue
        if by not in verdicts:
            verdicts[by] = _verdict(origins.get(by))
        reason = "altered" if altered else verdicts[by]
        if reason and not altered and by in origins and os.environ.get(_OLDER):
            _older.append(f"{path.name} ({reason})")
        elif reason:
            reasons[reason] += 1
            continue
        _used[by] = origins[by]
        yield record
    if reasons:
        counts = "; ".join(f"{count}: {reason}" for reason, count in reasons.items())
        sys.stderr.write(f"{path.name}: records that are not used: {counts}\n")


def append(path: Path, record: Any) -> None:
    """Store a record. The line break comes first, so that an incomplete line before does not spoil this one."""
    origin = here()
    by = origin.digest
    lines = "" if _stored(path, by) else "\n" + json.dumps({"origin": origin.to_dict()})
    # Through JSON, so that tuples and integer keys have the digest of what is read again.
    record = json.loads(json.dumps(record))
    lines += "\n" + json.dumps({"by": by, "sha256": _seal(by, record), "record": record})
    with path.open("a", encoding="utf-8") as file:
        file.write(lines)
    _stored_origins.add((path, by))
    _used[by] = origin


#: Origins that this process has written to a file.
_stored_origins: set[tuple[Path, str]] = set()


def _stored(path: Path, by: str) -> bool:
    return (path, by) in _stored_origins and path.exists()


def _seal(by: str | None, record: Any) -> str:
    return digest_of(text_of([by, record]).encode())


def _verdict(origin: Origin | None) -> str | None:
    """Return why records of this origin are not used, or None."""
    if origin is None:
        return _UNKNOWN
    if differences := origin.differences():
        return f"of other code: {_listed(differences)}"
    return None


def _listed(items: list[str], most: int = 5) -> str:
    return ", ".join(items[:most]) + (f" and {len(items) - most} more" if len(items) > most else "")


def save(path: Path, parts: Mapping[str, Any], *, merge: bool = False) -> None:
    """Store results in the repository; with ``merge``, other parts of the file stay, with their own origin.

    Raises
    ------
    UnusableRecords
        If results are merged with a file that is no document of results.
    """
    document = _document(path) if merge and path.exists() else {"made_by": {}, "parts": {}}
    origin = joined([*_used.values(), here()])
    document["made_by"][origin.digest] = origin.to_dict()
    for name, value in parts.items():
        stored = json.loads(json.dumps(value))
        document["parts"][name] = {"by": origin.digest, "sha256": _seal(origin.digest, stored), "value": stored}
    used = {part["by"] for part in document["parts"].values()}
    document["made_by"] = {by: value for by, value in document["made_by"].items() if by in used}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_spelled(document), "utf-8")


def _spelled(document: Mapping[str, Any]) -> str:
    """Return a document with a line for each module and each part."""
    # Keys of parts stay in their order, which tables of pages have.
    parts = ",\n".join(f"  {json.dumps(name)}: {json.dumps(part)}" for name, part in document["parts"].items())
    return f'{{\n "made_by": {json.dumps(document["made_by"], indent=1)},\n "parts": {{\n{parts}\n }}\n}}\n'


def load(path: Path, command: str, *, older: bool | None = None) -> dict[str, Any]:
    """Return the results in the repository by part, all of the present code.

    Parameters
    ----------
    path
        The file.
    command
        How to make it again, for the error.
    older
        Accept results of other code or of an earlier state; the page that is made from them says so. The default is
        whether ``ACCEPT_OLDER`` is set. If it is stated, nothing is made from them but what is stored beside them.

    Raises
    ------
    UnusableRecords
        Without the file, with damaged or altered parts, or with results of other code that are not accepted.
    """
    if not path.exists():
        raise UnusableRecords(f"{path.name} is missing; run {command}")
    document = _document(path, command)
    accepted = bool(os.environ.get(_OLDER)) if older is None else older
    values, origins = {}, _origins(document)
    for name, part in document["parts"].items():
        try:
            by, value, altered = part["by"], part["value"], part["sha256"] != _seal(part["by"], part["value"])
        except (TypeError, KeyError):
            raise UnusableRecords(f"{path.name}, {name}: incomplete; run {command}") from None
        # Of results of an earlier state nothing is known, but a digest that has no origin was edited.
        if altered or (by is not None and by not in origins):
            raise UnusableRecords(f"{path.name}, {name}: altered since it was written; run {command}")
        if reason := _verdict(origins.get(by)):
            if not accepted:
                raise UnusableRecords(f"{path.name}, {name}: {reason}; run {command}, or accept it with {_OLDER}=1")
            if older is None:
                _older.append(f"{path.name} ({reason})")
        if by in origins and older is None:
            _used[by] = origins[by]
        values[name] = value
    return values


def usable(path: Path) -> dict[str, Any]:
    """Return the parts of results in the repository that the present code made, for a run that makes the others."""
    if not path.exists():
        return {}
    document = _document(path)
    origins = _origins(document)
    return {
        name: part["value"]
        for name, part in document["parts"].items()
        if part["sha256"] == _seal(part["by"], part["value"]) and _verdict(origins.get(part["by"])) is None
    }


def _origins(document: Mapping[str, Any]) -> dict[str, Origin]:
    """Return the origins by their digest, which is computed: parts of an edited origin have none."""
    origins = [Origin.read(value) for value in document["made_by"].values()]
    return {origin.digest: origin for origin in origins}


def _document(path: Path, command: str = "the benchmark again") -> dict[str, Any]:
    try:
        document = json.loads(path.read_text("utf-8"))
        if not isinstance(document["made_by"], dict) or not isinstance(document["parts"], dict):
            raise TypeError
        _origins(document)
    except (ValueError, TypeError, KeyError):
        raise UnusableRecords(f"{path.name} is damaged: not a document of results; run {command}") from None
    return dict(document)


def publish(path: Path, text: str, *, check: Callable[[], None] | None = None) -> None:
    """Write a page, if its figures obey the laws of their columns, with a line that says what made it.

    The origin is stored in ``benchmarks/origins``, with a digest of the page.

    Raises
    ------
    ImpossibleFigure
        If a figure cannot be what its column says; the page stays as it was.
    """
    laws.check_page(path.stem, text)
    if check is not None:
        check()
    origin = joined([*_used.values(), here()])
    text = text.rstrip("\n") + "\n\n" + _made_by(path.stem, origin)
    if _older:
        text += f"\n{_NOTE}{'; '.join(dict.fromkeys(_older))}.\n"
    path.write_text(text, "utf-8")
    ORIGINS.mkdir(exist_ok=True)
    stored = {"page_sha256": digest_of(text.encode()), "older": sorted(set(_older)), **origin.to_dict()}
    (ORIGINS / f"{path.stem}.json").write_text(json.dumps(stored, indent=1) + "\n", "utf-8")
    _used.clear()
    _older.clear()


def _made_by(name: str, origin: Origin) -> str:
    names = {"python": "Python", "numpy": "NumPy", "scipy": "SciPy"}
    versions = ", ".join(f"{title} {origin.versions[key]}" for key, title in names.items() if key in origin.versions)
    return f"{_MADE_BY}{origin.code}`, {versions}: `benchmarks/origins/{name}.json` has the digest of each module.\n"


def body(path: Path) -> str:
    """Return the text of a page without the lines that say what made it."""
    lines = path.read_text("utf-8").splitlines()
    while lines and (not lines[-1] or lines[-1].startswith((_MADE_BY, _NOTE))):
        lines.pop()
    return "\n".join(lines) + "\n"


def kept_body(path: Path, command: str) -> str:
    """Return the text of a page of which a part is written again; what made the rest then counts for the page.

    Raises
    ------
    UnusableRecords
        If other code made the page, and older results are not accepted.
    """
    stored = origin_of(path.stem)
    reason = _verdict(stored[0] if stored else None)
    if reason:
        if not os.environ.get(_OLDER):
            raise UnusableRecords(f"{path.name}: {reason}; run {command}, or accept it with {_OLDER}=1")
        _older.append(f"the rest of {path.name} ({reason})")
    if stored:
        _used[stored[0].digest] = stored[0]
        _older.extend(stored[1]["older"])
    return body(path)


def origin_of(name: str) -> tuple[Origin, dict[str, Any]] | None:
    """Return the origin of a page with what else is stored about it, or None if it was written before pages had one."""
    path = ORIGINS / f"{name}.json"
    if not path.exists():
        return None
    document = json.loads(path.read_text("utf-8"))
    about = {key: document.pop(key) for key in ("page_sha256", "older")}
    return Origin.read(document), about
