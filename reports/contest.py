"""Several maps side by side, where a report compares them: who is better, and by which measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reports import found, numbers
from reports.cleaning import cleaned
from reports.meanings import column


@dataclass(frozen=True)
class Contestant:
    """A row of the comparison: its name, and for each measure the value and its interval."""

    name: str
    cells: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Contest:
    """The comparison: ``columns`` are titles of measures, ``said`` a sentence for each that ranks."""

    columns: list[str]
    rows: tuple[Contestant, ...]
    said: tuple[str, ...]


def contest(report: Mapping[str, Any]) -> Contest | None:
    """What a report's ``comparison`` of maps says; None where it has none."""
    comparison = report.get("comparison")
    if not comparison:
        return None
    keys = list(comparison["measures"])
    first = comparison["contestants"][0]["measures"]
    titles = {key: column(key, first[key]["definition"]) for key in keys}
    rows = tuple(
        Contestant(cleaned(each["name"]), tuple(_cell(each["measures"][key]) for key in keys))
        for each in comparison["contestants"]
    )
    said = (_said(titles[key], comparison["measures"][key]) for key in keys)
    return Contest(list(titles.values()), rows, tuple(sentence for sentence in said if sentence))


def _cell(answer: Mapping[str, Any]) -> tuple[str, str]:
    best = answer["value"] if answer.get("debiased") is None else answer["debiased"]
    return ("none" if best is None else numbers.number(best)), numbers.interval(found.interval(answer))


def _said(title: str, compared: Mapping[str, Any]) -> str:
    """The best by one measure, and whom chance could have put first."""
    if not compared["ranking"]:
        return ""
    best, equals = compared["ranking"][0], compared["indistinguishable"] or []
    others = [name for name in equals if name != best]
    told = f"{title}: {numbers.listed([best])} is best"
    if best not in equals:
        return f"{told}."
    if not others:
        return f"{told}, and chance does not explain its lead over any other."
    return f"{told}; chance could explain its lead over {numbers.listed(others, most=10)}."
