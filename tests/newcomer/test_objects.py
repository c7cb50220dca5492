"""Tasks in a notebook with further kinds of objects: records, missing values, enumerations, tallies, features."""

from __future__ import annotations

import enum
import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import GaussianNB

import calibrant
from tests.commands import error_of
from tests.newcomer.conftest import Typed

_NAMES = ["bird", "cat", "dog"]


class Answer(enum.Enum):
    """Labels of a questionnaire."""

    NO = "no"
    YES = "yes"


def test_records_and_structs_have_columns(pets: Any) -> None:
    """Evaluate and calibrate records of numpy, a struct of polars and lists of Arrow."""
    expected = calibrant.evaluate(pets[_NAMES], pets["species"])["ece"].value
    records = pets[_NAMES].to_records(index=False)
    for predictions in (records, records[["dog", "bird", "cat"]], pl.from_pandas(pets[_NAMES]).to_struct()):
        assert calibrant.evaluate(predictions, pets["species"])["ece"].value == pytest.approx(expected)
    fitted = calibrant.fit("temperature", records, pets["species"])
    np.testing.assert_allclose(fitted.apply(records), fitted.apply(pets[_NAMES]))
    lists = pa.array(pets[_NAMES].to_numpy().tolist())
    labels = [_NAMES.index(species) for species in pets["species"]]
    assert calibrant.evaluate(lists, labels)["ece"].value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("labels", "pos_label"),
    [
        (["yes", np.nan], "yes"),
        (np.array(["yes", np.nan], dtype=object), "yes"),
        (pd.array(["yes", None], dtype="string"), "yes"),
        (pd.Categorical(["yes", None]), "yes"),
        ([1.0, np.nan], 1),
        (np.array(["2020", "NaT"], "M8[D]"), np.datetime64("2020-01-01")),
    ],
)
def test_a_missing_label_is_not_the_negative_class(labels: Any, pos_label: Any) -> None:
    """Name the positive label of strings, numbers or dates of which one is missing."""
    with pytest.raises(calibrant.CalibrationError, match="labels: 1 value is missing, first in row 1"):
        calibrant.evaluate([0.1, 0.9], labels, pos_label=pos_label)


def test_bytes_dates_and_enumerations_are_labels(scores: Any) -> None:
    """Pass labels as HDF5, a calendar and an enumeration have them."""
    p, y = scores["p"].to_numpy(), scores["y"].to_numpy()
    expected = calibrant.evaluate(p, y)["ece"].value
    dates = np.where(y == 1, np.datetime64("2026-01-01"), np.datetime64("2025-01-01"))
    cases: list[tuple[Any, dict[str, Any]]] = [
        (np.where(y == 1, b"yes", b"no"), {"pos_label": b"yes"}),
        (np.where(y == 1, b"yes", b"no"), {"class_names": np.array([b"no", b"yes"])}),
        (pd.Series(np.where(y == 1, b"yes", b"no")), {"class_names": ["no", "yes"]}),
        (np.where(y == 1, b"1", b"0").astype(object), {}),
        (dates, {"pos_label": np.datetime64("2026-01-01")}),
        ([Answer.YES if positive else Answer.NO for positive in y], {"class_names": Answer}),
        (np.where(y == 1, "yes", "no"), {"class_names": {"no": 0, "yes": 1}.keys()}),
    ]
    for labels, named in cases:
        assert calibrant.evaluate(p, labels, **named)["ece"].value == pytest.approx(expected)


def test_groups_that_are_bytes_have_the_names_of_their_text(scores: Any) -> None:
    """Pass groups as HDF5 has them."""
    p, y = scores["p"].to_numpy(), scores["y"].to_numpy()
    half: Any = np.where(np.arange(len(p)) % 2, b"north", "süd".encode())
    for groups in (half, half.astype(object)):
        assert set(calibrant.evaluate(p, y, groups=groups).groups or ()) == {"north", "süd"}


def test_bytes_of_another_encoding_are_refused_with_the_remedy() -> None:
    """Pass labels in Latin-1."""
    labels = np.array(["né".encode("latin-1"), b"oui"])
    with pytest.raises(calibrant.CalibrationError, match="labels: are bytes that are not UTF-8") as refused:
        calibrant.evaluate([0.1, 0.9], labels, pos_label="oui")
    decoded = eval(str(refused.value).split("as with ", 1)[1], {"np": np, "labels": labels})
    assert calibrant.evaluate([0.1, 0.9], decoded, pos_label="oui", measures=["accuracy"])["accuracy"].value == 1.0


@pytest.mark.parametrize("library", [pd, pl])
def test_empty_series_and_frames_have_no_rows(library: Any) -> None:
    """Select rows, and get none."""
    series = library.Series([], dtype=float if library is pd else pl.Float64)
    frame = library.DataFrame({"a": series, "b": series})
    fitted = calibrant.fit("platt", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("predictions", lambda: calibrant.evaluate(series, series)),
        ("predictions", lambda: calibrant.evaluate(frame, series)),
        ("predictions", lambda: fitted.apply(series)),
        ("weights", lambda: calibrant.evaluate([0.1, 0.9], [0, 1], weights=series)),
        ("observed", lambda: calibrant.evaluate_distribution(series, mean=[0.5], std=[1.0])),
        ("quantiles", lambda: calibrant.evaluate_distribution([0.5], quantiles=frame, levels=[0.1, 0.9])),
    ]
    for field, call in calls:
        with pytest.raises(calibrant.CalibrationError, match=f"{field} has (no|0) rows"):
            call()


def test_empty_arguments_are_named_as_they_were_passed() -> None:
    """Pass no rows, and quantiles without their levels."""
    with pytest.raises(calibrant.CalibrationError, match="predictions has no rows"):
        calibrant.evaluate([], [], class_names=_NAMES)
    with pytest.raises(calibrant.CalibrationError, match="std has no rows"):
        calibrant.evaluate_distribution([0.5], mean=[0.25], std=[])
    with pytest.raises(calibrant.CalibrationError, match="levels is missing"):
        calibrant.evaluate_distribution([0.5], quantiles=pd.DataFrame({"low": [0.0], "high": [1.0]}))


def test_results_with_arrays_are_compared(scores: Any) -> None:
    """Compare results with ``==`` after storing and reading them."""
    p, y = scores["p"].to_numpy(), scores["y"].to_numpy()
    first, second = calibrant.tally(p[:300], y[:300]), calibrant.tally(p[300:], y[300:])
    estimator = calibrant.fit_performance_estimator(p, y)
    for result_of_one, other in ((first, second), (calibrant.cost_plane(p, p**2, y), calibrant.cost_plane(p**2, p, y))):
        assert pickle.loads(pickle.dumps(result_of_one)) == result_of_one
        assert result_of_one != other
    assert pickle.loads(pickle.dumps(estimator)) == estimator
    estimate = estimator.estimate(p)
    assert pickle.loads(pickle.dumps(estimate)) == estimate != estimator.estimate(p[:100])
    followed = calibrant.follow_stream(p[:50], y[:50])
    assert pickle.loads(pickle.dumps(followed)) == followed != calibrant.follow_stream(p[:49], y[:49])
    document = json.loads(json.dumps(followed.state.to_document()))
    assert calibrant.OnlineMap.from_document(document) == followed.state != calibrant.start_online()


def test_tallies_are_what_functions_of_tallies_take(scores: Any) -> None:
    """Pass arrays in place of tallies, one tally in place of several, or the method first."""
    p, y = scores["p"].to_numpy(), scores["y"].to_numpy()
    counted = calibrant.tally(p, y)
    for call in (
        lambda: calibrant.merge([p, p]),
        lambda: calibrant.estimate_event_shift(p, p),
        lambda: calibrant.prediction_drift(p, p),
        lambda: calibrant.prediction_drift(counted, [p]),
        lambda: calibrant.prediction_drift(counted, counted),  # type: ignore[arg-type]
    ):
        with pytest.raises(calibrant.CalibrationError, match=r"EventTally, as returned by calibrant\.tally"):
            call()
    with pytest.raises(calibrant.CalibrationError, match="it is the first argument, and the method the second"):
        calibrant.fit_tally("platt", counted)  # type: ignore[arg-type]
    with pytest.raises(calibrant.CalibrationError, match="of one event, pass tallies to estimate_event_shift"):
        calibrant.estimate_label_shift(p, y, p)


def test_features_of_a_window_are_matched_by_name() -> None:
    """Weight reference rows to a window whose columns are in another order, and pass a single feature."""
    random = np.random.default_rng(0)
    old = pd.DataFrame({"age": random.uniform(20, 60, 200), "site": random.choice(["north", "south"], 200)})
    new = pd.DataFrame({"age": random.uniform(40, 80, 100), "site": random.choice(["north", "south"], 100)})
    ratios = calibrant.density_ratios(old, new)
    assert ratios.std() > 0.1
    np.testing.assert_array_equal(calibrant.density_ratios(old, new[["site", "age"]]), ratios)
    with pytest.raises(calibrant.CalibrationError, match="must have the columns of /reference: 'age', 'site'"):
        calibrant.density_ratios(old, new.rename(columns={"age": "years"}))
    with pytest.raises(calibrant.CalibrationError, match=r"pass np.reshape\(reference, \(-1, 1\)\)"):
        calibrant.density_ratios(old["age"], new["age"])
    ages = [np.reshape(frame["age"], (-1, 1)) for frame in (old, new)]
    np.testing.assert_array_equal(calibrant.density_ratios(*ages), calibrant.density_ratios(old[["age"]], new[["age"]]))


def test_maps_are_compared_by_names_that_are_strings(scores: Any) -> None:
    """Compare maps that are numbered."""
    fitted = calibrant.fit("platt", scores["p"][:300], scores["y"][:300])
    with pytest.raises(calibrant.CalibrationError, match="maps must have names that are strings"):
        calibrant.compare(scores["p"], scores["y"], {1: fitted})  # type: ignore[dict-item]


def test_the_classifier_takes_a_classifier() -> None:
    """Pass the name of a method and a regression model."""
    X, y = np.linspace(0, 1, 40)[:, None], np.tile([0, 1], 20)
    with pytest.raises(calibrant.CalibrationError, match="estimator must be a classifier, not str"):
        calibrant.CalibrantClassifier("beta").fit(X, y)
    with pytest.raises(calibrant.CalibrationError, match="estimator is a regressor; fit_distribution"):
        calibrant.CalibrantClassifier(LinearRegression()).fit(X, y)
    with pytest.raises(calibrant.CalibrationError, match=r"pass GaussianNB\(\)"):
        calibrant.CalibrantClassifier(GaussianNB).fit(X, y)


def test_several_measures_in_one_option_are_repeated(typed: Typed, scores: Any) -> None:
    """Type two measures with a comma, and ask for help by one letter."""
    scores.to_csv("scores.csv", index=False)
    error = error_of(typed("calibrant evaluate scores.csv --measure ece,ks"), 2)
    assert "--measure ece --measure ks" in " ".join(error.replace("│", "").split())
    assert typed("calibrant evaluate -h").exit_code == 0


def test_the_whole_vector_has_measures_of_its_own(typed: Typed, pets: Any) -> None:
    """Evaluate, compare and measure by size the whole vector without naming measures, in the library and on files."""
    pets.to_csv("pets.csv", index=False)
    own = ["brier", "log-loss", "ks-by-predicted-class"]
    fitted = calibrant.fit("temperature", pets[_NAMES][:300], pets["species"][:300])
    rows = pets[_NAMES][300:], pets["species"][300:]
    assert list(calibrant.compare(*rows, {"scaled": fitted}, reduction="canonical").measures) == own
    assert list(calibrant.measure_by_size(*rows, reduction="canonical", start_repetitions=2).curves) == own
    printed = typed("calibrant evaluate pets.csv --reduction canonical --json")
    expected = calibrant.evaluate(pets[_NAMES], pets["species"], reduction="canonical").to_dict()["measures"]
    assert json.loads(printed.stdout)["measures"] == expected
    every = typed("calibrant evaluate pets.csv --reduction canonical --measure all --json")
    assert set(json.loads(every.stdout)["measures"]) > set(own)


def test_numbers_of_numpy_are_options(pets: Any) -> None:
    """Pass numbers from arrays as arguments, as loops over parameters do."""
    p, y = pets["dog"], pets["species"] == "dog"
    few: Any = np.int64(100)
    level: Any = np.float32(0.9)
    memories: Any = np.array([50, 100])
    expected = calibrant.evaluate(p, y, interval=float(level), resamples=100)["ece"]
    assert calibrant.evaluate(p, y, interval=level, resamples=few)["ece"] == expected
    counted = calibrant.tally(p, y)
    assert calibrant.change_time([counted], [0, 1], level=level) == calibrant.change_time(
        [counted], [0, 1], level=float(level)
    )
    assert calibrant.prediction_drift(counted, [counted], first=few // 100).start == 1
    online = calibrant.start_online(memories=memories, window=few, delay=few // 100, rows_per_round=few // 50)
    assert online.memories == (50, 100)
    document = online.to_map(reduction="class:1", n_classes=few // 33).to_document()
    assert json.loads(json.dumps(document))["n_classes"] == 3


def test_classes_and_their_names_may_be_in_any_column(pets: Any) -> None:
    """Keep two classes that an array, an index or a Series lists."""
    p, y = pets[_NAMES].to_numpy(), pets["species"].to_numpy()
    expected = calibrant.evaluate(p, y, class_names=_NAMES, classes=[0, 2])["ece"]
    numbers = np.array([0, 2])
    columns: tuple[Any, ...] = (numbers, list(numbers), pd.Index(["bird", "dog"]), np.array(["bird", "dog"]))
    for classes in columns:
        assert calibrant.evaluate(p, y, class_names=_NAMES, classes=classes)["ece"] == expected
    names: Any = pl.Series(_NAMES)
    assert calibrant.evaluate(p, y, class_names=names, classes=names.filter(names != "cat"))["ece"] == expected
    for bad in ({0, 2}, 2, "bird"):
        with pytest.raises(calibrant.CalibrationError, match="classes must be an array of at least two classes"):
            calibrant.evaluate(p, y, class_names=_NAMES, classes=bad)  # type: ignore[arg-type]


def test_dictionaries_and_folds_that_are_none_are_refused(scores: Any) -> None:
    """Pass predictions by row name, tallies by day, one fold in place of several, and a fold that does not exist."""
    p, y = scores["p"], scores["y"]
    with pytest.raises(calibrant.CalibrationError, match=r"are numbers by name; pass list\(predictions\.values\(\)\)"):
        calibrant.evaluate(dict(p.items()), y)
    counted = calibrant.tally(p, y, folds=np.arange(600) % 5)
    with pytest.raises(calibrant.CalibrationError, match=r"tallies must be a sequence of EventTally, .*tally$"):
        calibrant.merge({"monday": counted})  # type: ignore[dict-item]
    for folds in (2, [5]):
        with pytest.raises(calibrant.CalibrationError, match="folds must be a sequence of integers from 0 to 4"):
            counted.of_folds(folds)  # type: ignore[arg-type]
    assert len(counted.of_folds(np.array([1, 3]))) == 240


def test_names_of_measures_may_be_in_any_column(scores: Any) -> None:
    """Choose measures with an index, an array, a Series or the keys of a dictionary."""
    p, y = scores["p"], scores["y"]
    names: tuple[Any, ...] = (pd.Index(["ks", "ece"]), np.array(["ks", "ece"]), pl.Series(["ks", "ece"]))
    for measures in (*names, {"ks": 1, "ece": 2}.keys()):
        assert calibrant.evaluate(p, y, measures=measures).keys() == ["ks", "ece"]
        fitted = calibrant.fit("platt", p, y)
        assert calibrant.compare(p, y, fitted, measures=measures).keys() == ["ks", "ece"]
        by_size = calibrant.measure_by_size(p, y, measures=measures, start=500, start_repetitions=2)
        assert list(by_size.curves) == ["ks", "ece"]
    report = calibrant.evaluate_distribution([1.0, 2.0], mean=[1.0, 1.0], std=[1.0, 1.0], measures=np.array(["mae"]))  # type: ignore[arg-type]
    assert report.keys() == ["mae"]
    assert calibrant.evaluate(p, y, diagrams=np.array(["corp"])).diagrams is not None  # type: ignore[arg-type]
