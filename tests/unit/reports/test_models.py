"""Reports of several models: the ranking, the differences, the diagrams, and the lines that reproduce them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.errors import CalibrationError
from calibrant.reports.contest import contest, is_of_models
from calibrant.reports.html import fragment, standalone
from calibrant.reports.panel import ReportSubject
from tests.known import known
from tests.refusals import refused_at
from tests.unit.reports.reading import Page

_RANDOM = np.random.default_rng(5)
TRUE = _RANDOM.random(1500)
LABELS = (_RANDOM.random(1500) < TRUE).astype(int)
MODELS = {"biased": TRUE**2, "good": TRUE, "near": np.clip(TRUE + 0.001, 0, 1)}


def _report(models: Any, labels: Any = LABELS, **options: Any) -> tuple[Page, dict[str, Any]]:
    report = calibrant.report(models, labels, **options)
    return Page(report.html), dict(report.document)


def test_the_numbers_of_a_report_of_models_are_those_of_the_comparison() -> None:
    document = calibrant.report(MODELS, LABELS).document
    compared = calibrant.compare(MODELS, LABELS).to_dict()
    assert document["comparison"] == compared["comparison"]
    assert list(document["model_diagrams"]) == list(MODELS)


def test_models_are_ranked_with_intervals_of_ranks_and_paired_differences() -> None:
    page, document = _report(MODELS)
    ranking = known(contest(document))
    assert ranking.noun == "model"
    assert ranking.columns[0] == "Rank by log loss"
    assert ranking.rows[-1].name == "biased"
    assert ranking.rows[-1].cells[0] == ("3", "3")
    assert {row.cells[0][1] for row in ranking.rows[:2]} == {"1 to 2"}
    assert "not significantly worse" in ranking.verdict.headline
    assert "(holm)" in ranking.how
    assert [heading.text for heading in page.all("h1")] == [ranking.verdict.headline]
    headings = [heading.text for heading in page.all("h2")]
    assert headings == ["Comparison of models", "Diagrams", "Data", "How to reproduce this report"]
    assert len(page.all("img")) == 2
    assert all("3 models" in picture.attributes["alt"] for picture in page.all("img"))


def test_a_calibration_error_does_not_rank_models() -> None:
    ranking = known(contest(_report({"coin": np.full(1500, LABELS.mean()), "good": TRUE})[1]))
    assert [row.name for row in ranking.rows] == ["good", "coin"]
    assert not any("calibration error: " in sentence for sentence in ranking.rankings)


def test_models_that_give_a_label_probability_0_are_ranked_by_the_brier_score() -> None:
    ranking = known(contest(_report({"hard": np.where(TRUE < 0.2, 0.0, TRUE), "good": TRUE})[1]))
    assert ranking.columns[0] == "Rank by Brier score"


def test_a_report_of_models_repeats_the_comparison_in_each_group() -> None:
    page, document = _report(MODELS, groups=np.where(TRUE < 0.3, "<i>low</i>", "high"))
    ranking = known(contest(document))
    assert [row.name for row in known(ranking.groups).rows] == ["high", "<i>low</i>"]
    assert "Comparison by group" in [heading.text for heading in page.all("h2")]
    assert "groups=groups," in page.all("pre")[-1].text
    assert not page.all("i")


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", '"><img src=x>', "=HYPERLINK(1)", "a\u202eb", "uncalibrated"]
)
def test_names_of_models_cannot_change_the_page(name: str) -> None:
    page, document = _report({name: TRUE, "other": TRUE**2})
    plain = Page(calibrant.report({"plain": TRUE, "other": TRUE**2}, LABELS).html)
    assert page.shape() == plain.shape()
    assert is_of_models(document)
    assert "uncalibrated predictions" not in "".join(section.text for section in page.all("section"))


@pytest.mark.parametrize("number", [0, 1, 21, 200])
def test_another_number_of_models_is_refused(number: int) -> None:
    with refused_at("/predictions", CalibrationError):
        calibrant.report({f"m{i}": TRUE for i in range(number)}, LABELS)


def test_a_map_cannot_be_combined_with_models() -> None:
    fitted = calibrant.fit("platt", TRUE, LABELS)
    with refused_at("/map", CalibrationError):
        calibrant.report(MODELS, LABELS, map=fitted)


def test_the_model_whose_rows_are_invalid_is_named() -> None:
    with refused_at("/predictions/bad", CalibrationError, below=True):
        calibrant.report({"a/b": TRUE, "bad": TRUE * 2}, LABELS)


def test_models_whose_event_is_their_own_decision_are_not_ranked() -> None:
    vectors = np.column_stack([1 - TRUE, TRUE])
    page, document = _report({"a": vectors, "b": vectors * 0.8 + 0.1}, reduction="confidence")
    ranking = known(contest(document))
    assert ranking.verdict.headline.startswith("No best model")
    assert not ranking.ranked
    assert len(page.all("img")) >= 1


def test_models_of_whole_vectors_are_compared_without_diagrams() -> None:
    vectors = np.column_stack([1 - TRUE, TRUE])
    page, document = _report({"a": vectors, "b": np.full_like(vectors, 0.5)})
    assert "model_diagrams" not in document
    assert not page.all("img")
    assert page.all("h1")[0].text == "a is best by log loss, significantly better than b"


def test_the_python_of_a_report_of_models_reproduces_it() -> None:
    page, document = _report(MODELS, weights=TRUE + 0.5, seed=3)
    scope = {"predictions": MODELS, "labels": LABELS, "weights": TRUE + 0.5}
    exec(page.all("pre")[-1].text, scope)
    assert scope["report"].document == document  # type: ignore[attr-defined]
    options = json.loads(page.all("pre")[0].text)
    assert options == {"interval": 0.95, "resamples": 1000, "seed": 3, "weights_kind": "importance"}


def test_the_fragment_of_a_page_has_the_comparison() -> None:
    document = calibrant.report(MODELS, LABELS).document
    subject = ReportSubject("a.csv", "0.1.0", options={"batches": {name: f"batch_{name}" for name in MODELS}})
    page = Page(fragment(document, subject))
    assert page.all("h2")[0].text.endswith("not significantly worse")
    assert '"good": "batch_good"' in page.all("pre")[0].text
    assert "'Accept: text/html'" in page.all("pre")[1].text


def test_a_comparison_of_an_answer_is_a_report() -> None:
    answer = json.loads(json.dumps(calibrant.compare(MODELS, LABELS).to_dict()))
    page = Page(standalone(answer, ReportSubject("a.csv", "0.1.0")))
    assert "Comparison of models" in [heading.text for heading in page.all("h2")]
