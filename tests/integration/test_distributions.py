"""Predictive distributions over HTTP: evaluations, batches, maps, and what is refused."""

from __future__ import annotations

import io
import json
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import calibrant
from backend.store.store import Store
from calibrant.client import Calibrant, ProblemResponse
from calibrant.core.errors import CalibrationError
from calibrant.distributions.maps.distribution_map import DistributionMap
from service.stack import Stack
from tests.integration.clients import Kind, connected
from tests.integration.responses import body_of, problem_of
from tests.known import known
from tests.packed import arrow, npy, npz, parquet

REGRESSION = {"prediction_kind": "regression"}
LEVELS = [0.1, 0.25, 0.5, 0.75, 0.9]
KINDS = ("normal", "quantiles", "samples", "interval")
NPZ, ARROW, PARQUET = "application/x-npz", "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"


def _rows(kind: str, n: int = 90, seed: int = 0) -> dict[str, Any]:
    """Forecasts that are too narrow, and their outcomes."""
    random = np.random.default_rng(seed)
    centre = random.normal(size=n)
    kinds: dict[str, dict[str, Any]] = {
        "normal": {"mean": centre, "variance": np.linspace(0.2, 0.6, n)},
        "quantiles": {"quantiles": centre[:, None] + np.linspace(-0.9, 0.9, len(LEVELS)), "levels": np.array(LEVELS)},
        "samples": {"samples": centre[:, None] + random.normal(size=(n, 7)) * 0.5},
        "interval": {"lower": centre - 0.8, "upper": centre + 0.8, "level": 0.9},
    }
    return {"observed": centre + random.normal(size=n), **kinds[kind]}


def _json(rows: dict[str, Any]) -> dict[str, Any]:
    plain = {name: column.tolist() if isinstance(column, np.ndarray) else column for name, column in rows.items()}
    return REGRESSION | plain


def _evaluate(api: httpx.Client, body: dict[str, Any], status: int = 200) -> dict[str, Any]:
    response = api.post("/evaluate", json=body)
    assert response.status_code == status, response.text
    report: dict[str, Any] = response.json()
    return report


# --- Evaluations


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_is_that_of_the_library(api: httpx.Client, kind: str) -> None:
    rows = _rows(kind)
    extra: dict[str, Any] = {
        "weights": np.arange(90) % 3,
        "groups": ["a", "b", "c"] * 30,
        "clusters": [str(i // 5) for i in range(90)],
    }
    options: dict[str, Any] = {"interval": 0.9, "seed": 3}
    report = _evaluate(api, _json({**rows, **extra}) | options)
    expected = calibrant.evaluate_distribution(**rows, **extra, **options).to_dict()
    assert (report["kind"], report["n"]) == (kind, 60)
    assert report["measures"] == json.loads(json.dumps(expected["measures"]))
    assert {name: group["n"] for name, group in report["groups"].items()} == {"b": 30, "c": 30}


def test_measures_have_options_and_names_of_their_own(api: httpx.Client) -> None:
    asked = [{"name": "coverage", "level": 0.5, "as": "half"}, "crps"]
    report = _evaluate(api, _json(_rows("normal")) | {"measures": asked})
    assert list(report["measures"]) == ["half", "crps"]
    assert report["measures"]["half"]["definition"]["level"] == 0.5


def test_coverage_is_measured_by_a_column(api: httpx.Client) -> None:
    rows, horizon = _rows("normal"), [float(i % 3) for i in range(90)]
    request = {"name": "conditional-coverage", "by": "column"}
    expected = calibrant.evaluate_distribution(**rows, by=horizon, measures=[request]).to_dict()["measures"]
    body = _json(rows) | {"by": [str(hours) for hours in horizon], "measures": [request]}
    assert _evaluate(api, body)["measures"] == expected
    missing = _evaluate(api, _json(rows) | {"measures": [request]})["measures"]["conditional-coverage"]
    assert missing["value"] is None
    assert "needs its values" in missing["problem"]
    many = {"by": [f"site {i}" for i in range(1001)], "measures": [request]}
    refused = _evaluate(api, _json(_rows("normal", 1001)) | many)["measures"]["conditional-coverage"]
    assert "at most 1000 groups" in refused["problem"]


def test_every_format_gives_the_same_answer(api: httpx.Client) -> None:
    rows = _rows("quantiles")
    columns = {f"q{level}": rows["quantiles"][:, i] for i, level in enumerate(LEVELS)} | {"observed": rows["observed"]}
    lines = [",".join(columns), *(",".join(map(repr, map(float, row))) for row in zip(*columns.values(), strict=True))]
    bodies = {
        NPZ: npz(**rows),
        ARROW: arrow(columns),
        PARQUET: parquet(columns),
        "text/csv": "\n".join(lines).encode(),
    }
    expected = _evaluate(api, _json(rows))
    for media, body in bodies.items():
        response = api.post("/evaluate", params=REGRESSION, content=body, headers={"Content-Type": media})
        assert response.status_code == 200, (media, response.text)
        assert response.json() == expected, media


def test_the_level_of_intervals_is_in_the_query_or_in_the_archive(api: httpx.Client) -> None:
    rows = _rows("interval")
    arrays = {name: rows[name] for name in ("observed", "lower", "upper")}
    headers = {"Content-Type": NPZ}
    expected = _evaluate(api, _json(rows))
    in_query = api.post("/evaluate", params=REGRESSION | {"level": "0.9"}, content=npz(**arrays), headers=headers)
    inside = api.post("/evaluate", params=REGRESSION, content=npz(**arrays | {"level": np.array(0.9)}), headers=headers)
    assert in_query.json() == inside.json() == expected
    twice = api.post("/evaluate", params=REGRESSION | {"level": "0.9"}, content=npz(**rows), headers=headers)
    assert problem_of(twice) == (422, "invalid-field", "?level")
    two = api.post("/evaluate", params=REGRESSION, content=npz(**arrays | {"level": np.full(2, 0.9)}), headers=headers)
    assert problem_of(two) == (422, "wrong-shape", "/level")


def test_quantiles_that_cross_by_rounding_are_repaired_and_counted(api: httpx.Client) -> None:
    rows = _rows("quantiles")
    rows["quantiles"][4] = [1.0, 2.0, 2.0 - 1e-9, 3.0, 4.0]
    report = _evaluate(api, _json(rows))
    assert report["n_repaired"] == 1
    assert report["measures"]["crps"]["value"] is not None


def test_a_fit_counts_repaired_crossings(api: httpx.Client) -> None:
    rows = {"observed": [0.5] * 20, "levels": [0.2, 0.8], "quantiles": [[1.0, 1.0 - 1e-9]] + [[0.0, 1.0]] * 19}
    fitted = body_of(api.post("/maps", json=REGRESSION | rows | {"method": "conformal"}), 201)
    assert fitted["document"]["diagnostics"]["n_repaired"] == 1


def test_bodies_without_the_field_are_of_classifiers(api: httpx.Client) -> None:
    rows = {"predictions": [0.1, 0.4, 0.6, 0.9], "labels": [0, 1, 0, 1]}
    stated = _evaluate(api, rows | {"prediction_kind": "classification"})
    assert stated == _evaluate(api, rows)
    assert api.post("/batches", json=rows).json()["prediction_kind"] == "classification"


# --- What is refused

GOOD = {"observed": [1.0, 2.0, 3.0], "mean": [1.0, 2.0, 2.0], "variance": [1.0, 1.0, 1.0]}
Q = {"observed": [1.0, 2.0], "quantiles": [[0.0, 1.0], [1.0, 2.0]], "levels": [0.25, 0.75]}
INTERVAL = {"observed": [1.0, 2.0], "lower": [0.0, 1.0], "upper": [2.0, 3.0], "level": 0.9}


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        (GOOD | {"variance": [1.0, 0.0, -1.0]}, "invalid-variance", "/variance/1"),
        ({"observed": [1.0, 2.0], "mean": [1.0, 2.0], "std": [1.0, 0.0]}, "invalid-variance", "/std/1"),
        (Q | {"quantiles": [[0.0, 1.0], [2.0, 1.0]]}, "crossing-quantiles", "/quantiles/1"),
        (INTERVAL | {"lower": [0.0, 9.0]}, "crossing-quantiles", "/upper/1"),
        (GOOD | {"std": [1.0, 1.0, 1.0]}, "invalid-field", "/std"),
        (GOOD | {"quantiles": [[1.0], [1.0], [1.0]], "levels": [0.5]}, "invalid-option", ""),
        (GOOD | {"level": 0.9}, "invalid-option", ""),
        (INTERVAL | {"level": 1.0}, "invalid-field", "/level"),
        (INTERVAL | {"level": True}, "invalid-field", "/level"),
        ({"observed": [1.0]}, "invalid-field", ""),
        ({"mean": [1.0], "variance": [1.0]}, "invalid-field", "/observed"),
        (GOOD | {"observed": [1.0, 2.0]}, "length-mismatch", "/observed"),
        (GOOD | {"variance": [1.0]}, "length-mismatch", "/variance"),
        (GOOD | {"observed": [1.0, "2", 3.0]}, "not-a-number", "/observed/1"),
        (GOOD | {"observed": [1.0, True, 3.0]}, "not-a-number", "/observed/1"),
        (GOOD | {"mean": [[1.0], [2.0], [3.0]]}, "wrong-shape", "/mean"),
        (GOOD | {"weights": [1.0, -1.0, 1.0]}, "invalid-weight", "/weights/1"),
        (GOOD | {"groups": ["a", "b"]}, "length-mismatch", "/groups"),
        (GOOD | {"clusters": [1, 2, 3]}, "not-a-number", "/clusters/0"),
        (Q | {"levels": [0.75, 0.25]}, "out-of-range", "/levels"),
        (Q | {"levels": [0.25]}, "length-mismatch", "/levels"),
        (Q | {"quantiles": [[0.0, 1.0], [1.0]]}, "wrong-shape", "/quantiles/1"),
        (Q | {"quantiles": 3}, "wrong-shape", "/quantiles"),
        (GOOD | {"predictions": [0.1, 0.2, 0.3]}, "invalid-field", "/predictions"),
        (GOOD | {"labels": [0, 1, 1]}, "invalid-field", "/labels"),
        (GOOD | {"reduction": "binary"}, "invalid-field", "/reduction"),
        (GOOD | {"measures": ["ece"]}, "unknown-measure", "/measures/0"),
        (GOOD | {"measures": [{"name": "coverage", "level": 2}]}, "invalid-option", "/measures/0/level"),
        (GOOD | {"seed": -1}, "invalid-field", "/seed"),
        (GOOD | {"observed": [], "mean": [], "variance": []}, "empty-batch", "/mean"),
        (GOOD | {"prediction_kind": "distribution"}, "invalid-field", "/prediction_kind"),
        (GOOD | {"prediction_kind": ["regression"]}, "invalid-field", "/prediction_kind"),
        (GOOD | {"prediction_kind": None}, "invalid-field", "/prediction_kind"),
    ],
)
def test_invalid_rows_are_refused_where_they_are(
    api: httpx.Client, body: dict[str, Any], code: str, pointer: str
) -> None:
    assert problem_of(api.post("/evaluate", json=REGRESSION | body)) == (422, code, pointer)


def test_fields_of_the_other_kind_are_named_with_it(api: httpx.Client) -> None:
    rows = {"predictions": [0.1, 0.9], "labels": [0, 1], "observed": [1.0, 2.0]}
    refused = api.post("/evaluate", json=rows)
    assert problem_of(refused) == (422, "invalid-field", "/observed")
    assert "regression" in refused.json()["detail"]


@pytest.mark.parametrize("kind", ["Regression", None, 1, ["regression"]])
def test_an_unknown_kind_is_refused_with_both_that_are_known(api: httpx.Client, kind: object) -> None:
    answer = api.post("/evaluate", json={"mean": [0.0], "std": [1.0], "observed": [0.0], "prediction_kind": kind})
    errors = [{"pointer": "/prediction_kind", "detail": "must be classification or regression"}]
    assert (answer.status_code, answer.json()["errors"]) == (422, errors)


def test_numbers_that_are_not_finite_are_refused_in_every_format(api: httpx.Client) -> None:
    for name in ("observed", "mean", "variance"):
        arrays = {key: np.array(content) for key, content in GOOD.items()}
        arrays[name][1] = np.inf
        sent = api.post("/evaluate", params=REGRESSION, content=npz(**arrays), headers={"Content-Type": NPZ})
        assert problem_of(sent) == (422, "not-finite", f"/{name}/1")
    csv = b"observed,mean,std\n1,1,1\n2,nan,1\n"
    sent = api.post("/evaluate", params=REGRESSION, content=csv, headers={"Content-Type": "text/csv"})
    assert sent.status_code == 422
    assert sent.json()["errors"][0]["pointer"] == "/mean/1"


def test_an_npy_body_is_refused(api: httpx.Client) -> None:
    sent = api.post(
        "/evaluate", params=REGRESSION, content=npy(np.ones(3)), headers={"Content-Type": "application/x-npy"}
    )
    assert problem_of(sent)[:2] == (415, "unsupported-media-type")


def test_values_of_the_caller_are_never_echoed(api: httpx.Client) -> None:
    sent = api.post(
        "/evaluate", json=REGRESSION | GOOD | {"variance": [1.0, -8675309.25, 1.0], "groups": ["s3cret"] * 3}
    )
    assert sent.status_code == 422
    assert "8675309" not in sent.text
    assert "s3cret" not in sent.text


# --- Batches


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_evaluated_as_its_rows_are(api: httpx.Client, kind: str) -> None:
    rows = _rows(kind) | {"groups": np.array(["a", "b"] * 45), "weights": np.ones(90)}
    record = body_of(api.post("/batches", json=_json(rows)), 201)
    assert (record["prediction_kind"], record["n"], record["scale"]) == ("regression", 90, None)
    assert record["forecasts"]["kind"] == kind
    assert record["n_repaired"] == 0
    assert _evaluate(api, REGRESSION | {"batch": record["id"]}) == _evaluate(api, _json(rows))


def test_rows_are_appended_only_to_a_batch_of_the_same_shape(api: httpx.Client) -> None:
    rows = _rows("quantiles", 10)
    rows["quantiles"][2, 1] = rows["quantiles"][2, 0] - 1e-12
    batch = api.post("/batches", json=_json(rows)).json()["id"]
    more = body_of(api.post(f"/batches/{batch}/rows", json=_json(rows)))
    assert (more["n"], more["n_repaired"]) == (20, 2)
    assert _evaluate(api, REGRESSION | {"batch": batch})["n_repaired"] == 2
    other = rows | {"levels": np.array([0.1, 0.25, 0.5, 0.75, 0.95])}
    assert problem_of(api.post(f"/batches/{batch}/rows", json=_json(other)))[1:] == ("invalid-field", "/levels")
    kind = api.post(f"/batches/{batch}/rows", json=_json(_rows("normal", 10)))
    assert problem_of(kind)[:2] == (422, "invalid-field")
    labels = api.post(f"/batches/{batch}/rows", json={"predictions": [0.5]})
    assert problem_of(labels)[1:] == ("prediction-kind-mismatch", "/prediction_kind")


def test_a_batch_of_the_other_kind_is_refused(api: httpx.Client) -> None:
    forecasts = api.post("/batches", json=_json(_rows("normal"))).json()["id"]
    classes = api.post("/batches", json={"predictions": [0.1, 0.9], "labels": [0, 1]}).json()["id"]
    mismatch = (422, "prediction-kind-mismatch", "/batch")
    assert problem_of(api.post("/evaluate", json={"batch": forecasts})) == mismatch
    assert problem_of(api.post("/evaluate", json=REGRESSION | {"batch": classes})) == mismatch
    assert problem_of(api.post("/maps", json={"method": "platt", "batch": forecasts})) == mismatch
    assert problem_of(api.post("/maps", json=REGRESSION | {"batch": classes})) == mismatch
    assert problem_of(api.post("/diagrams", json={"diagram": "reliability", "batch": forecasts}))[1] == mismatch[1]
    twice = api.post("/evaluate", json=_json(_rows("normal")) | {"batch": forecasts})
    assert problem_of(twice) == (422, "invalid-field", "/batch")


def test_a_batch_without_outcomes_is_calibrated_but_not_evaluated(api: httpx.Client) -> None:
    rows = _rows("normal")
    map_id = api.post("/maps", json=_json(rows) | {"method": "variance-scaling"}).json()["id"]
    batch = api.post("/batches", json=_json({name: rows[name] for name in ("mean", "variance")})).json()["id"]
    assert problem_of(api.post("/evaluate", json=REGRESSION | {"batch": batch})) == (422, "invalid-field", "/observed")
    calibrated = body_of(api.post("/calibrate", json=REGRESSION | {"batch": batch, "map": map_id}))
    assert len(calibrated["variance"]) == 90


# --- Maps


@pytest.mark.parametrize(
    ("kind", "method", "returned"),
    [
        ("normal", "variance-platt", "normal"),
        ("normal", "quantile-recalibration", "quantiles"),
        ("quantiles", "location-scale", "quantiles"),
        ("samples", "location-scale", "quantiles"),
        ("interval", "conformal", "interval"),
    ],
)
def test_a_fitted_map_is_that_of_the_library(
    api: httpx.Client, store: Store, kind: str, method: str, returned: str
) -> None:
    rows = _rows(kind)
    record = body_of(api.post("/maps", json=_json(rows) | {"method": method, "name": "ensemble"}), 201)
    expected = calibrant.fit_distribution(method, **rows)
    assert calibrant.load_distribution(record["document"]) == expected
    assert (record["prediction_kind"], record["version"], record["n"]) == ("regression", 1, 90)
    assert (record["accepts"]["kind"], record["returns"]["kind"]) == (kind, returned)
    gain = record["held_out_gain"]
    assert gain == expected.diagnostics["held_out_gain"]
    assert gain["gain"] > 0.0
    assert record["digest"] == expected.training_digest
    assert api.get("/maps/ensemble").json() == record
    assert api.get("/maps/ensemble:1/document").json() == record["document"]
    forecasts = {name: column for name, column in rows.items() if name != "observed"}
    _compare(body_of(api.post("/calibrate", json=_json(forecasts) | {"map": "ensemble"})), expected, forecasts)


def _compare(answer: dict[str, Any], expected: DistributionMap, forecasts: dict[str, Any]) -> None:
    applied = expected.apply(**forecasts)
    for name in ("mean", "variance", "quantiles", "levels", "lower", "upper"):
        if name in answer:
            np.testing.assert_allclose(answer[name], getattr(applied, name), rtol=1e-14)
    assert answer["n_repaired"] == 0
    assert {"mean", "quantiles", "lower"} & set(answer)


def test_a_gain_beyond_all_scale_is_unknown_and_its_map_is_read_again(api: httpx.Client) -> None:
    rows = {"mean": [0.0] * 31, "std": [1e-3, 2e-3] * 15 + [1e-3], "prediction_kind": "regression"}
    fitted = api.post("/maps", json={**rows, "observed": [1e150] + [-5e149, 2e149] * 15, "method": "variance-isotonic"})
    assert fitted.status_code == 201, fitted.text
    assert fitted.json()["held_out_gain"] is None
    again = api.get(f"/maps/{fitted.json()['id']}")
    assert again.json() == fitted.json()
    assert api.get("/maps").status_code == 200


def test_calibrated_quantiles_come_in_every_format(api: httpx.Client) -> None:
    rows = _rows("quantiles")
    api.post("/maps", json=_json(rows) | {"method": "location-scale", "name": "m"}).raise_for_status()
    forecasts = {name: rows[name] for name in ("quantiles", "levels")}
    body = _json(forecasts) | {"map": "m"}
    plain = api.post("/calibrate", json=body).json()
    arrays = np.load(io.BytesIO(api.post("/calibrate", json=body, headers={"Accept": NPZ}).content))
    np.testing.assert_array_equal(arrays["quantiles"], plain["quantiles"])
    np.testing.assert_array_equal(arrays["levels"], LEVELS)
    stream = api.post("/calibrate", json=body, headers={"Accept": ARROW})
    table = pa.ipc.open_stream(stream.content).read_all()
    assert table.column_names == [f"q{level}" for level in LEVELS]
    again = api.post(
        "/calibrate", params=REGRESSION | {"map": "m"}, content=stream.content, headers={"Content-Type": ARROW}
    )
    assert again.status_code == 200
    intervals = _rows("interval")
    api.post("/maps", json=_json(intervals) | {"method": "conformal", "name": "i"}).raise_for_status()
    body = _json({name: intervals[name] for name in ("lower", "upper", "level")}) | {"map": "i"}
    assert api.post("/calibrate", json=body).json()["level"] == 0.9
    assert np.load(io.BytesIO(api.post("/calibrate", json=body, headers={"Accept": NPZ}).content))["level"] == [0.9]


def test_a_map_and_its_rows_must_be_of_the_same_kind(api: httpx.Client) -> None:
    rows = _rows("normal")
    api.post("/maps", json=_json(rows) | {"method": "variance-scaling", "name": "normal"}).raise_for_status()
    classes = {"predictions": [0.1, 0.3, 0.6, 0.9], "labels": [0, 1, 0, 1]}
    api.post("/maps", json=classes | {"method": "platt", "name": "spam"}).raise_for_status()
    mismatch = (422, "prediction-kind-mismatch", "/map")
    assert problem_of(api.post("/calibrate", json={"predictions": [0.5], "map": "normal"})) == mismatch
    assert problem_of(api.post("/evaluate", json=classes | {"map": "normal"})) == mismatch
    assert problem_of(api.post("/evaluate", json=classes | {"maps": ["normal"]}))[1] == mismatch[1]
    assert problem_of(api.post("/evaluate", json=_json(rows) | {"map": "spam"})) == mismatch
    forecasts = {"mean": [0.0], "variance": [1.0]}
    assert problem_of(api.post("/calibrate", json=REGRESSION | forecasts | {"map": "spam"})) == mismatch
    assert problem_of(api.post("/monitors", json={"name": "m", "map": "normal"})) == mismatch
    assert api.get("/v2/models/normal").status_code == 404
    quantiles = {"quantiles": [[0.0, 1.0]], "levels": [0.1, 0.9]}
    other = api.post("/calibrate", json=REGRESSION | quantiles | {"map": "normal"})
    assert problem_of(other) == (422, "wrong-shape", "/quantiles")
    extra = api.post("/calibrate", json=REGRESSION | forecasts | {"map": "normal", "observed": [1.0]})
    assert problem_of(extra) == (422, "invalid-field", "/observed")


def test_a_name_keeps_the_shape_of_its_forecasts(api: httpx.Client) -> None:
    rows = _json(_rows("normal")) | {"name": "ensemble"}
    api.post("/maps", json=rows | {"method": "variance-scaling"}).raise_for_status()
    refused = api.post("/maps", json=rows | {"method": "quantile-recalibration"})
    assert problem_of(refused)[:2] == (409, "output-shape-changed")
    allowed = api.post("/maps", json=rows | {"method": "quantile-recalibration", "allow_shape_change": True})
    assert allowed.json()["version"] == 2
    api.put("/maps/ensemble/aliases/champion", json={"version": 1}).raise_for_status()
    assert api.get("/maps/ensemble@champion").json()["method"] == "variance-scaling"
    listed = api.get("/maps", params={"name": "ensemble"}).json()["items"]
    assert [record["returns"]["kind"] for record in listed] == ["quantiles", "normal"]


@pytest.mark.parametrize(
    ("options", "code", "pointer"),
    [
        ({"method": "platt"}, "unknown-method", "/method"),
        ({"method": "conformal", "options": {"ties": "no"}}, "invalid-option", "/options/ties"),
        ({"method": "conformal", "options": {"depth": 3}}, "invalid-option", "/options"),
        ({"method": "variance-scaling", "scale": "log1p"}, "invalid-option", "/scale"),
        ({"method": "variance-scaling", "scale": "logit"}, "invalid-field", "/scale"),
        ({"method": "variance-scaling", "support": [0, None]}, "invalid-option", "/support"),
        ({"method": "quantile-recalibration", "support": [1, 0]}, "invalid-option", "/support"),
        ({"method": "conformal", "output_levels": [0.1, 0.8]}, "invalid-option", "/output_levels"),
        ({"method": "conformal", "output_levels": [2.0]}, "invalid-field", "/output_levels/0"),
        ({"method": "variance-scaling", "name": "map_x"}, "invalid-field", "/name"),
    ],
)
def test_invalid_options_of_a_fit_are_refused(
    api: httpx.Client, options: dict[str, Any], code: str, pointer: str
) -> None:
    assert problem_of(api.post("/maps", json=_json(_rows("normal")) | options)) == (422, code, pointer)


def test_a_map_is_imported_from_its_document_and_from_no_other(api: httpx.Client) -> None:
    rows = _rows("quantiles")
    document = calibrant.fit_distribution("averaged", **rows).to_document()
    record = body_of(api.post("/maps/import", json={"document": document, "name": "imported"}), 201)
    assert (record["imported"], record["accepts"]["levels"], record["n"]) == (True, LEVELS, None)
    forecasts = {name: rows[name] for name in ("quantiles", "levels")}
    answer = api.post("/calibrate", json=_json(forecasts) | {"map": "imported"}).json()
    expected = calibrant.load_distribution(document).apply(**forecasts)
    np.testing.assert_array_equal(answer["quantiles"], expected.quantiles)
    broken = [
        document | {"prediction_kind": "classification"},
        document | {"prediction_kind": None},
        document | {"kind": "interval"},
        document | {"levels": None},
        document | {"levels": [0.5, 0.1, 0.2, 0.3, 0.4]},
        document | {"family": "platt"},
        document | {"parameters": {}},
        document | {"support": [1.0, -1.0]},
        document | {"method": "x" * 100},
    ]
    for changed in broken:
        refused = api.post("/maps/import", json={"document": changed})
        assert problem_of(refused)[:2] == (422, "invalid-document"), changed
        assert refused.json()["errors"][0]["pointer"].startswith("/document")
    large = calibrant.fit_distribution("location-scale", **_rows("normal")).to_document()
    large["parameters"] = {"shift": 1e308, "factor": 1e308, "scale": "identity"}
    assert problem_of(api.post("/maps/import", json={"document": large}))[1:] == (
        "invalid-document",
        "/document/parameters/factor",
    )


def test_an_evaluation_with_a_map_measures_before_and_after_it(api: httpx.Client) -> None:
    rows, new = _rows("normal"), _rows("normal", seed=1)
    api.post("/maps", json=_json(rows) | {"method": "variance-scaling", "name": "wider"}).raise_for_status()
    own = _evaluate(api, _json(rows) | {"map": "wider"})
    other = _evaluate(api, _json(new) | {"map": "wider", "groups": ["a", "b"] * 45})
    assert (own["in_sample"], other["in_sample"]) == (True, False)
    assert other["after"]["measures"]["crps"]["value"] < other["measures"]["crps"]["value"]
    assert set(other["after"]["groups"]) == {"a", "b"}
    few = {name: column[:3] for name, column in rows.items()}
    api.post("/maps", json=_json(few) | {"method": "conformal", "name": "few"}).raise_for_status()
    assert api.get("/maps/few").json()["document"]["diagnostics"]["warning"]
    bounds = api.post("/calibrate", json=_json({name: few[name] for name in ("mean", "variance")}) | {"map": "few"})
    assert bounds.json()["quantiles"][0][0] is None
    refused = api.post("/evaluate", json=_json(rows) | {"map": "few"})
    assert problem_of(refused) == (422, "invalid-option", "/map")


def test_a_map_with_functions_by_value_needs_the_values(api: httpx.Client) -> None:
    rows = _rows("normal") | {"by": ["1", "2"] * 45}
    api.post("/maps", json=_json(rows) | {"method": "variance-scaling", "name": "horizons"}).raise_for_status()
    forecasts: dict[str, Any] = {"mean": [0.0, 0.0, 0.0], "variance": [1.0, 1.0, 1.0]}
    assert problem_of(api.post("/calibrate", json=REGRESSION | forecasts | {"map": "horizons"}))[1:] == (
        "length-mismatch",
        "/by",
    )
    answer = api.post("/calibrate", json=REGRESSION | forecasts | {"map": "horizons", "by": ["1", "2", "new"]}).json()
    expected = calibrant.fit_distribution("variance-scaling", **rows).apply(**forecasts, by=["1", "2", "new"])
    np.testing.assert_array_equal(answer["variance"], expected.variance)


# --- Jobs, the catalogue and the page


def test_a_long_fit_and_evaluation_run_as_jobs_with_the_same_results(service: Stack) -> None:
    with httpx.Client(base_url=service.url, timeout=600) as http:
        prefer = {"Prefer": "respond-async"}
        rows = _rows("quantiles")
        queued = http.post("/evaluate", json=_json(rows), headers=prefer)
        assert queued.status_code == 202, queued.text
        ended = http.get(queued.headers["Location"], headers={"Prefer": "wait=600"}).json()
        assert ended["status"] == "succeeded", ended
        assert ended["result"]["report"] == _evaluate(http, _json(rows))
        page = http.get(f"/jobs/{ended['id']}", headers={"Accept": "text/html"})
        assert page.status_code == 200
        batch = http.post("/batches", json=_json(rows)).json()["id"]
        fit = REGRESSION | {"batch": batch, "method": "averaged", "name": "averaged-by-job"}
        fitted = body_of(http.post("/maps", json=fit, headers={"Prefer": "respond-async, wait=600"}), 201)
        expected = calibrant.fit_distribution("averaged", **rows)
        assert calibrant.load_distribution(fitted["document"]) == expected
        assert fitted["held_out_gain"] == expected.diagnostics["held_out_gain"]
        after = http.post("/evaluate", json=_json(rows) | {"map": fitted["id"]}, headers=prefer)
        ended = http.get(after.headers["Location"], headers={"Prefer": "wait=600"}).json()
        assert ended["result"]["report"]["in_sample"] is True


@pytest.mark.parametrize(
    ("n", "groups", "measure"),
    [
        (20_000, 0, "decomposition"),
        (4_000, 900, "quantile-calibration-error"),
        (4_000, 900, "recalibration-improvement"),
        (4_000, 900, "conditional-coverage"),
    ],
)
def test_a_measure_that_takes_long_for_its_rows_or_groups_runs_as_a_job(
    api: httpx.Client, n: int, groups: int, measure: str
) -> None:
    body = REGRESSION | {"observed": list(range(n)), "mean": list(range(n)), "variance": [1.0] * n}
    body |= {"groups": [str(i % groups) for i in range(n)]} if groups else {}
    queued = api.post("/evaluate", json=body | {"measures": [measure]})
    assert queued.status_code == 202, queued.text
    assert api.delete(queued.headers["Location"]).status_code in (200, 409)


@pytest.mark.parametrize("client_kind", ["sync", pytest.param("async", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_client_does_what_the_library_does(service: Stack, client_kind: Kind, kind: str) -> None:
    rows = _rows(kind)
    forecasts = {name: column for name, column in rows.items() if name != "observed"}
    method = "location-scale"
    expected = calibrant.fit_distribution(method, **rows)
    with connected(client_kind, service.url) as client:
        options: dict[str, Any] = {
            "measures": ["coverage", {"name": "coverage", "level": 0.5, "as": "half"}],
            "seed": 3,
        }
        report = client.evaluate_distribution(**rows, **options, groups=["a", "b"] * 45)
        library = calibrant.evaluate_distribution(**rows, **options, groups=["a", "b"] * 45)
        assert {key: estimate.value for key, estimate in report.measures.items()} == {
            key: estimate.value for key, estimate in library.measures.items()
        }
        assert list(known(report.groups)) == ["a", "b"]
        fitted = client.fit_distribution(method, **rows)
        assert calibrant.load_distribution(client.export_map(fitted.id)) == expected
        assert known(fitted.held_out_gain).gain == expected.diagnostics["held_out_gain"]["gain"]
        applied, wanted = client.calibrate_distribution(fitted.id, **forecasts), expected.apply(**forecasts)
        assert applied.kind == wanted.kind
        for name in ("mean", "variance", "quantiles", "levels", "lower", "upper", "level"):
            np.testing.assert_array_equal(getattr(applied, name), getattr(wanted, name))
        batch = client.upload_distribution(**rows, ttl=600)
        grown = client.append_distribution(batch.id, **rows, key=f"{client_kind}-{kind}")
        assert (batch.n, grown.n) == (90, 180)
        after = known(client.evaluate_distribution(batch=batch.id, map=fitted.id).after)
        assert after.kind == wanted.kind
        by_job = client.fit_distribution(
            "averaged", batch=batch.id, support=(-50.0, None) if kind != "normal" else (None, None)
        )
        assert by_job.n == 180
        with pytest.raises(ProblemResponse, match="a batch of regression"):
            client.evaluate(batch.id)
        with pytest.raises(TypeError, match="predictions"):
            client.evaluate_distribution([0.0], predictions=[0.5])  # type: ignore[call-arg]


def test_a_report_of_the_client_is_shown_like_that_of_the_library(service: Stack) -> None:
    rows = _rows("normal")
    groups = ["a", "b"] * 45
    with Calibrant(service.url) as client:
        map_id = client.fit_distribution("variance-scaling", **rows).id
        report = client.evaluate_distribution(**rows, groups=groups, measures=["crps", "coverage"], map=map_id)
    expected = calibrant.evaluate_distribution(**rows, groups=groups, measures=["crps", "coverage"])
    assert report["crps"].value == expected["crps"].value
    assert list(report) == ["crps", "coverage"]
    assert known(report.groups)["a"]["crps"].value == expected.groups["a"]["crps"].value  # type: ignore[index]
    assert known(report.after)["coverage"].value != report["coverage"].value
    before, after = repr(report).split("\nAfter the map:\n")
    assert before == repr(expected)
    assert after.startswith("Report: 90 rows, normal\n")
    assert report._repr_html_().count("<table>") == 2
    pd.testing.assert_frame_equal(report.to_frame(), expected.to_frame())


def test_the_catalogues_list_each_kind(api: httpx.Client) -> None:
    catalogues: dict[str, Any] = {
        "/measures": calibrant.DISTRIBUTION_MEASURES,
        "/methods": calibrant.DISTRIBUTION_METHODS,
        "/diagrams": calibrant.DISTRIBUTION_DIAGRAMS,
    }
    for path, names in catalogues.items():
        catalogue = api.get(path, params=REGRESSION).json()
        assert [entry["name"] for entry in catalogue["items"]] == list(names)
        assert {entry["prediction_kind"] for entry in catalogue["items"]} == {"regression"}
        default = api.get(path).json()
        assert default == api.get(path, params={"prediction_kind": "classification"}).json()
        assert {entry["prediction_kind"] for entry in default["items"]} == {"classification"}
        assert problem_of(api.get(path, params={"prediction_kind": "x"}))[1:] == ("invalid-field", "?prediction_kind")


@pytest.mark.slow
def test_the_page_shows_maps_and_batches_of_regression(service: Stack) -> None:
    html = {"Accept": "text/html"}
    with httpx.Client(base_url=service.url, timeout=600) as http:
        rows = _json(_rows("normal"))
        batch = http.post("/batches", json=rows).json()["id"]
        map_id = http.post("/maps", json=rows | {"method": "variance-scaling", "name": "on-the-page"}).json()["id"]
        for path in ("/ui/maps", "/ui/maps/on-the-page", f"/ui/maps/{map_id}", "/ui/reports", "/ui/jobs"):
            page = http.get(path, headers=html)
            assert page.status_code == 200, path
            assert "None" not in page.text, path
        classes = http.post("/batches", json={"predictions": [0.1, 0.9], "labels": [0, 1]}).json()["id"]
        assert "on-the-page" not in http.get(f"/ui/reports/{classes}", headers=html).text
        assert 'type="radio" name="map" value="on-the-page:1"' in http.get(f"/ui/reports/{batch}", headers=html).text
        assert http.get(f"/maps/{map_id}/diagram.svg").status_code == 404


# --- In the order of time


def _season(kind: str, n: int = 90) -> tuple[dict[str, Any], dict[str, list[str]], list[int]]:
    """Forecasts with outcomes, their times as text, and horizons; the last outcomes are not known yet."""
    days = np.datetime64("2026-01-01") + np.arange(n) // 3
    horizon = [i % 3 for i in range(n)]
    known = [str(day + 1 + h) for day, h in zip(days, horizon, strict=True)]
    known[-6:] = [""] * 6
    return _rows(kind, n), {"times": [str(day) for day in days], "known": known}, horizon


def _in_library(kind: str, **how: Any) -> calibrant.AdaptiveForecasts:
    rows, times, horizon = _season(kind)
    return calibrant.recalibrate_in_order(
        made=times["times"], known=times["known"], horizon=horizon, half_life=7.0, **rows, **how
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["json", "npz"])
def test_forecasts_are_recalibrated_in_the_order_of_time_as_by_the_library(
    api: httpx.Client, kind: str, form: str
) -> None:
    rows, times, horizon = _season(kind)
    texts = {**times, "by": [str(step) for step in horizon]}
    how = {"half_life": 7.0, "shift": 0.5}
    if form == "json":
        response = api.post("/calibrate", json=_json({**rows, **texts}) | {"in_order": how})
    else:
        arrays = {**rows, **{name: np.array(column) for name, column in texts.items()}}
        level = {"level": arrays.pop("level")} if "level" in arrays else {}
        query = REGRESSION | {"in_order": json.dumps(how)} | level
        response = api.post("/calibrate", content=npz(**arrays), params=query, headers={"Content-Type": NPZ})
    assert response.status_code == 200, response.text
    answer, wanted = response.json(), _in_library(kind, shift=0.5)
    assert "map" not in answer
    assert answer["n_known"] == wanted.n_known.tolist()
    assert max(answer["n_known"]) > 10
    for name in ("shifts", "factors"):
        np.testing.assert_array_equal(answer[name], getattr(wanted, name))
    for name in ("mean", "variance", "quantiles", "lower", "upper"):
        if answer.get(name) is not None:
            np.testing.assert_array_equal(answer[name], getattr(wanted.forecasts, name))


@pytest.mark.parametrize("client_kind", ["sync", "async"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_client_recalibrates_in_the_order_of_time_as_the_library(
    service: Stack, client_kind: Kind, kind: str
) -> None:
    rows, times, horizon = _season(kind)
    observed = np.where([text == "" for text in times["known"]], np.nan, rows.pop("observed"))
    wanted = _in_library(kind, support=(-50.0, 50.0))
    with connected(client_kind, service.url) as client:
        corrected = client.recalibrate_in_order(
            pd.Series(observed),
            pd.to_datetime(pd.Series(times["times"])),
            pd.to_datetime(pd.Series(times["known"])),
            horizon=horizon,
            half_life=pd.Timedelta("7D"),
            support=(-50.0, 50.0),
            **rows,
        )
        with pytest.raises(CalibrationError, match="known must be numbers, like made"):
            client.recalibrate_in_order([1.0], [1], ["2026-01-01"], half_life=1.0, mean=[0.0], variance=[1.0])
    np.testing.assert_array_equal(corrected.n_known, wanted.n_known)
    np.testing.assert_allclose(corrected.factors, wanted.factors, rtol=1e-9)
    assert corrected.forecasts.kind == wanted.forecasts.kind


def test_an_arrow_answer_has_the_corrections_as_columns(api: httpx.Client) -> None:
    rows, times, _ = _season("quantiles")
    body = _json({**rows, **times}) | {"in_order": {"half_life": 7}}
    answer = api.post("/calibrate", json=body, headers={"Accept": ARROW})
    table = pa.ipc.open_stream(answer.content).read_all()
    assert table.column_names == ["q0.1", "q0.25", "q0.5", "q0.75", "q0.9", "shifts", "factors", "n_known"]


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"in_order": {}}, "invalid-field", "/in_order/half_life"),
        ({"in_order": {"half_life": 0}}, "invalid-field", "/in_order/half_life"),
        ({"in_order": {"half_life": 7, "shift": 2}}, "invalid-field", "/in_order/shift"),
        ({"in_order": {"half_life": 7, "speed": 2}}, "invalid-field", "/in_order/speed"),
        ({"in_order": {"half_life": 7, "support": [1]}}, "invalid-field", "/in_order/support"),
        ({"in_order": {"half_life": 7, "support": [2, 1]}}, "invalid-option", "/in_order/support"),
        ({"in_order": {"half_life": 7, "scale": "log1p"}}, "invalid-option", "/in_order/scale"),
        ({"in_order": None}, "invalid-field", "/map"),
        ({"in_order": 7}, "invalid-field", "/in_order"),
        ({"prediction_kind": None}, "invalid-field", "/prediction_kind"),
        ({"map": "m"}, "invalid-field", "/map"),
        ({"batch": "batch_x"}, "invalid-field", "/batch"),
        ({"observed": None}, "invalid-field", "/observed"),
        ({"times": None}, "invalid-field", "/times"),
        ({"known": None}, "invalid-field", "/known"),
        ({"known": ["1", "2"]}, "length-mismatch", "/known"),
        ({"known": ["1", "1", ""]}, "out-of-range", "/known/1"),
        ({"known": ["2026-01-01", "", ""]}, "not-a-number", "/known"),
        ({"known": ["inf", "", ""]}, "not-finite", "/known/0"),
        ({"known": [1, 2, 3]}, "not-a-number", "/known/0"),
        ({"times": ["a", "b", "c"]}, "not-a-number", "/times"),
        ({"times": ["", "1", "2"]}, "not-a-number", "/times"),
        ({"times": ["nan", "1", "2"]}, "not-finite", "/times/0"),
        ({"by": ["a", "b", "c"]}, "not-a-number", "/by"),
        ({"by": ["1", "nan", "2"]}, "not-finite", "/by/1"),
        ({"observed": [1.0, 2.0]}, "length-mismatch", "/observed"),
        ({"weights": [1.0, 1.0, 1.0]}, "invalid-field", "/weights"),
    ],
)
def test_invalid_requests_in_the_order_of_time_are_refused(
    api: httpx.Client, changes: dict[str, Any], code: str, pointer: str
) -> None:
    body: dict[str, Any] = {
        **REGRESSION,
        "in_order": {"half_life": 7},
        "observed": [1.0, 2.0, 0.0],
        "times": ["0", "1", "2"],
        "known": ["1", "2", ""],
        "mean": [0.0, 0.0, 0.0],
        "variance": [1.0, 1.0, 1.0],
    }
    sent = {name: content for name, content in {**body, **changes}.items() if content is not None}
    assert problem_of(api.post("/calibrate", json=sent)) == (422, code, pointer)


def test_times_at_which_outcomes_became_known_are_of_no_other_request(api: httpx.Client) -> None:
    body = _json(_rows("normal")) | {"known": ["1"] * 90}
    for path, extra in (("/evaluate", {}), ("/batches", {}), ("/maps", {}), ("/diagrams", {"diagram": "pit"})):
        assert problem_of(api.post(path, json=body | extra)) == (422, "invalid-field", "/known")


def test_a_recalibration_that_would_take_long_is_refused_at_once(api: httpx.Client) -> None:
    n = 45_000
    arrays = {
        "mean": np.zeros(n),
        "variance": np.ones(n),
        "observed": np.zeros(n),
        "times": np.arange(n).astype("U6"),
        "known": np.arange(1, n + 1).astype("U6"),
    }
    query = REGRESSION | {"in_order": json.dumps({"half_life": 1e6})}
    answer = api.post("/calibrate", content=npz(**arrays), params=query, headers={"Content-Type": NPZ})
    assert problem_of(answer) == (413, "too-large", "")
    assert "fewer rows" in answer.json()["detail"]
