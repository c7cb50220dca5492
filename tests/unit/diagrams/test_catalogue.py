from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.batch import read_batch
from calibrant.core.errors import CalibrationError, InvalidOption, UnknownDiagram
from calibrant.core.reductions import Event, subject
from calibrant.diagrams.catalogue import DIAGRAMS, read_diagrams
from calibrant.evaluation import Evaluation
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import PLAIN, Resampling
from tests.refusals import refused_at

NAMES = tuple(DIAGRAMS)
MORE: list[str | dict[str, Any]] = ["reliability", {"name": "corp", "as": "mine", "level": 0.8}]


def _finite(document: Any) -> bool:
    """Whether plain JSON holds finite numbers only."""
    if isinstance(document, dict):
        return all(_finite(part) for part in document.values())
    if isinstance(document, list):
        return all(_finite(part) for part in document)
    return document is None or isinstance(document, str) or bool(np.isfinite(document))


@pytest.mark.parametrize(
    ("diagrams", "error", "pointer"),
    [
        (["nope"], UnknownDiagram, "/diagrams/0"),
        (["corp", {"name": "nope"}], UnknownDiagram, "/diagrams/1"),
        ([{"name": "reliability", "n_bins": 0}], InvalidOption, "/diagrams/0/n_bins"),
        ([{"name": "reliability", "n_bins": 1000}], InvalidOption, "/diagrams/0/n_bins"),
        ([{"name": "reliability", "binning": "exact"}], InvalidOption, "/diagrams/0/binning"),
        ([{"name": "corp", "level": 1}], InvalidOption, "/diagrams/0/level"),
        ([{"name": "corp", "n_bins": 3}], InvalidOption, "/diagrams/0"),
        ([{"name": "fit-on-test", "method": "identity"}], InvalidOption, "/diagrams/0/method"),
        ([{"name": "fit-on-test", "options": [1]}], InvalidOption, "/diagrams/0/options"),
        ([{"name": "logit-logit", "options": {"nope": 1}}], InvalidOption, "/diagrams/0/options"),
        ([{"name": "logit-logit", "options": {1: 1}}], InvalidOption, "/diagrams/0/options"),
        (["corp", {"name": "fit-on-test", "method": "iop-op", "folds": 50}], InvalidOption, "/diagrams/1/folds"),
        ([{"name": "logit-logit", "method": "iop-oi", "folds": 21}], InvalidOption, "/diagrams/0/folds"),
        ([{"name": "fit-on-test", "folds": 1}], InvalidOption, "/diagrams/0/folds"),
        ([{"name": "corp", "options": {}}], InvalidOption, "/diagrams/0"),
        ([{"name": "corp", "as": ""}], InvalidOption, "/diagrams/0/as"),
        (["corp", "corp"], InvalidOption, "/diagrams/1"),
        ([{}], InvalidOption, "/diagrams/0"),
        ([3], InvalidOption, "/diagrams/0"),
        (["corp"] * 17, InvalidOption, "/diagrams"),
        (b"corp", InvalidOption, "/diagrams"),
    ],
)
def test_an_invalid_request_is_refused_at_its_place(diagrams: Any, error: type[CalibrationError], pointer: str) -> None:
    with refused_at(pointer, error):
        read_diagrams(diagrams)


def test_only_requested_diagrams_are_computed(event: Event) -> None:
    assert read_diagrams(None) == read_diagrams([]) == ()
    report = calibrant.evaluate(event.p, event.y)
    assert report.diagrams == {}
    assert report.after_diagrams is None


@pytest.mark.parametrize("name", NAMES)
def test_the_catalogue_describes_every_field(event: Event, name: str) -> None:
    request = read_diagrams([name])[0]
    picture = request.diagram.draw(event, PLAIN, **request.options)
    assert list(request.diagram.shown) == [f.name for f in dataclasses.fields(picture) if f.name != "problem"]
    document = request.drawn(event)
    assert list(document["data"]) == list(request.diagram.shown)
    assert document["definition"] == {"name": name, **request.options}
    assert document["problem"] is None
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_the_catalogue_lists_every_option_of_a_request() -> None:
    for name, diagram in DIAGRAMS.items():
        (request,) = read_diagrams([{"name": name, **{option: o.default for option, o in diagram.options.items()}}])
        assert set(request.options) == set(diagram.options)
    for name in ("fit-on-test", "logit-logit"):
        option = DIAGRAMS[name].options["options"]
        assert (option.default, option.allowed) == (None, "null or an object with options of the method, without folds")


def test_fits_of_some_methods_are_jobs() -> None:
    runs = {
        name: read_diagrams([{"name": "fit-on-test", "method": name}])[0].runs
        for name, method in calibrant.METHODS.items()
        if method.evaluates and method.event is not None
    }
    assert {m for m, run in runs.items() if run == "job"} >= {"pl", "pl3", "averaged"}
    assert runs["isotonic"] == "inline"
    assert all(read_diagrams([name])[0].runs == "inline" for name in NAMES)
    evaluation = Evaluation(read_requests(["ks"]), diagrams=read_diagrams([{"name": "fit-on-test", "method": "pl"}]))
    assert not evaluation.inline
    assert Evaluation(read_requests(["ks"]), diagrams=read_diagrams(NAMES)).inline


@pytest.mark.slow
@pytest.mark.parametrize("reduction", ["classwise", "canonical"])
def test_a_diagram_is_of_one_event(reduction: str) -> None:
    random = np.random.default_rng(0)
    probs = random.dirichlet([1.0] * 3, 200)
    labels = np.array([random.choice(3, p=row) for row in probs])
    report = calibrant.evaluate(probs, labels, measures=["ks"], diagrams=NAMES, reduction=reduction)
    assert all(d["data"] is None and "one event" in d["problem"] for d in report.diagrams.values())
    assert all("within-top:r" in d["problem"] for d in report.diagrams.values())
    for of_one in ("confidence", "class:1", "top:2", "within-top:2", "pooled"):
        drawn = calibrant.evaluate(probs, labels, diagrams=NAMES, reduction=of_one).diagrams
        assert all(d["data"] is not None for d in drawn.values())
        dependent = {key for key, d in drawn.items() if "dependent" in (d["problem"] or "")}
        assert dependent == (set(NAMES) - {"ks-graphs"} if of_one == "pooled" else set())


def test_a_map_is_drawn_before_and_after(event: Event) -> None:
    fitted = calibrant.fit("platt", event.p, event.y)
    report = calibrant.evaluate(event.p, event.y, map=fitted, diagrams=MORE, measures=["ece"])
    assert list(report.diagrams) == ["reliability", "mine"]
    assert report.after_diagrams is not None
    after = calibrant.evaluate(fitted.apply(event.p).tolist(), event.y, diagrams=MORE)
    assert report.after_diagrams == after.diagrams
    assert report.diagrams["reliability"]["data"]["ece"] == pytest.approx(report.measures["ece"].value, abs=1e-14)
    assert report.diagrams == calibrant.evaluate(event.p, event.y, diagrams=MORE).diagrams


def test_the_estimate_of_seconds_counts_diagrams(event: Event) -> None:
    batch = read_batch(event.p, event.y)
    rows = Evaluation(()).check(batch)
    plain, drawn = (
        Evaluation(read_requests(["ks"]), diagrams=read_diagrams(d)).seconds(rows) for d in ((), ["fit-on-test"])
    )
    assert drawn > plain + 0.05
    many = Evaluation(read_requests(["ks"]), resampling=Resampling(None, 100_000, 0), diagrams=read_diagrams(["corp"]))
    assert many.seconds(rows) > 2.0


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_the_rows_and_their_repetition_do_not_matter(event: Event, name: str) -> None:
    request = read_diagrams([name])[0]
    whole = request.drawn(event)
    assert request.drawn(event.rows(np.random.default_rng(0).permutation(len(event)))) == whole
    if name == "fit-on-test":  # folds are of rows
        return
    twice = np.arange(len(event)) % 3 == 0
    weighted = request.drawn(replace(event, w=np.where(twice, 2.0, 1.0)))["data"]
    repeated = request.drawn(event.rows(np.concatenate([np.arange(len(event)), np.flatnonzero(twice)])))["data"]
    for key, numbers in weighted.items():
        if key in ("curve", "axes"):
            assert numbers == repeated[key]
        elif key not in ("count", "histogram", "clipped"):  # which count rows
            np.testing.assert_allclose(numbers, repeated[key], atol=1e-9)


HALF = np.tile([0, 1], 30).astype(np.int8)
EDGES = {
    "zeros and ones": Event(np.tile([0.0, 1.0, 0.5], 20), HALF),
    "one prediction": Event(np.full(60, 0.3), HALF),
    "one class": Event(np.linspace(0, 1, 60), np.ones(60, np.int8)),
    "two rows": Event(np.array([0.2, 0.9]), np.array([1, 0], np.int8)),
    "one row": Event(np.array([1.0]), np.array([0], np.int8)),
    "tiny weights": Event(np.linspace(0, 1, 60), HALF, np.full(60, 1e-200)),
    "huge weights": Event(np.linspace(0, 1, 60), HALF, np.full(60, 1e150)),
    "mixed weights": Event(np.linspace(0, 1, 60), HALF, np.geomspace(1e-6, 1e6, 60)),
    "fractions of rows": Event(np.linspace(0, 1, 60), HALF, np.full(60, 0.01)),
    "weights of zero": Event(np.linspace(0, 1, 60), HALF, np.tile([0.0, 0.0, 1.0], 20)),
    "importance": Event(np.linspace(0, 1, 60), HALF, np.geomspace(1e-6, 1e6, 60), "importance"),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("edge", EDGES)
def test_extreme_rows_are_drawn_or_refused(name: str, edge: str) -> None:
    drawn = read_diagrams([name])[0].drawn(EDGES[edge])
    assert _finite(drawn["data"])
    fitted = ("fit-on-test", "calibration-belt", "calibration-curve")
    assert drawn["data"] is not None or (name in fitted and drawn["problem"])


def test_two_columns_are_one_event() -> None:
    p, y = np.linspace(0.05, 0.95, 40), np.tile([0, 1], 20)
    diagrams = calibrant.evaluate(p, y, diagrams=["reliability", "ks-graphs"]).diagrams
    columns = np.column_stack([1 - p, p])
    assert (
        calibrant.evaluate(columns, y, reduction="binary", diagrams=["reliability", "ks-graphs"]).diagrams == diagrams
    )


def test_narrow_predictions_are_widened() -> None:
    random = np.random.default_rng(0)
    probs = random.dirichlet([1.0] * 4, 300)
    labels = random.integers(0, 4, 300)
    wide, narrow = (
        subject(read_batch(predictions, labels), "confidence") for predictions in (probs, probs.astype(np.float32))
    )
    for request in read_diagrams(["reliability", "ks-graphs"]):
        points, other = request.drawn(wide)["data"], request.drawn(narrow)["data"]
        for key in ("mean_prediction", "observed_frequency", "ece", "cumulative_score", "probability"):
            if key in points:
                np.testing.assert_allclose(points[key], other[key], atol=1e-6)


@pytest.mark.slow
def test_every_diagram_stays_below_a_hundred_kilobytes() -> None:
    random = np.random.default_rng(0)
    c = random.random(200_000)
    event = Event(c**1.3, (random.random(200_000) < c).astype(np.int8))
    sizes = {name: len(json.dumps(read_diagrams([name])[0].drawn(event), separators=(",", ":"))) for name in NAMES}
    assert max(sizes.values()) < 40_000, sizes
    largest = {
        "reliability": {"n_bins": 200, "histogram": 200},
        "ks-graphs": {"points": 1000},
        "logit-logit": {"n_bins": 200},
    }
    for name, options in largest.items():
        request = read_diagrams([{"name": name, **options}])[0]
        assert len(json.dumps(request.drawn(event), separators=(",", ":"))) < 100_000
