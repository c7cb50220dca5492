"""scikit-learn's own tests of CalibratedClassifierCV, run with CalibrantClassifier in its place."""

from __future__ import annotations

import warnings
from functools import partial

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from sklearn.tests import test_calibration as theirs

from calibrant import CalibrantClassifier

#: Tests that are left out, with the reason.
LEFT_OUT = {
    "test_temperature_scaling_array_api_compliance": "maps compute with NumPy, whatever the array type of X",
    "test_temperature_scaling_array_api_with_str_y_estimator_not_prefit": "as above",
}
# Tests that do not use the class are about scikit-learn's private calibrators, its curve and its display:
# test_calibration_zero_probability, test_sigmoid_calibration, test_sigmoid_calibration_max_abs_prediction_threshold,
# test_temperature_scaling_input_validation, test_calibration_curve*, test_calibration_display*, test_plot_*.
TESTS = {
    name: test
    for name, test in vars(theirs).items()
    if name.startswith("test_") and "CalibratedClassifierCV" in test.__code__.co_names and name not in LEFT_OUT
}
globals().update(TESTS, **{name: getattr(theirs, name) for name in ("data", "dict_data", "dict_data_pipeline")})
# scikit-learn's suite does not turn warnings into errors.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def _our_class(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    counted = "double_sample_weights" in request.node.name  # a weight of 2 is the row twice
    ours = partial(CalibrantClassifier, weights_kind="frequency") if counted else CalibrantClassifier
    monkeypatch.setattr(theirs, "CalibratedClassifierCV", ours)


@pytest.fixture
def global_random_seed() -> int:
    """The default seed of scikit-learn's suite."""
    return 42


def test_every_test_that_is_left_out_exists() -> None:
    assert LEFT_OUT.keys() <= vars(theirs).keys()
    assert len(TESTS) >= 20
