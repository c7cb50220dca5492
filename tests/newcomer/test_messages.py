"""Tasks that end in a message: bad values of options, counts of one, and names of results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from tests.newcomer.conftest import Typed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_bins": 0}, "n_bins must be an integer from 1 to 200"),
        ({"n_bins": 2.5}, "n_bins must be an integer from 1 to 200"),
        ({"n_bins": "auto"}, "n_bins must be an integer from 1 to 200"),
        ({"strategy": ["uniform"]}, "strategy must be one of: uniform, quantile"),
        ({"name": 3}, "name must be a string"),
    ],
)
def test_bad_options_of_displays_name_the_argument(scores: Any, options: dict[str, Any], message: str) -> None:
    """Draw with values of options that are not allowed."""
    with pytest.raises(calibrant.CalibrationError, match=f"^{message}"):
        calibrant.CalibrationDisplay.from_predictions(scores["y"], scores["p"], **options)


def test_displays_and_diagrams_of_something_else_say_what_they_take(scores: Any) -> None:
    """Make a display of predictions, and draw a diagram by number."""
    display: Any = calibrant.CalibrationDisplay
    with pytest.raises(calibrant.CalibrationError, match=r"use CalibrationDisplay.from_predictions\(y_true, y_prob\)"):
        display(scores["p"])
    report: Any = calibrant.evaluate_distribution(scores["p"], mean=scores["p"], std=scores["p"] + 1.0)
    with pytest.raises(calibrant.CalibrationError, match="diagram must be the name of a diagram"):
        report.plot(3)


def test_an_attribute_of_a_result_is_named_with_its_measure(scores: Any) -> None:
    """Ask a report for its value."""
    report: Any = calibrant.evaluate(scores["p"], scores["y"])
    with pytest.raises(AttributeError, match=r'use report\["ece"\].value'):
        report.value  # noqa: B018
    with pytest.raises(AttributeError, match=r'use report\["ece"\].p_value'):
        report.p_value  # noqa: B018
    forecasts: Any = calibrant.evaluate_distribution(scores["p"], mean=scores["p"], std=scores["p"] + 1.0)
    with pytest.raises(AttributeError, match=r'use report\["crps"\].value'):
        forecasts.value  # noqa: B018


def test_a_map_of_a_class_shows_its_name(pets: Any) -> None:
    """Print a map of one of several named classes."""
    fitted = calibrant.fit("platt", pets[["bird", "cat", "dog"]], pets["species"], reduction="class:dog")
    assert "reduction='class:dog'" in repr(fitted)
    assert fitted.reduction == "class:2"


def test_a_single_row_is_1_row() -> None:
    """Pass arrays of different lengths, of which one has a single row."""
    with pytest.raises(calibrant.CalibrationError, match="labels has 1 row, but /predictions has 2"):
        calibrant.evaluate([0.1, 0.4], [0])
    with pytest.raises(calibrant.CalibrationError, match="observed has 1 row, but the forecasts have 2"):
        calibrant.evaluate_distribution([0.0], mean=[0.0, 1.0], std=[1.0, 1.0])
    with pytest.raises(calibrant.CalibrationError, match="groups has 1 row, but predictions have 2"):
        calibrant.evaluate([0.1, 0.4], [0, 1], groups=["a"])


def test_boolean_weights_say_what_to_do(scores: Any) -> None:
    """Pass a mask of rows as weights."""
    mask = (scores["site"] == "north").to_numpy()
    for weights in (mask, mask.tolist()):
        with pytest.raises(calibrant.CalibrationError, match=r"weights must be numbers, not booleans; .* leave"):
            calibrant.evaluate(scores["p"], scores["y"], weights=weights)
    weighted = calibrant.evaluate(scores["p"], scores["y"], weights=mask.astype(float))
    chosen = calibrant.evaluate(scores["p"][mask], scores["y"][mask])
    assert weighted["ece"].value == pytest.approx(chosen["ece"].value)


def test_numbers_that_numpy_showed_get_a_remedy(typed: Typed, scores: Any) -> None:
    """Evaluate a file in which the numbers are ``np.float64(0.5)``."""
    rows = [f"{y},{np.float64(p)!r}" for y, p in zip(scores["y"], scores["p"], strict=True)]
    Path("scores.csv").write_text("\n".join(["y,p", *rows]), "utf-8")
    refused = typed("calibrant evaluate scores.csv")
    assert refused.exit_code != 0
    assert "column 'p' has numbers as numpy shows them, np.float64(...), first in row 1" in refused.stderr


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("crps_normal", r'evaluate_distribution\(observed, ..., measures=\["crps"\]\)'),
        ("pinball_loss", r'measures=\["quantile-score"\]'),
        ("VennAbersCalibrator", r'calibrant.fit\("venn-abers"'),
        ("MapieRegressor", r'calibrant.fit_distribution\("conformal"'),
        ("ReliabilityDiagram", "calibrant.CalibrationDisplay"),
    ],
)
def test_names_of_other_libraries_are_found(name: str, remedy: str) -> None:
    """Look for functions and classes of properscoring, scikit-learn, venn-abers, MAPIE and netcal."""
    with pytest.raises(AttributeError, match=remedy):
        getattr(calibrant, name)


def test_forecasts_in_the_conventions_of_other_libraries_get_a_remedy(scores: Any) -> None:
    """Pass forecasts by position, columns of one number, percentages, and descending levels."""
    y = scores["p"].to_numpy()
    std: Any = np.ones(600)
    fitted: Any = calibrant.fit_distribution("variance-platt", y, mean=0.0 * y, std=std)
    with pytest.raises(TypeError, match=r"pass forecasts by name: apply\(mean=..., std=...\)"):
        fitted.apply(y, std)
    with pytest.raises(TypeError, match=r"apply\(\) has no argument sigma; pass std or variance"):
        fitted.apply(mean=y, sigma=std)
    with pytest.raises(calibrant.CalibrationError, match=r"mean must have shape \(n,\); pass mean.reshape\(-1\)"):
        calibrant.evaluate_distribution(y, mean=y[:, None], std=std)
    table = y[:, None] + np.array([-1.0, 0.0, 1.0])
    with pytest.raises(calibrant.CalibrationError, match="divide percentages by 100"):
        calibrant.evaluate_distribution(y, quantiles=table, levels=[10, 50, 90])
    with pytest.raises(calibrant.CalibrationError, match="reverse them and the columns of quantiles"):
        calibrant.evaluate_distribution(y, quantiles=table[:, ::-1], levels=[0.9, 0.5, 0.1])
    pairs: Any = {"a": (y, std), "b": (y, 2.0 * std)}
    with pytest.raises(calibrant.CalibrationError, match="forecasts/a must be forecasts by name"):
        calibrant.compare_distributions(y, pairs)
    report: Any = calibrant.evaluate_distribution(y, mean=y, std=std)
    with pytest.raises(AttributeError, match=r"use report\['crps'\]"):
        report.crps  # noqa: B018
    fitted_map: Any = calibrant.fit("temperature", scores["p"], scores["y"])
    with pytest.raises(AttributeError, match=r'use to_document\(\)\["parameters"\]'):
        fitted_map.temperature  # noqa: B018
