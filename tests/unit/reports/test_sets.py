"""The section of a report about prediction sets."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import PredictionSets
from calibrant.core.errors import CalibrationError
from calibrant.core.results import from_plain_json
from calibrant.sets.evaluation import SetEvaluation
from tests.refusals import refused_at

N, NAMES = 80, ("ant", "bee", "<c>")
P = np.random.default_rng(4).dirichlet(np.ones(3), N).round(4)
P /= P.sum(axis=1, keepdims=True)
LABELS = P.cumsum(axis=1).__gt__(np.random.default_rng(5).random((N, 1))).argmax(axis=1)
MEMBERS = P > 0.15


class SetMap:
    """A map whose ``apply`` returns sets."""

    def apply(self, predictions: Any) -> PredictionSets:
        """Return the classes above a threshold."""
        return PredictionSets(np.asarray(predictions) > 0.15, NAMES, alpha=0.1)


def test_a_report_with_sets_has_their_coverage() -> None:
    report = calibrant.report(P, LABELS, sets=MEMBERS, alpha=0.1, class_names=NAMES, groups=["x", "y"] * (N // 2))
    evaluation = calibrant.evaluate_sets(MEMBERS, LABELS, alpha=0.1, class_names=NAMES, groups=["x", "y"] * (N // 2))
    assert report.document["sets"] == evaluation.to_dict()
    assert from_plain_json(SetEvaluation, json.loads(json.dumps(report.document["sets"]))) == evaluation
    assert 'id="report-sets"' in report.html
    assert "class &lt;c&gt;" in report.html
    assert "group y" in report.html
    assert report.html.count("of prediction sets") >= 2


def test_a_set_map_is_applied_to_the_predictions() -> None:
    report = calibrant.report(P, LABELS, sets=SetMap(), class_names=NAMES)
    assert report.document["sets"]["coverage"] == calibrant.evaluate_sets(MEMBERS, LABELS).coverage
    assert report.document["sets"]["alpha"] == 0.1


def test_a_map_with_random_numbers_has_those_of_the_seed() -> None:
    fitted = calibrant.fit_sets(P, LABELS, method="aps", randomised=True)
    report = calibrant.report(P, LABELS, sets=fitted, seed=3)
    assert report.document["sets"] == calibrant.evaluate_sets(fitted.apply(P, seed=3), LABELS).to_dict()


def test_a_report_says_that_a_set_map_was_fitted_to_its_rows() -> None:
    fitted = calibrant.fit_sets(P, LABELS)
    report = calibrant.report(P, LABELS, sets=fitted)
    assert report.document["sets"]["in_sample"] is True
    assert "The set map was fitted to these rows" in report.html
    other = calibrant.report(P[::-1] ** 0.9 / (P[::-1] ** 0.9).sum(axis=1, keepdims=True), LABELS, sets=fitted)
    assert other.document["sets"]["in_sample"] is False
    assert "The set map was fitted" not in other.html


def test_the_section_without_alpha_has_no_nominal_coverage() -> None:
    report = calibrant.report(P, LABELS, sets=MEMBERS)
    section = report.html.partition('id="report-sets"')[2].partition("</section>")[0]
    assert "have their label in the set" in section
    assert "The coverage is" not in section


def test_a_report_without_sets_has_no_section() -> None:
    report = calibrant.report(P, LABELS)
    assert "report-sets" not in report.html
    assert "sets" not in report.document


@pytest.mark.parametrize(
    ("options", "pointer"),
    [
        ({"alpha": 0.1}, "/alpha"),
        ({"sets": MEMBERS[:-1]}, "/labels"),
        ({"sets": MEMBERS, "alpha": 2}, "/alpha"),
        ({"sets": MEMBERS, "clusters": ["a", "b"] * (N // 2)}, "/clusters"),
        ({"sets": "all"}, "/sets"),
        ({"sets": MEMBERS[:, :2]}, "/class_names"),
    ],
)
def test_sets_that_do_not_fit_the_rows_are_refused(options: dict[str, Any], pointer: str) -> None:
    with refused_at(pointer, CalibrationError):
        calibrant.report(P, LABELS, class_names=NAMES, **options)
