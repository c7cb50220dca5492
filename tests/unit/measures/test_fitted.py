from __future__ import annotations

import json
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest

import calibrant
from calibrant.core.errors import InvalidOption
from calibrant.core.reductions import Event
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.measures.fitted import EVALUATORS, fitted_error
from tests.known import known
from tests.refusals import refused_at
from tests.rows import draw_classes

NAMES: tuple[Literal["pl", "pl3", "averaged"], ...] = ("pl", "pl3", "averaged")
Floats = npt.NDArray[np.float64]
#: What is not a list of distinct numbers of pieces.
BAD_LISTS: tuple[Any, ...] = (
    *([], [1, 1], [0], [65], [-1], [1.0], [True], ["1"], [None], [float("nan")], [[1]], [[]], [{}], [10**400]),
    *(list(range(1, 66)), [1] * 100_000, 3, "3", "[1]", {"1": 1}, True, np.array([1.5, 2.0])),
)


def _drawn(n: int, power: float, seed: int) -> tuple[Floats, Floats, npt.NDArray[np.int8]]:
    random = np.random.default_rng(seed)
    c = random.random(n)
    return c, c**power, (random.random(n) < c).astype(np.int8)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("norm", [1, 2])
def test_the_error_is_near_the_true_one(name: Literal["pl", "pl3", "averaged"], norm: Literal[1, 2]) -> None:
    off = []
    for seed in range(4):
        c, p, y = _drawn(3000, 1.5, seed)
        error = fitted_error(Event(p, y), name, norm=norm, folds=10, level=0.95)
        off.append(error.debiased - np.mean(np.abs(p - c) ** norm))
        assert error.interval is not None
        assert error.interval[0] <= error.debiased <= error.interval[1]
    assert np.abs(np.mean(off)) < (0.012 if norm == 1 else 0.002)


@pytest.mark.parametrize("name", NAMES)
def test_the_plain_value_is_the_distance_of_the_fitted_map_from_the_diagonal(
    name: Literal["pl", "pl3", "averaged"],
) -> None:
    _, p, y = _drawn(1000, 1.4, 5)
    calibrated = calibrant.fit(name, p, y, folds=5).apply(p)
    report = calibrant.evaluate(p, y, measures=[{"name": f"ece-{name}", "folds": 5}])
    assert report.measures[f"ece-{name}"].value == pytest.approx(np.mean(np.abs(calibrated - p)), abs=1e-12)


def test_calibrated_predictions_have_an_interval_that_reaches_zero() -> None:
    _, p, y = _drawn(5000, 1.0, 1)
    error = fitted_error(Event(p, y), "averaged", norm=1, folds=10, level=0.95)
    assert known(error.interval)[0] == 0.0
    assert error.value < 0.01


def test_certain_predictions_that_are_right_have_no_error() -> None:
    p = np.repeat([0.0, 1.0], 50)
    error = fitted_error(Event(p, p.astype(np.int8)), "averaged", norm=1, folds=10, level=0.9)
    assert max(abs(error.debiased), known(error.interval)[1]) < 0.05


def test_importance_weights_count_by_their_ratios_alone() -> None:
    _, p, y = _drawn(800, 1.4, 2)
    w = np.random.default_rng(0).random(800) + 0.5
    errors = [
        fitted_error(Event(p, y, scale * w, "importance"), "averaged", norm=1, folds=10, level=None).debiased
        for scale in (1.0, 40.0)
    ]
    assert errors[0] == pytest.approx(errors[1], abs=1e-9)


def test_a_failed_fit_is_the_problem_of_the_measure() -> None:
    report = calibrant.evaluate([0.2, 0.8, 0.4], [0, 1, 0], measures=["ece-averaged", "ks"])
    assert report.measures["ece-averaged"].value is None
    assert "folds" in (report.measures["ece-averaged"].problem or "")
    assert report.measures["ks"].value is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("pl", {"loss": "brier", "tolerance": 0.0, "final": "refit"}),
        ("pl3", {"loss": "brier", "select": "log-loss", "monotone": True}),
        ("spline", {"boundary": "parabolic", "knots": 5}),
        ("histogram", {"n_bins": 7, "slope": "unit"}),
        ("es-cv", {"tolerance": 0.0}),
        ("ew-cv", {"tolerance": 0.5}),
        ("beta", {"parameters": "am"}),
        ("platt", {"target_smoothing": False}),
        ("venn-abers", {"merge": "brier"}),
        ("mli-spline", {"folds": 3}),
        ("pl", {"candidates": [5, 2], "folds": 3, "starts": "several", "tolerance": 0.0}),
        ("pl3", {"candidates": [3], "final": "weighted"}),
        ("averaged", {"candidates": [4, 1], "folds": 4, "keep_order": True}),
    ],
)
def test_the_value_with_options_is_that_of_a_fit_with_them(method: str, options: dict[str, Any]) -> None:
    _, p, _ = _drawn(900, 1.4, 3)
    p = 0.3 + 0.4 * p  # far from 0 and 1, where maps are clipped when they are applied
    y = (np.random.default_rng(1).random(len(p)) < 1.4 * p - 0.1).astype(np.int8)
    calibrated = calibrant.fit(method, p, y, **options).apply(p)
    report = calibrant.evaluate(p, y, measures=[{"name": f"ece-{method}", "norm": 1.5, **options}])
    measure = report.measures[f"ece-{method}"]
    assert measure.value == pytest.approx(np.mean(np.abs(calibrated - p) ** 1.5), abs=1e-12)
    assert measure.definition.items() >= options.items()
    assert json.loads(json.dumps(measure.definition)) == measure.definition


@pytest.mark.parametrize("method", EVALUATORS)
def test_every_option_of_a_method_is_one_of_its_measure_and_of_its_diagrams(method: str) -> None:
    options = dict(calibrant.METHODS[method].options)
    if method == "averaged":  # whose folds depend on whether it fits an event
        assert options.pop("folds").default is None
    assert options.items() <= dict(calibrant.MEASURES[f"ece-{method}"].options).items()
    defaults = {name: option.default for name, option in options.items() if name != "folds"}
    for diagram in ("fit-on-test", "logit-logit"):
        (request,) = read_diagrams([{"name": diagram, "method": method, "options": defaults}])
        assert request.options["options"] == defaults


def test_candidates_choose_the_number_of_pieces() -> None:
    _, p, y = _drawn(900, 1.4, 3)
    requests = [{"name": "ece-pl", "candidates": [pieces], "as": str(pieces)} for pieces in (1, 4)]
    report = calibrant.evaluate(p, y, measures=requests)
    assert [report.measures[key].definition["pieces"] for key in ("1", "4")] == [1, 4]
    assert report.measures["1"].value != report.measures["4"].value


OF_VECTORS = [name for name in EVALUATORS if calibrant.METHODS[name].event is None]


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["probability", "logit"])
@pytest.mark.parametrize("method", OF_VECTORS)
def test_a_map_of_vectors_is_fitted_to_the_two_classes_of_an_event(
    method: str, scale: Literal["probability", "logit"]
) -> None:
    _, p, y = _drawn(600, 1.4, 4)
    z = np.log(p / (1.0 - p))
    scores, both = (p, np.column_stack([1.0 - p, p])) if scale == "probability" else (z, np.column_stack([0.0 * z, z]))
    options: dict[str, Any] = {"n_knots": 6, "strength": 0.01} if method.startswith("iop") else {}
    fitted = calibrant.fit(method, both, y, reduction="canonical", scale=scale, **options)
    measures: list[Any] = [{"name": f"ece-{method}", **options}]
    measure = calibrant.evaluate(scores, y, scale=scale, measures=measures)[f"ece-{method}"]
    assert measure.value == pytest.approx(np.mean(np.abs(fitted.apply(both)[:, 1] - p)), abs=1e-12)
    assert measure.debiased is not None


def test_matrix_scaling_of_two_classes_is_beta_calibration() -> None:
    """Its logit is linear in ln p and ln(1 - p) (Kull et al. 2017)."""
    _, p, y = _drawn(900, 1.4, 4)
    report = calibrant.evaluate(p, y, measures=["ece-matrix", "ece-beta"])
    assert report["ece-matrix"].value == pytest.approx(report["ece-beta"].value, abs=1e-6)


def test_the_error_of_two_classes_is_twice_that_of_the_event() -> None:
    _, p, y = _drawn(500, 1.4, 4)
    both = np.column_stack([1.0 - p, p])
    of_both, of_one = (
        calibrant.evaluate(both, y, reduction=reduction, measures=["ece-vector"])["ece-vector"].value
        for reduction in ("canonical", "class:1")
    )
    assert of_both == pytest.approx(2.0 * (of_one or 0.0), abs=1e-9)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("method", ["temperature", "vector", "matrix", "dirichlet-l2", "ets", "iop-diagonal", "sms"])
def test_the_error_of_vectors_is_the_mean_distance_from_those_of_the_fitted_map(method: str, norm: int) -> None:
    P, y = draw_classes(400)
    w = np.random.default_rng(0).random(400) + 0.5
    off = np.abs(calibrant.fit(method, P, y, weights=w, reduction="canonical").apply(P) - P)
    requests: list[Any] = [{"name": f"ece-{method}", "norm": norm, "as": "it"}]
    measure = calibrant.evaluate(P, y, weights=w, reduction="canonical", measures=requests, interval=0.9)["it"]
    assert measure.value == pytest.approx(np.average((off**norm).sum(axis=1), weights=w), abs=1e-12)
    assert measure.value == measure.parts[f"alpha_{norm}"]
    assert (measure.debiased, measure.interval) == (None, None)
    assert measure.problem == "no interval: it is defined for one event"
    assert calibrant.evaluate(P, y, weights=w, reduction="canonical", measures=requests)["it"].problem is None


def test_the_debiased_error_of_norms_near_two_is_near_that_of_norm_two() -> None:
    _, p, y = _drawn(2000, 1.4, 6)
    norm_below, norm_two, norm_above = (
        fitted_error(Event(p, y), "isotonic", norm=norm, folds=10, level=0.9) for norm in (1.99999, 2, 2.00001)
    )
    assert norm_below.debiased == pytest.approx(norm_two.debiased, abs=1e-5)
    assert norm_above.debiased == pytest.approx(norm_two.debiased, abs=1e-5)
    assert norm_below.value > norm_two.value > norm_above.value


@pytest.mark.parametrize(
    ("name", "option", "choice"),
    [
        ("ece-pl", "norm", 0.5),
        ("ece-pl", "norm", float("nan")),
        ("ece-pl", "tolerance", -0.1),
        ("ece-pl", "loss", "hinge"),
        ("ece-es-cv", "tolerance", "off"),
        ("ece-spline", "boundary", "free"),
        ("ece-histogram", "n_bins", 0),
        ("ece-iop-oi", "n_knots", 65),
        *[("ece-pl", "candidates", candidates) for candidates in BAD_LISTS],
        ("ece-pl3", "candidates", [2, 2]),
        ("ece-averaged", "candidates", []),
        ("ece-averaged", "keep_order", "yes"),
        ("ece-averaged", "keep_order", [True]),
        ("ece-pl", "loss", ["brier"]),
        ("ece-histogram", "n_bins", [7]),
    ],
)
def test_a_bad_option_of_the_fit_is_refused_by_name(name: str, option: str, choice: Any) -> None:
    _, p, y = _drawn(50, 1.0, 0)
    with pytest.raises(InvalidOption) as caught:
        calibrant.evaluate(p, y, measures=[{"name": name, option: choice}])
    allowed = calibrant.MEASURES[name].options[option].allowed
    assert caught.value.offences[0].detail == f"must be {allowed}"
    assert caught.value.offences[0].pointer == f"/measures/0/{option}"


@pytest.mark.parametrize("candidates", BAD_LISTS)
@pytest.mark.parametrize("method", NAMES)
def test_a_bad_list_of_the_fit_is_refused_by_name(method: str, candidates: Any) -> None:
    _, p, y = _drawn(50, 1.0, 0)
    with refused_at("/candidates", InvalidOption):
        calibrant.fit(method, p, y, candidates=candidates)
    with refused_at("/diagrams/0/options/candidates", InvalidOption):
        read_diagrams([{"name": "fit-on-test", "method": method, "options": {"candidates": candidates}}])
