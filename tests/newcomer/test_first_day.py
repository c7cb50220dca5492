"""Tasks of a first day, typed as other libraries would have it and without a look at the documentation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import calibrant
from tests.commands import error_of, succeeds
from tests.newcomer.conftest import Typed


def test_calibrated_columns_of_pandas_keep_index_and_columns(pets: Any) -> None:
    """Calibrate the columns of a frame in another order than that of the map, and join them to other columns."""
    pets.index = np.random.default_rng(1).permutation(len(pets)) + 100
    fitted = calibrant.fit("vector", pets[["bird", "cat", "dog"]], pets["species"])
    calibrated = fitted.apply(pets[["dog", "bird", "cat"]])
    assert list(calibrated.columns) == ["bird", "cat", "dog"]  # the order of the map
    assert calibrated.index.equals(pets.index)
    expected = fitted.apply(pets[["bird", "cat", "dog"]].to_numpy())
    assert isinstance(expected, np.ndarray)
    np.testing.assert_array_equal(calibrated, expected)
    assert calibrant.evaluate(calibrated, pets["species"]).class_names == ("bird", "cat", "dog")


def test_a_calibrated_series_of_pandas_is_not_evaluated_against_other_rows(scores: Any) -> None:
    """Calibrate a shuffled column, and evaluate it against labels that were not shuffled."""
    fitted = calibrant.fit("platt", scores["p"], scores["y"])
    calibrated = fitted.apply(scores["p"].sample(frac=1, random_state=0))
    assert calibrated.name == "p"
    with pytest.raises(ValueError, match="different index"):
        calibrant.evaluate(calibrated, scores["y"])
    pd.testing.assert_series_equal(fitted.apply(scores[["p"]]), fitted(scores["p"]).rename("calibrated"))


def test_calibrated_columns_of_polars_stay_polars(pets: Any) -> None:
    """Calibrate a frame and a Series of polars."""
    frame = pl.from_pandas(pets)
    fitted = calibrant.fit("vector", frame[["bird", "cat", "dog"]], frame["species"])
    calibrated = fitted.apply(frame[["dog", "cat", "bird"]])
    assert isinstance(calibrated, pl.DataFrame)
    assert calibrated.columns == ["bird", "cat", "dog"]
    expected = fitted.apply(pets[["bird", "cat", "dog"]].to_numpy())
    np.testing.assert_array_equal(calibrated.to_numpy(), expected)
    series = calibrant.fit("platt", frame["dog"], pets["species"] == "dog").apply(frame["dog"])
    assert isinstance(series, pl.Series)
    assert series.name == "dog"


def test_forecasts_name_what_to_pass_instead_of_an_argument_of_another_library() -> None:
    """Pass the arguments of scikit-learn, scipy and properscoring with forecasts of a number."""
    y, mean = [0.0, 1.0], [0.5, 0.5]
    for arguments, remedy in (
        ({"mean": mean, "sigma": mean}, "no argument sigma; pass std or variance"),
        ({"quantiles": [mean, mean], "quantile_levels": mean}, "no argument quantile_levels; pass levels"),
        ({"y_true": y, "mean": mean}, "no argument y_true; pass observed, the outcomes"),
        ({"mu": mean, "std": mean}, "no argument mu; pass mean"),
        ({"mean": mean, "std": mean, "random_state": 1}, "no argument random_state; pass seed"),
        ({"mean": mean, "std": mean, "wieghts": y}, "no argument wieghts; did you mean weights"),
    ):
        unknown: Any = arguments
        with pytest.raises(TypeError, match=remedy):
            calibrant.evaluate_distribution(y, **unknown)
    with pytest.raises(calibrant.CalibrationError, match="predictive distributions of a number: use fit_distribution"):
        calibrant.fit("conformal", mean, [0, 1])


def test_messages_of_python_calls_are_in_the_words_of_python() -> None:
    """Pass one number, nothing, logits and groups of another length."""
    p, y = [0.1, 0.9], [0, 1]
    wrong: Any
    for wrong, message in ((5, "labels must be an array, a list or a column, not int"), (None, "column, not None")):
        with pytest.raises(calibrant.CalibrationError, match=message):
            calibrant.evaluate(p, wrong)
    with pytest.raises(calibrant.CalibrationError, match='pass logits with scale="logit"'):
        calibrant.evaluate([-2.0, 2.5], y)
    with pytest.raises(calibrant.CalibrationError, match="groups has 1 row, but predictions have 2"):
        calibrant.evaluate(p, y, groups=["a"])


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda library, p, y: library.evaluate(p, y, n_bins=20), r'measures=\[\{"name": "ece", "n_bins": 20\}\]'),
        (lambda library, p, y: library.evaluate(y_true=y, y_prob=p), "pass labels, the second argument"),
        (lambda library, p, y: library.evaluate(p, y, metrics=["ece"]), "pass measures"),
        (lambda library, p, y: library.evaluate(p, y, random_state=1), "pass seed"),
        (lambda library, p, y: library.evaluate(p, y, label="y"), "did you mean labels"),
        (
            lambda library, p, y: library.evaluate(p, y, labels=["a", "b"]),
            r"the order is evaluate\(predictions, labels\)",
        ),
        (lambda library, p, y: library.report(p, y, title="A model"), "pass name"),
        (lambda library, p, y: library.fit(p, y, method="platt"), r"the order is fit\(method, predictions, labels\)"),
        (lambda library, p, y: library.fit("platt", p, y, sample_weights=p), "did you mean sample_weight"),
        (lambda library, p, y: library.compare({"a": p, "b": p}), r"the order is compare\(predictions, labels, maps\)"),
        (lambda library, p, y: library.shift_prior(p, 0.05, 0.01), r"these have names: new_rate, rate"),
    ],
)
def test_an_argument_of_another_library_gets_a_remedy(scores: Any, call: Any, remedy: str) -> None:
    """Pass arguments as scikit-learn, netcal and torchmetrics name them, and read what to pass."""
    with pytest.raises(TypeError, match=remedy):
        call(calibrant, scores["p"], scores["y"])


def test_the_options_of_a_default_measure_are_set_by_its_key(scores: Any) -> None:
    """Ask for one of the measures that the first report had, alone and with more bins."""
    p, y = scores["p"], scores["y"]
    first = calibrant.evaluate(p, y)["log-loss"].value
    assert calibrant.evaluate(p, y, measures=["log_loss"])["log_loss"].value == first
    finer = calibrant.evaluate(p, y, measures=[{"name": "ece", "n_bins": 20}])["ece"]
    assert finer.definition["n_bins"] == 20
    with pytest.raises(calibrant.CalibrationError, match='"binning": "equal-width"'):
        calibrant.evaluate(p, y, measures=["ece-equal-width"])


def test_names_of_classes_in_other_libraries_are_names_here(scores: Any) -> None:
    """Use the names of netcal's and scikit-learn's classes."""
    p, y = scores["p"], scores["y"]
    assert set(calibrant.evaluate(p, y, measures=["ECE", "MCE", "Brier"])) == {"ECE", "MCE", "Brier"}
    names = ["TemperatureScaling", "BetaCalibration", "LogisticCalibration", "IsotonicRegression", "BBQ"]
    assert [calibrant.fit(name, p, y).method for name in names] == ["temperature", "beta", "platt", "isotonic", "bbq"]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("ECE", r'evaluate\(predictions, labels, measures=\["ece"\]\)'),
        ("brier_score_loss", r'measures=\["brier"\]'),
        ("TemperatureScaling", r'calibrant.fit\("temperature", predictions, labels\)'),
        ("CalibratedClassifierCV", "calibrant.CalibrantClassifier"),
        ("calibration_curve", "calibrant.CalibrationDisplay"),
        ("methods", "calibrant.METHODS"),
        ("calibrate", r'calibrant.fit\("platt", predictions, labels\).apply\(predictions\)'),
        ("Calibrator", "use calibrant.fit"),
        ("MulticlassCalibrationError", r'measures=\["ece"\]'),
        ("binary_calibration_error", r'measures=\["ece"\]'),
        ("DirichletCalibrator", "module 'calibrant' has no attribute"),
    ],
)
def test_a_class_of_another_library_names_its_equivalent(name: str, remedy: str) -> None:
    """Look for what another library calls by this name."""
    with pytest.raises(AttributeError, match=remedy):
        getattr(calibrant, name)


def test_results_and_maps_name_what_they_have_in_place_of_an_attribute(scores: Any) -> None:
    """Type the attributes that a result or a fitted object has in other libraries."""
    report = calibrant.evaluate(scores["p"], scores["y"])
    fitted = calibrant.fit("platt", scores["p"], scores["y"])
    for instance, name, remedy in [
        (report, "ece", r"report\['ece'\]"),
        (report, "to_pandas", r"to_frame\(\)"),
        (report, "to_csv", r"to_frame\(\)\.to_csv"),
        (report, "save", r"calibrant.report\(predictions, labels\).save\(path\)"),
        (fitted, "transform", r"apply\(predictions\)"),
        (fitted, "predict_proba", r"apply\(predictions\)"),
        (fitted, "to_json", r"to_document\(\)"),
    ]:
        with pytest.raises(AttributeError, match=remedy):
            getattr(instance, name)
    assert not hasattr(report, "__array__")


def test_unknown_names_of_methods_and_measures_name_what_to_use(scores: Any) -> None:
    """Use names of papers and other libraries."""
    p, y = scores["p"], scores["y"]
    for method, near in (("DirichletCalibration", "dirichlet-l2"), ("BetaCalibrator", "beta")):
        with pytest.raises(calibrant.CalibrationError, match=f"did you mean {near}"):
            calibrant.fit(method, p, y)
    with pytest.raises(TypeError, match=r"no argument options; pass each as an argument: fit\(\.\.\., \*\*options\)"):
        calibrant.fit("histogram", p, y, options={"n_bins": 10})
    with pytest.raises(calibrant.CalibrationError, match="use calibration-slope, calibration-intercept or"):
        calibrant.evaluate(p, y, measures=["ece", "slope"])
    assert calibrant.evaluate(p, y, measures="bce")["log_loss"].value is not None
    with pytest.raises(calibrant.CalibrationError, match="only evaluate"):
        calibrant.measure_by_size(p, y, measures="all")


def test_measures_may_be_all_and_the_default_ones_apply_to_the_reduction() -> None:
    """Ask for everything, and for the whole vector without naming measures."""
    p = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    y = np.arange(60) % 3
    for reduction in ("confidence", "canonical"):
        report = calibrant.evaluate(p, y, measures="all", reduction=reduction)
        assert not [key for key in report if "is defined for" in (report[key].problem or "")]
        assert {"brier", "kde-ce"} < set(report)
        assert ("ece" in report) == (reduction == "confidence")
    whole = calibrant.evaluate(p, y, reduction="canonical")
    assert all(measure.value is not None for measure in whole.values())
    with pytest.raises(calibrant.CalibrationError, match='evaluate again, as with reduction="confidence"'):
        whole.plot()


def test_a_measure_is_a_number_where_a_number_is_needed(scores: Any) -> None:
    """Format a measure, round it and iterate over the results like over a dictionary."""
    report = calibrant.evaluate(scores["p"], scores["y"])
    error = report["ece"].value
    assert error is not None
    assert f"{report['ece']:.3f}" == f"{error:.3f}"
    assert float(report["ece"]) == error
    assert round(report["ece"], 2) == round(error, 2)
    assert {key: measure.value for key, measure in report.items()} == {key: report[key].value for key in report}
    assert len(report) == len(report.values()) == 6


def test_catalogues_are_lists_in_a_terminal() -> None:
    """Look at the methods and measures."""
    assert "\ntemperature        Temperature scaling\n" in repr(calibrant.METHODS)
    assert len(repr(calibrant.MEASURES).splitlines()) == len(calibrant.MEASURES) + 1
    assert "<td" in calibrant.DIAGRAMS._repr_html_()  # type: ignore[attr-defined]


def test_batches_of_tensors_need_torch_cat(scores: Any) -> None:
    """Collect the outputs of an evaluation loop in lists, of one tensor a row or a batch."""
    p = torch.tensor(scores["p"].to_numpy(), requires_grad=True)
    y = scores["y"]
    expected = calibrant.evaluate(p, y)["brier"].value
    assert calibrant.evaluate(list(p), y)["brier"].value == expected
    with pytest.raises(ValueError, match=r"pass torch.cat\(predictions\)"):
        calibrant.evaluate([p[:250, None], p[250:, None]], y)


def test_predicted_classes_and_percentages_are_named(scores: Any) -> None:
    """Pass predicted classes of three classes, predicted names, percentages as text, and a name of a column."""
    y = scores["y"]
    for predictions, remedy in [
        (np.arange(600) % 3, "predicted classes"),
        (np.where(y == 1, "spam", "ham"), "not of predict"),
        ([f"{100 * p:.1f}%" for p in scores["p"]], "remove percent signs"),
        ("p", r'pass frame\["name"\]'),
    ]:
        with pytest.raises(ValueError, match=remedy):
            calibrant.evaluate(predictions, y)
    assert calibrant.evaluate(scores["p"].astype(object), y.astype(float))["ece"].value is not None


def test_a_map_is_read_from_its_path(scores: Any) -> None:
    """Load the text of a map, and a file that holds something else."""
    fitted = calibrant.fit("platt", scores["p"], scores["y"])
    fitted.save("map.json")
    with open("map.json", encoding="utf-8") as file:
        text = file.read()
    with pytest.raises(ValueError, match=r"pass json.loads\(text\)"):
        calibrant.load(text)
    with open("map.pkl", "wb") as file:
        file.write(b"\x80\x04")
    with pytest.raises(ValueError, match=r"as map.save\(path\) writes it"):
        calibrant.load("map.pkl")


def test_catboost_writes_the_class_into_the_heading(typed: Typed, pets: Any) -> None:
    """Evaluate what the command line of CatBoost writes: probabilities, and raw values."""
    p = pets[["bird", "cat", "dog"]]
    probabilities = p.add_prefix("Probability:Class=").assign(Label=pets["species"])
    probabilities.to_csv("eval.tsv", sep="\t", index_label="SampleId")
    expected = f"{calibrant.evaluate(p, pets['species'])['ece']:.4f}"
    completed = typed("calibrant evaluate eval.tsv")
    assert expected in completed.stdout
    raw = np.log(p).add_prefix("RawFormulaVal:Class=").assign(Label=pets["species"])
    raw.to_csv("raw.tsv", sep="\t", index_label="SampleId")
    assert "add --scale logit" in typed("calibrant evaluate raw.tsv").stderr
    assert expected in typed("calibrant evaluate raw.tsv --scale logit").stdout


def test_a_submission_is_calibrated(typed: Typed, scores: Any) -> None:
    """Calibrate a submission to Kaggle, whose predictions are in the column ``target``."""
    scores[["p", "y"]].to_csv("validation.csv", index=False)
    scores[["p"]].rename(columns={"p": "target"}).to_csv("submission.csv", index_label="id")
    assert typed("calibrant fit validation.csv --method platt --out map.json").exit_code == 0
    succeeds(typed("calibrant calibrate submission.csv --map map.json --out calibrated.csv"))
    fitted = calibrant.load("map.json").apply(scores["p"])
    np.testing.assert_allclose(pd.read_csv("calibrated.csv")["calibrated"], fitted, rtol=1e-12)


def test_a_bound_without_a_measure_is_explained(typed: Typed, scores: Any) -> None:
    """Fail a build if calibration is bad, without the name of a measure."""
    scores[["p", "y"]].to_csv("scores.csv", index=False)
    assert "such as ece=0.05" in error_of(typed("calibrant evaluate scores.csv --fail-above 0.05"), 2)


def test_undersampling_is_undone_and_a_model_updated(scores: Any) -> None:
    """Correct a column for negatives that were left out of training, forget how, and update a model on new rows."""
    p, y = scores["p"], scores["y"]
    corrected = calibrant.shift_prior(p, kept_negatives=0.1)
    assert corrected.index.equals(p.index)
    assert (corrected < p).all()
    with pytest.raises(AttributeError, match="prior-shift"):
        calibrant.prior_shift  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ValueError, match="exactly one of these options is needed: new_rate, kept_negatives"):
        calibrant.fit("prior-shift", p, y)
    with pytest.raises(TypeError, match="shift_prior"):
        calibrant.shift_prior(p, 0.1)  # type: ignore[call-arg]
    assert calibrant.update(p, y).diagnostics["update"] in ("none", "intercept", "intercept and slope")
