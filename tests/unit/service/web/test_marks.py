"""What a comparison marks as best: the lowest held-out value, and nothing if all are alike."""

from __future__ import annotations

from typing import Any

import calibrant
from calibrant.reports.document import comparison_document
from service.web.compare import ComparisonView, view_of_comparison
from tests.rows import draw_distorted

P, Y = draw_distorted(4000, 3, 2.0)


def _view(maps: dict[str, Any], rows: slice) -> ComparisonView:
    found = calibrant.compare(P[rows], Y[rows], maps, measures=["log-loss"], resamples=200)
    return view_of_comparison(comparison_document(found, dict.fromkeys(maps, "map_1")))


def _best(view: ComparisonView) -> list[str]:
    return [row.name for row in view.rows if row.cells[0].best]


def test_the_lowest_held_out_value_is_best_and_shares_a_letter_with_those_like_it() -> None:
    fitted = {method: calibrant.fit(method, P[:2000], Y[:2000]) for method in ("platt", "beta", "identity")}
    view = _view(fitted, slice(2000, 4000))
    values = {row.name: row.cells[0].value or 0.0 for row in view.rows}
    best = min(values, key=values.__getitem__)
    assert _best(view) == [best]
    assert best in ("platt", "beta")
    assert [row.cells[0].letters for row in view.rows if row.name in ("platt", "beta")] == ["a", "a"]
    assert view.columns[0].reduction == "binary"


def test_a_map_fitted_to_the_rows_is_never_best() -> None:
    maps = {
        "seen": calibrant.fit("isotonic", P[2000:], Y[2000:]),
        "other": calibrant.fit("platt", P[:2000], Y[:2000]),
    }
    view = _view(maps, slice(2000, 4000))
    values = {row.name: row.cells[0].value or 0.0 for row in view.rows}
    assert values["seen"] < values["other"]
    assert _best(view) == ["other"]


def test_nothing_is_marked_if_all_are_alike() -> None:
    same = {"one": calibrant.fit("identity", P[:2000], Y[:2000]), "two": calibrant.fit("identity", P[:2000], Y[:2000])}
    assert _best(_view(same, slice(2000, 4000))) == []
