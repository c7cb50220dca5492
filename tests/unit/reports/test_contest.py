from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import calibrant
from calibrant.comparison import RAW
from calibrant.reports.contest import Contest, contest
from calibrant.reports.html import standalone
from calibrant.reports.operations import comparison_document
from calibrant.reports.panel import ReportSubject
from tests.known import known
from tests.unit.reports.reading import Page
from tests.unit.reports.worlds import draw

_ABOUT = ReportSubject("a.csv", "0.1.0", options={"maps": ["platt", "beta"], "seed": 0, "resamples": 200})


def _report(
    truth: str = "overconfident",
    *,
    seen: Mapping[str, bool | None] | None = None,
    methods: tuple[str, ...] = ("platt", "beta"),
) -> dict[str, Any]:
    """A comparison on 3,000 rows of maps that were fitted to others; ``seen`` says what is known of that by name."""
    p, y = draw(truth, 6_000)
    maps = {name: calibrant.fit(name, p[:3_000], y[:3_000]) for name in methods}
    comparison = calibrant.compare(p[3_000:], y[3_000:], maps, measures=["log-loss", "ece", "brier"], resamples=200)
    report: dict[str, Any] = json.loads(json.dumps(comparison_document(comparison, dict.fromkeys(maps, "map_1"))))
    for contestant in report["comparison"]["contestants"]:
        if contestant["name"] != RAW:
            contestant["in_sample"] = (seen or {}).get(contestant["name"], False)
    for score in report["comparison"]["measures"].values():
        for pair in score["pairs"]:
            if any((seen or {}).get(name) for name in pair["between"]):
                pair |= {"interval": None, "p_value": None, "unadjusted": None}
    return report


def _contest(report: dict[str, Any]) -> Contest:
    return known(contest(report))


def test_maps_are_ranked_with_their_intervals() -> None:
    ranking = _contest(_report())
    assert [row.name for row in ranking.rows] == ["uncalibrated", "platt", "beta"]
    brier = ranking.rankings[2]
    assert brier.startswith("Brier score: ")
    assert "uncalibrated" not in brier


def test_the_headline_of_a_comparison_is_of_its_maps() -> None:
    page = Page(standalone(_report(), _ABOUT))
    (headline,) = page.all("h1")
    assert "is best by log loss" in headline.text
    assert "is not significantly worse" in headline.text
    assert "in no particular range" not in "".join(section.text for section in page.all("section"))
    assert "Comparison of maps" in [heading.text for heading in page.all("h2")]


def test_no_map_is_better_than_calibrated_predictions() -> None:
    ranking = _contest(_report("calibrated"))
    assert ranking.verdict.headline == "No map is significantly better than the uncalibrated predictions"


def test_a_map_that_was_fitted_to_the_rows_is_named_and_never_best() -> None:
    report = _report(seen={"platt": True})
    ranking = _contest(report)
    assert (
        ranking.verdict.headline == "beta is best by log loss, significantly better than the uncalibrated predictions"
    )
    assert "platt was fitted to these rows; its scores are optimistic and are not ranked." in ranking.verdict.reasons
    assert [row.note for row in ranking.rows] == ["", "fitted to these rows", ""]
    assert not any("platt" in difference.between for difference in ranking.differences)
    assert not any("platt is best" in sentence for sentence in ranking.rankings)
    every = _contest(_report(seen={"platt": True, "beta": True}))
    assert every.verdict.headline == "No best map: every map was fitted to these rows"


def test_an_unknown_overlap_of_a_map_with_its_rows_is_reported() -> None:
    reasons = " ".join(_contest(_report(seen={"beta": None})).verdict.reasons)
    assert "It is unknown whether beta was fitted to these rows." in reasons
    assert "Compare maps on held-out rows." in reasons


def test_the_best_map_is_compared_with_each_other_with_interval_and_p_value() -> None:
    report = _report()
    ranking = _contest(report)
    best = report["comparison"]["measures"]["log-loss"]["ranking"][0]
    assert [difference.between for difference in ranking.differences[:2]] == [
        f"{best} minus {name}" for name in report["comparison"]["measures"]["log-loss"]["ranking"][1:]
    ]
    assert all(difference.interval and difference.p_value for difference in ranking.differences)
    against_raw = next(difference for difference in ranking.differences if difference.between.endswith(RAW))
    assert float(against_raw.difference) < 0.0
    low, high = map(float, against_raw.interval.split(" to "))
    assert low < float(against_raw.difference) < high < 0.0


def test_every_pair_of_a_comparison_is_in_the_report_once() -> None:
    report = _report(seen={"platt": True})
    ranking = _contest(report)
    shown = [frozenset(row.between.split(" minus ")) for row in (*ranking.differences, *ranking.others)]
    pairs = [frozenset(p["between"]) for score in report["comparison"]["measures"].values() for p in score["pairs"]]
    assert sorted(map(sorted, shown)) == sorted(map(sorted, pairs))
    page = Page(standalone(report, _ABOUT))
    assert sum(" minus " in cell.text for cell in page.all("th")) == len(pairs)
    with_platt = next(row for row in ranking.others if row.between == "uncalibrated minus platt")
    assert (with_platt.interval, with_platt.p_value) == ("", "")
    assert float(with_platt.difference) > 0.0


def test_each_sentence_names_the_best_map() -> None:
    page = Page(standalone(_report(), _ABOUT))
    lines = [line.text for line in page.all("li") if line.text.startswith("The log loss of")]
    assert lines
    assert all(line.split()[4] in ("platt", "beta") for line in lines)


def test_the_lines_that_make_a_comparison_again_name_its_maps() -> None:
    page = Page(standalone(_report(), _ABOUT))
    *_, python = page.all("pre")
    assert "calibrant.compare(" in python.text
    fits = python.text.split("report = ")[0].split("import calibrant")[1]
    p, y = draw("overconfident", 300)
    documents = {name: calibrant.fit(name, p, y).to_document() for name in ("platt", "beta")}
    names: dict[str, Any] = {"calibrant": calibrant, "documents": documents, "predictions": p, "labels": y}
    exec(f"{fits}\nreport = {python.text.split('report = ')[1]}", names)
    assert [contestant.name for contestant in names["report"].contestants] == [RAW, "platt", "beta"]


def test_a_report_of_no_maps_has_no_contest() -> None:
    assert contest({"measures": {}}) is None
