from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.calibrators import Fitting
from calibrant.comparison import RAW, Comparison, ComparisonReport, PowerLaws, read_contestants
from calibrant.core.batch import read_batch
from calibrant.core.digest import digest
from calibrant.core.errors import InvalidOption
from calibrant.evaluation import Evaluation
from calibrant.measures.catalogue import read_requests
from calibrant.measures.cross_fitting import Training, out_of_fold_predictions
from calibrant.measures.intervals import Resampling
from tests.known import known

RANDOM = np.random.default_rng(2)
TRUE = RANDOM.random(4000)
P, Y = TRUE**1.6, (RANDOM.random(4000) < TRUE).astype(int)
FIT, UNSEEN = slice(0, 2000), slice(2000, 4000)
MEASURES = ["ece", "ks", "brier", "auroc", "ks-end"]


def _compare(order: Any = slice(None), **options: Any) -> ComparisonReport:
    maps = {name: calibrant.fit(name, P[FIT], Y[FIT]) for name in ("platt", "isotonic")}
    maps |= {"again": maps["platt"]}
    return calibrant.compare(P[UNSEEN][order], Y[UNSEEN][order], maps, measures=MEASURES, resamples=200, **options)


def _training(method: str = "platt") -> Training:
    return Training(digest(read_batch(P[FIT], Y[FIT])), Fitting.read(method, {}), 3)


def test_a_map_compared_with_itself_has_a_difference_of_zero() -> None:
    comparison = _compare()
    for compared in comparison.measures.values():
        pair = next(pair for pair in compared.pairs if pair.between == ("platt", "again"))
        assert (pair.difference, pair.interval, pair.p_value) == (0.0, (0.0, 0.0), 1.0)


def test_the_order_of_the_rows_does_not_matter() -> None:
    first, other = _compare(), _compare(np.random.default_rng(3).permutation(2000))
    for key, compared in first.measures.items():
        for pair, again in zip(compared.pairs, other.measures[key].pairs, strict=True):
            assert pair.interval == pytest.approx(again.interval, abs=1e-9)
            assert pair.p_value == again.p_value


def test_a_weight_of_two_is_the_row_twice_in_what_is_ranked() -> None:
    weights = np.where(np.arange(2000) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(2000), weights.astype(int))
    weighed = _compare(weights=weights, weights_kind="frequency")
    doubled = _compare(twice)
    for key, compared in weighed.measures.items():
        differences = [pair.difference for pair in compared.pairs]
        assert differences == pytest.approx([pair.difference for pair in doubled.measures[key].pairs], abs=1e-12)


def test_rankings_start_with_the_best_and_separate_gross_errors() -> None:
    measures = _compare().measures
    assert known(measures["brier"].ranking)[-1] == RAW
    assert measures["ece"].of == "debiased"
    assert RAW not in known(measures["ece"].indistinguishable)
    assert measures["ks-end"].ranking is None
    assert known(measures["auroc"].ranking)[0] != "isotonic", "isotonic ties lose a little of the area"


def test_plain_values_are_compared_if_they_are_wanted() -> None:
    comparison = _compare(of="plain")
    assert comparison.measures["ece"].of == "value"
    errors = {contestant.name: contestant["ece"].value for contestant in comparison.contestants}
    assert comparison.measures["ece"].ranking == tuple(sorted(errors, key=lambda name: errors[name] or 0.0))
    pair = comparison.measures["ece"].pairs[0]
    assert pair.difference == (errors[pair.between[0]] or 0.0) - (errors[pair.between[1]] or 0.0)
    assert comparison.measures["ece"].fronts.keys() == {"classification-error", "brier"}
    with pytest.raises(InvalidOption, match="of must be one of: debiased, plain"):
        _compare(of="value")


def test_fronts_are_of_calibration_errors_alone() -> None:
    measures = _compare().measures
    assert set(measures["ece"].fronts) == {"classification-error", "brier"}
    assert measures["brier"].fronts == {}
    assert measures["auroc"].fronts == {}


def test_a_map_on_the_rows_of_its_fit_has_no_p_value_but_a_cross_fitted_improvement() -> None:
    maps = {name: calibrant.fit(name, P[FIT], Y[FIT], seed=3) for name in ("platt", "isotonic")}
    trained = {"platt": _training(), "isotonic": Training("0" * 32)}
    comparison = calibrant.compare(P[FIT], Y[FIT], maps, measures=["ece", "ks"], trained=trained, resamples=200)
    platt, isotonic = comparison.contestants[1:]
    assert (platt.in_sample, isotonic.in_sample) == (True, False)
    assert platt.measures["ks"].p_value is None
    assert isotonic.measures["ks"].p_value is not None
    assert known(platt.improvement)["brier"].definition["cross_fitted"] is True
    pairs = {pair.between: pair for pair in comparison.measures["ece"].pairs}
    assert pairs[("platt", "isotonic")].p_value is None
    assert pairs[("platt", "isotonic")].interval is None
    assert pairs[(RAW, "isotonic")].p_value is not None
    assert "platt" not in known(comparison.measures["ece"].indistinguishable)


def test_out_of_fold_predictions_are_of_maps_that_were_not_fitted_to_the_row() -> None:
    batch = read_batch(P[FIT], Y[FIT])
    out_of_fold = out_of_fold_predictions(batch, _training("isotonic"))
    again = calibrant.fit("isotonic", P[FIT], Y[FIT])
    inside = calibrant.evaluate(again.apply(P[FIT]), Y[FIT], measures=["brier"]).measures["brier"].value
    outside = calibrant.evaluate(out_of_fold, Y[FIT], measures=["brier"]).measures["brier"].value
    assert inside is not None
    assert outside is not None
    assert outside > inside


def test_a_single_map_on_its_own_rows_is_reported_as_in_sample() -> None:
    batch = read_batch(P[FIT], Y[FIT])
    fitted = calibrant.fit("platt", P[FIT], Y[FIT], seed=3)
    evaluation = Evaluation(read_requests(["ks"]), map=fitted, training=_training())
    seen = evaluation.run(evaluation.check(batch))
    assert seen.in_sample is True
    assert known(seen.after)["ks"].p_value is None
    assert seen.measures["ks"].p_value is not None
    assert known(seen.improvement)["log-loss"].definition["cross_fitted"] is True
    unseen = evaluation.run(evaluation.check(read_batch(P[UNSEEN], Y[UNSEEN])))
    assert unseen.in_sample is False
    assert known(unseen.after)["ks"].p_value is not None


def test_a_fit_that_cannot_be_repeated_has_no_improvement_in_sample() -> None:
    batch = read_batch(P[FIT], Y[FIT])
    fitted = calibrant.fit("platt", P[FIT], Y[FIT])
    evaluation = Evaluation(read_requests(["ks"]), map=fitted, training=Training(digest(batch)))
    improvements = known(evaluation.run(evaluation.check(batch)).improvement)
    assert improvements["brier"].value is None
    assert improvements["brier"].problem == "no value: the map was fitted to these rows, and the fit cannot be repeated"


def test_a_fit_for_workers_alone_makes_an_evaluation_in_sample_a_job() -> None:
    batch = read_batch(P[FIT], Y[FIT])
    fitted = calibrant.fit("platt", P[FIT], Y[FIT])
    training = Training(digest(batch), Fitting.read("pl", {}))
    evaluation = Evaluation(read_requests(["ks"]), map=fitted, training=training)
    assert evaluation.seconds(evaluation.check(batch)) == float("inf")
    assert evaluation.seconds(evaluation.check(read_batch(P, Y))) < 1.0


def test_maps_of_the_whole_vector_and_of_its_confidence_meet() -> None:
    probs = RANDOM.dirichlet([0.5] * 4, 800)
    labels = np.array([RANDOM.choice(4, p=row**0.5 / (row**0.5).sum()) for row in probs])
    maps = {
        "temperature": calibrant.fit("temperature", probs[:400], labels[:400]),
        "platt": calibrant.fit("platt", probs[:400], labels[:400]),
    }
    comparison = calibrant.compare(probs[400:], labels[400:], maps, measures=["ece", "accuracy"], resamples=200)
    assert comparison.report.reduction == "confidence"
    errors = {contestant.name: contestant.classification_error for contestant in comparison.contestants}
    assert errors["platt"] == errors[RAW], "a map of the confidence leaves the decision"


def test_an_invalid_argument_is_named() -> None:
    fitted = calibrant.fit("platt", P[FIT], Y[FIT])
    with pytest.raises(InvalidOption, match="cannot have the name uncalibrated"):
        calibrant.compare(P, Y, {RAW: fitted})
    with pytest.raises(InvalidOption, match="1 to 20 calibration maps"):
        calibrant.compare(P, Y, {})
    with pytest.raises(InvalidOption, match="max-t, holm"):
        calibrant.compare(P, Y, {"one": fitted}, correction="none")  # type: ignore[arg-type]


def test_a_power_law_needs_five_batches() -> None:
    comparison = Comparison(
        Evaluation(read_requests(["ece", "brier"]), resampling=Resampling(0.95, 200)),
        read_contestants({"platt": calibrant.fit("platt", P[FIT], Y[FIT])}, {}),
    )
    laws = PowerLaws(comparison)
    for noise in (0.0, 0.3, 0.6, 0.9, 1.2):
        logit = np.log(P / (1.0 - P)) + noise * RANDOM.normal(size=4000)
        laws.add(read_batch(1.0 / (1.0 + np.exp(-1.3 * logit)), Y))
        if noise == 0.9:
            assert laws.laws()[RAW]["ece"].law.exponent is None
    by_contestant = laws.laws()
    assert set(by_contestant) == {RAW, "platt"}
    assert set(by_contestant[RAW]) == {"ece"}, "the Brier score is no calibration error"
    assert by_contestant[RAW]["ece"].law.exponent is not None
    assert by_contestant[RAW]["ece"].law.interval is not None


def test_a_power_law_is_also_one_of_plain_values() -> None:
    laws = PowerLaws(Evaluation(read_requests(["ece", "ks"]), resampling=Resampling(0.95, 200)))
    plain, errors = list[float](), list[float]()
    for noise in (0.0, 0.3, 0.6, 0.9, 1.2):
        logit = np.log(P / (1.0 - P)) + noise * RANDOM.normal(size=4000)
        batch = 1.0 / (1.0 + np.exp(-2.0 * logit))
        laws.add(read_batch(batch, Y))
        report = calibrant.evaluate(batch, Y, measures=["ece", "accuracy"])
        plain.append(report["ece"].value or 0.0)
        errors.append(1.0 - (report["accuracy"].value or 0.0))
    law = laws.laws()[RAW]
    slope, _ = np.polyfit(np.log(errors), np.log(plain), 1)
    assert law["ece"].of == "debiased"
    assert law["ece"].plain.exponent == pytest.approx(slope)
    assert law["ece"].law.exponent != pytest.approx(slope)
    assert law["ece"].plain.interval is not None
    assert law["ks"].of == "value"
    assert law["ks"].plain == law["ks"].law


def test_a_map_on_its_own_rows_is_shown_with_its_cross_fitted_value() -> None:
    fitted = calibrant.fit("isotonic", P[FIT], Y[FIT])
    held_out = calibrant.fit("platt", P[UNSEEN], Y[UNSEEN])
    measures = ["ece", "brier"]
    comparison = calibrant.compare(P[FIT], Y[FIT], [fitted, held_out], measures=measures, resamples=100)
    alone = known(calibrant.evaluate(P[FIT], Y[FIT], map=fitted, measures=measures).after)
    frame = comparison.to_frame().set_index(["contestant", "measure"])
    for key in measures:
        again = known(alone[key].parts["cross_fitted"])
        assert comparison.contestants[1].measures[key].parts["cross_fitted"] == again
        assert frame.loc[("isotonic", key), "cross_fitted"] == again
    assert frame["cross_fitted"].isna().sum() == 4
    assert f"{alone['brier'].parts['cross_fitted']:.3f}" in repr(comparison)
    assert repr(comparison).count("cross-fitted") == 2
    assert "best first" in repr(comparison)
    both = calibrant.compare(P[UNSEEN], Y[UNSEEN], [fitted, held_out], measures=["brier"], resamples=100)
    assert "cross_fitted" in both.to_frame()
    outside = calibrant.compare(P[UNSEEN], Y[UNSEEN], fitted, measures=["brier"], resamples=100)
    assert "cross_fitted" not in outside.to_frame()
    assert "cross-fitted" not in repr(outside)


def test_a_ranking_of_the_uncalibrated_predictions_alone_is_not_shown() -> None:
    maps = [calibrant.fit(name, P[FIT], Y[FIT]) for name in ("platt", "isotonic")]
    comparison = calibrant.compare(P[FIT], Y[FIT], maps, measures=["brier"], resamples=100)
    assert "best first" not in repr(comparison)
    assert "best first" not in repr(comparison["brier"])


@pytest.mark.parametrize(
    ("maps", "message"),
    [
        (Y, "maps must be calibration maps; to compare two models, pass compare"),
        (["isotonic", "beta"], r"not names of methods; pass \{name: calibrant.fit\(name"),
        ("isotonic", r"not names of methods; pass \{name: calibrant.fit\(name"),
        ({"a": "isotonic"}, r"not names of methods; pass \{name: calibrant.fit\(name"),
    ],
)
def test_a_value_that_is_not_a_map_is_refused_with_a_remedy(maps: Any, message: str) -> None:
    with pytest.raises(calibrant.CalibrationError, match=message):
        calibrant.compare(P, Y, maps)
