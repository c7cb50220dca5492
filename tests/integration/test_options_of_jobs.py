"""A request that becomes a job has the result of the request that is answered at once, whatever its options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import httpx
import numpy as np
import pytest

import calibrant
from calibrant.decisions.thresholds import CRITERIA
from schemas.evaluations import CompareBody, EvaluateBody, EvaluateDistributionBody
from schemas.maps import FitBody, FitDistributionBody
from service.stack import Stack
from tests.integration.responses import body_of

RANDOM = np.random.default_rng(5)
N = 80
P = RANDOM.uniform(0.05, 0.95, N).round(3)
Y = (RANDOM.random(N) < P**1.5).astype(int)
PROBS = RANDOM.dirichlet(np.ones(3), N)
CLASSES = [int(RANDOM.choice(3, p=row)) for row in PROBS]
SITE = ["a" if i % 3 else "b" for i in range(N)]
PAIRS = [f"c{i // 2}" for i in range(N)]
COUNTS = [1.0 + i % 3 for i in range(N)]
LOGITS = np.log(P / (1.0 - P)).tolist()
#: Options that do not change the answer of a fit: to change a shape is allowed, and rows may be kept as a batch.
WITHOUT_EFFECT = {FitBody: {"allow_shape_change"}, FitDistributionBody: {"allow_shape_change", "groups", "times"}}
#: Options that are not about what is computed, and rows in files, which always become a job.
ELSEWHERE = {"prediction_kind", "keep_batch", "source"}

BINARY: dict[str, Any] = {"predictions": P.tolist(), "labels": Y.tolist()}
VECTORS: dict[str, Any] = {"predictions": PROBS.tolist(), "labels": CLASSES}
NAMES_OF_CLASSES: dict[str, Any] = {"labels": ["xyz"[k] for k in CLASSES], "class_names": ["x", "y", "z"]}
NAMED = VECTORS | NAMES_OF_CLASSES
MEASURED = {**BINARY, "measures": ["brier", "ece"]}
FORECASTS: dict[str, Any] = {
    "prediction_kind": "regression",
    "observed": (P * 3.0).tolist(),
    "mean": P.tolist(),
    "variance": [0.25] * N,
}


@pytest.fixture(scope="module")
def stored(service: Stack) -> dict[str, str]:
    """Ids of batches and maps."""
    with httpx.Client(base_url=service.url, timeout=600) as http:

        def id_of(path: str, body: Mapping[str, Any]) -> str:
            return str(body_of(http.post(path, json=body), 201)["id"])

        sets = calibrant.fit_sets(PROBS, CLASSES, alpha=0.3, method="aps", randomised=True)
        halved = FORECASTS | {"variance": [0.125] * N}
        return {
            "one": id_of("/batches", BINARY),
            "two": id_of("/batches", BINARY | {"predictions": (P**2).tolist()}),
            "forecasts": id_of("/batches", FORECASTS),
            "halved": id_of("/batches", halved),
            "platt": id_of("/maps", BINARY | {"method": "platt"}),
            "beta": id_of("/maps", BINARY | {"method": "beta"}),
            "segments": id_of("/maps", BINARY | {"method": "segments", "features": {"site": SITE, "p": P.tolist()}}),
            "variance": id_of("/maps", FORECASTS | {"method": "variance-platt"}),
            "sets": id_of("/maps/import", {"document": sets.to_document()}),
        }


def _evaluations(ids: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    clustered, maps = {**MEASURED, "clusters": PAIRS, "interval": 0.9}, {"maps": [ids["platt"], ids["beta"]]}
    return {
        "predictions": MEASURED | {"predictions": [1.00002, *P.tolist()[1:]]},
        "labels": MEASURED | {"labels": ["no" if y else "yes" for y in Y], "class_names": ["no", "yes"]},
        "weights": MEASURED | {"weights": COUNTS},
        "groups": MEASURED | {"groups": SITE},
        "clusters": clustered,
        "features": MEASURED | {"features": {"site": SITE, "p": P.tolist()}, "map": ids["segments"]},
        "scale": MEASURED | {"predictions": LOGITS, "scale": "logit"},
        "weights_kind": MEASURED | {"weights": COUNTS, "weights_kind": "frequency", "interval": 0.9},
        "class_names": NAMED | {"measures": ["brier"]},
        "measures": BINARY | {"measures": [{"name": "ece", "n_bins": 4, "as": "four"}, "log-loss"]},
        "reduction": VECTORS | {"measures": ["brier"], "reduction": "class:1"},
        "maps": MEASURED | maps,
        "of": MEASURED | maps | {"of": "plain"},
        "interval": MEASURED | {"interval": 0.8},
        "resamples": MEASURED | {"interval": 0.8, "resamples": 150},
        "cluster_variance": clustered | {"cluster_variance": "cr0"},
        "seed": MEASURED | {"interval": 0.8, "seed": 7},
        "batch": {"batch": ids["one"], "measures": ["brier"]},
        "batches": {"batches": [ids["one"], ids["two"]], "measures": ["brier"]},
        "diagrams": MEASURED | {"diagrams": [{"name": "reliability", "n_bins": 5}]},
        "classes": VECTORS | {"measures": ["brier"], "classes": [0, 2]},
        "map": MEASURED | {"map": ids["platt"]},
        "correction": MEASURED | maps | {"correction": "holm"},
    }


def _comparisons(ids: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    models = {"models": {"a": P.tolist(), "b": (P**1.3).tolist()}, "labels": Y.tolist(), "measures": ["brier", "ece"]}
    three = {"models": {"a": PROBS.tolist(), "b": PROBS[:, ::-1].tolist()}, "labels": CLASSES, "measures": ["brier"]}
    clustered = models | {"clusters": PAIRS}
    return {
        "predictions": MEASURED | {"maps": [ids["platt"], ids["beta"]]},
        "labels": models | {"labels": (1 - Y).tolist()},
        "weights": models | {"weights": COUNTS},
        "groups": models | {"groups": SITE},
        "clusters": clustered,
        "features": MEASURED | {"features": {"site": SITE, "p": P.tolist()}, "maps": [ids["segments"]]},
        "models": models,
        "scale": models | {"models": {"a": LOGITS, "b": [z / 2.0 for z in LOGITS]}, "scale": "logit"},
        "weights_kind": models | {"weights": COUNTS, "weights_kind": "frequency"},
        "class_names": three | NAMES_OF_CLASSES,
        "measures": models | {"measures": [{"name": "ece", "n_bins": 4, "as": "four"}]},
        "reduction": three | {"reduction": "class:1"},
        "maps": {"batch": ids["one"], "maps": [ids["platt"]], "measures": ["brier"]},
        "of": models | {"of": "plain"},
        "interval": models | {"interval": 0.8},
        "resamples": models | {"resamples": 150},
        "cluster_variance": clustered | {"cluster_variance": "cr0"},
        "seed": models | {"seed": 7},
        "batch": {"batch": ids["two"], "maps": [ids["platt"]], "measures": ["brier"], "seed": 2},
        "batches": {"batches": {"a": ids["one"], "b": ids["two"]}, "measures": ["brier"]},
        "rank_by": models | {"rank_by": "brier"},
        "correction": models | {"correction": "max-t"},
    }


def _fits(ids: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    platt = BINARY | {"method": "platt"}
    return {
        "predictions": platt | {"predictions": [1.00002, *P.tolist()[1:]]},
        "labels": platt | {"labels": ["no" if y else "yes" for y in Y], "class_names": ["no", "yes"]},
        "weights": platt | {"weights": COUNTS},
        "groups": VECTORS | {"method": "lac", "options": {"conditional": "group", "alpha": 0.3}, "groups": SITE},
        "clusters": BINARY | {"method": "crc", "options": {"alpha": 0.2}, "clusters": PAIRS},
        "features": BINARY | {"method": "segments", "features": {"site": SITE, "p": P.tolist()}},
        "scale": platt | {"predictions": LOGITS, "scale": "logit"},
        "weights_kind": platt | {"weights": COUNTS, "weights_kind": "frequency"},
        "class_names": VECTORS | {"method": "temperature", "class_names": ["x", "y", "z"]},
        "description": platt | {"description": "about"},
        "tags": platt | {"tags": {"stage": "shadow"}},
        "name": platt | {"name": "options-of-jobs"},
        "allow_shape_change": platt | {"name": "options-of-jobs", "allow_shape_change": True},
        "method": BINARY | {"method": "isotonic"},
        "options": VECTORS | {"method": "raps", "options": {"alpha": 0.2, "penalty": 0.1, "k_reg": 1}},
        "reduction": VECTORS | {"method": "beta", "reduction": "class:1"},
        "seed": VECTORS | {"method": "aps", "options": {"randomised": True}, "seed": 9},
        "batch": {"batch": ids["one"], "method": "beta"},
    }


def _forecasts(ids: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Evaluations of forecasts."""
    scored = FORECASTS | {"measures": ["crps"]}
    rows = {"prediction_kind": "regression", "observed": FORECASTS["observed"]}
    quantiles = {"quantiles": [[p - 0.5, p, p + 0.5] for p in P.tolist()], "levels": [0.1, 0.5, 0.9]}
    ends = {"lower": (P - 0.5).tolist(), "upper": (P + 0.5).tolist(), "level": 0.8}
    against = {"against": [ids["halved"]]}
    return {
        **dict.fromkeys(("mean", "variance", "observed"), scored),
        "std": {**rows, "mean": P.tolist(), "std": [0.5] * N, "measures": ["crps"]},
        **dict.fromkeys(("quantiles", "levels"), rows | quantiles),
        "samples": rows | {"samples": [[p - 0.5, p, p + 0.5, p + 0.1] for p in P.tolist()], "measures": ["crps"]},
        **dict.fromkeys(("lower", "upper", "level"), rows | ends),
        "by": FORECASTS | {"measures": [{"name": "conditional-coverage", "by": "column"}], "by": SITE},
        "weights": scored | {"weights": COUNTS},
        "groups": scored | {"groups": SITE},
        "clusters": scored | {"clusters": PAIRS, "interval": 0.9},
        "times": scored
        | {"diagrams": ["fan"], "times": [f"2024-01-{i % 28 + 1:02d}T00:{i // 28:02d}:00" for i in range(N)]},
        "batch": {"prediction_kind": "regression", "batch": ids["forecasts"], "measures": ["crps"]},
        "weights_kind": scored | {"weights": COUNTS, "weights_kind": "frequency", "interval": 0.9},
        "measures": FORECASTS | {"measures": [{"name": "coverage", "level": 0.5, "as": "half"}]},
        "diagrams": scored | {"diagrams": ["pit"]},
        "map": scored | {"map": ids["variance"]},
        "against": scored | against,
        "score": scored | against | {"score": "squared-error"},
        "lags": scored | against | {"lags": 3},
        "interval": scored | {"interval": 0.8},
        "seed": FORECASTS | {"measures": ["quantile-calibration-error"], "interval": 0.8, "seed": 3},
    }


def _fits_of_forecasts(ids: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    scored, evaluated = FORECASTS | {"method": "variance-platt"}, _forecasts(ids)
    arrays = ("mean", "variance", "std", "quantiles", "levels", "samples", "lower", "upper", "observed", "level")
    of_rows = {name: {k: v for k, v in evaluated[name].items() if k != "measures"} for name in arrays}
    above_0 = of_rows["quantiles"] | {"quantiles": [[p, p + 0.5, p + 1.0] for p in P.tolist()]}
    recalibrated = FORECASTS | {"method": "quantile-recalibration"}
    return {
        **{name: body | {"method": "conformal"} for name, body in of_rows.items()},
        "by": FORECASTS | {"method": "conformal", "by": SITE},
        "weights": scored | {"weights": COUNTS},
        "weights_kind": scored | {"weights": COUNTS, "weights_kind": "frequency"},
        "groups": scored | {"groups": SITE},
        "clusters": scored | {"clusters": PAIRS},
        "times": scored | {"times": evaluated["times"]["times"]},
        "description": scored | {"description": "about"},
        "tags": scored | {"tags": {"stage": "shadow"}},
        "name": scored | {"name": "options-of-forecasts"},
        "allow_shape_change": scored | {"name": "options-of-forecasts", "allow_shape_change": True},
        "method": FORECASTS | {"method": "conformal"},
        "options": recalibrated | {"options": {"shape": "pl"}},
        "batch": {"prediction_kind": "regression", "batch": ids["forecasts"], "method": "variance-platt"},
        "scale": above_0 | {"method": "conformal", "scale": "log1p", "support": [0.0, None]},
        "support": recalibrated | {"support": [0.0, 10.0]},
        "output_levels": recalibrated | {"output_levels": [0.2, 0.5, 0.8]},
        "seed": scored | {"seed": 3},
    }


def _without_identity(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in answer.items() if name not in ("id", "created_at", "version")}


@pytest.mark.parametrize(
    ("path", "bodies", "model"),
    [
        pytest.param("/evaluate", _evaluations, EvaluateBody, marks=pytest.mark.slow),
        pytest.param("/compare", _comparisons, CompareBody, marks=pytest.mark.slow),
        ("/maps", _fits, FitBody),
        ("/evaluate", _forecasts, EvaluateDistributionBody),
        pytest.param("/maps", _fits_of_forecasts, FitDistributionBody, marks=pytest.mark.slow),
    ],
    ids=["evaluate", "compare", "fit", "forecasts", "fit-of-forecasts"],
)
def test_every_option_has_the_same_effect_in_a_job(
    http: httpx.Client, stored: dict[str, str], path: str, bodies: Any, model: Any
) -> None:
    requests = bodies(stored)
    assert set(model.model_fields) - ELSEWHERE - {"sets", "grades", *CRITERIA} == set(requests)  # which are of reports
    differing, ignored = {}, set()
    for name, body in requests.items():
        assert name in body, name
        at_once = http.post(path, json=body)
        as_job = http.post(path, json=body, headers={"Prefer": "respond-async, wait=600"})
        answers = [_without_identity(answer.json()) for answer in (at_once, as_job)]
        if not at_once.is_success or answers[0] != answers[1]:
            differing[name] = answers
        else:
            assert "respond-async" in as_job.headers["Preference-Applied"], name
            without = http.post(path, json={option: choice for option, choice in body.items() if option != name})
            if _without_identity(without.json()) == answers[0]:
                ignored.add(name)
    assert not differing
    assert ignored == WITHOUT_EFFECT.get(model, set())


def _reports(ids: Mapping[str, str]) -> list[dict[str, Any]]:
    """Requests of reports, which take longer: together they have every option."""
    rows = {"groups": SITE, "weights": COUNTS, "weights_kind": "frequency", "interval": 0.8, "resamples": 150}
    panel = {"measures": ["brier", "ece"], "diagrams": ["reliability"], "seed": 4}
    return [
        VECTORS | rows | panel | {"class_names": ["x", "y", "z"], "sets": ids["sets"]},
        MEASURED | panel | {"clusters": PAIRS, "cluster_variance": "cr0", "features": {"site": SITE}},
        MEASURED | panel | {"predictions": LOGITS, "scale": "logit", "features": {"site": SITE}},
        MEASURED | panel | {"maps": [ids["platt"], ids["beta"]], "of": "plain", "correction": "holm"},
        VECTORS | panel | {"classes": [0, 2], "reduction": "confidence"},
        {"batch": ids["one"], "map": ids["platt"], **panel},
        MEASURED | panel | {"groups": SITE, "grades": True, "costs": [1, 4]},
        *(MEASURED | panel | criterion for criterion in ({"capacity": 20}, {"precision": 0.5}, {"recall": 0.8})),
    ]


@pytest.mark.slow
def test_a_report_has_the_same_sections_as_a_job(http: httpx.Client, stored: dict[str, str]) -> None:
    requests, seen = _reports(stored), set[str]()
    for body in requests:
        headers = {"Accept": "text/html"}
        at_once = http.post("/evaluate", json=body, headers=headers)
        as_job = http.post("/evaluate", json=body, headers=headers | {"Prefer": "respond-async, wait=600"})
        assert at_once.is_success, at_once.text
        assert as_job.is_success, as_job.text
        assert _undated(as_job.text) == _undated(at_once.text), sorted(set(body) - seen)
        seen |= set(body)
    assert set(EvaluateBody.model_fields) - ELSEWHERE - {"batches"} <= seen


@pytest.mark.slow
def test_a_report_of_models_has_the_same_decisions_as_a_job(http: httpx.Client) -> None:
    body = {"models": {"a": P.tolist(), "b": (P**1.3).tolist()}, "labels": Y.tolist(), "costs": [1, 4]}
    headers = {"Accept": "text/html"}
    at_once = http.post("/compare", json=body, headers=headers)
    as_job = http.post("/compare", json=body, headers=headers | {"Prefer": "respond-async, wait=60"})
    assert 'id="report-decisions"' in at_once.text
    assert _undated(as_job.text) == _undated(at_once.text)


def _undated(html: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?|\d+ \w+ \d{4}, \d\d:\d\d UTC", "", html)
