from __future__ import annotations

import io
import json
from typing import Any

import httpx
import numpy as np
import pytest

import calibrant
from calibrant.client import Calibrant
from tests.integration.responses import body_of, result_of
from tests.rows import draw_event

RANDOM = np.random.default_rng(1)
LOGITS = 4.0 * RANDOM.standard_normal((900, 3))
LABELS = (LOGITS / 2.0 + RANDOM.gumbel(size=LOGITS.shape)).argmax(axis=1)
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
BODY: dict[str, Any] = {"predictions": PROBS.tolist(), "labels": LABELS.tolist()}


def _post(http: httpx.Client, path: str, body: Any) -> httpx.Response:
    return http.post(path, content=json.dumps(body).encode(), headers={"Content-Type": "application/json"})


@pytest.mark.parametrize(
    ("method", "reduction", "options"),
    [
        ("temperature", None, {}),
        ("temperature", "canonical", {}),
        ("platt", "classwise", {"renormalise": False, "target_smoothing": False}),
        ("isotonic", "ranks", {"n_ranks": 2, "keep_order": True}),
        ("beta", "top-label", {}),
    ],
)
def test_a_map_of_the_vector_is_that_of_a_notebook(
    http: httpx.Client, client: Calibrant, method: str, reduction: str | None, options: dict[str, Any]
) -> None:
    record = body_of(_post(http, "/maps", BODY | {"method": method, "reduction": reduction, "options": options}), 201)
    local = calibrant.fit(method, PROBS, LABELS, reduction=reduction, **options)
    assert record["reduction"] == local.reduction
    assert record["document"] == local.to_document()
    answer = _post(http, "/calibrate", {"map": record["id"], "predictions": BODY["predictions"]})
    np.testing.assert_array_equal(answer.json()["predictions"], local.apply(PROBS))
    np.testing.assert_array_equal(client.calibrate(record["id"], PROBS), local.apply(PROBS))
    report = _post(http, "/evaluate", BODY | {"map": record["id"], "measures": ["brier", "ece"]}).json()
    assert report["reduction"] == "confidence"
    assert report["after"]["measures"]["brier"]["value"] < report["measures"]["brier"]["value"]
    # On the rows of its fit, the gain of a map is estimated by cross-validation.
    assert report["in_sample"] is True
    assert report["improvement"]["log-loss"]["definition"]["cross_fitted"] is True


@pytest.mark.slow
def test_a_long_fit_of_every_class_is_a_job(http: httpx.Client, client: Calibrant) -> None:
    queued = _post(http, "/maps", BODY | {"method": "pl", "reduction": "classwise", "options": {"candidates": [1, 2]}})
    local = calibrant.fit("pl", PROBS, LABELS, reduction="classwise", candidates=(1, 2))
    np.testing.assert_allclose(
        client.calibrate(result_of(client, queued)["map"], PROBS), local.apply(PROBS), atol=1e-12
    )


CLUSTERS = [f"patient {i // 5}" for i in range(len(LABELS))]


@pytest.mark.slow
def test_clusters_stay_in_one_fold_at_once_and_in_a_job(http: httpx.Client, client: Calibrant) -> None:
    fit = BODY | {"method": "multinomial", "clusters": CLUSTERS}
    record = _post(http, "/maps", fit).json()
    local = calibrant.fit("multinomial", PROBS, LABELS, clusters=CLUSTERS)
    assert record["document"] == local.to_document()
    apart = calibrant.fit("multinomial", PROBS, LABELS)
    assert local.diagnostics["held_out_log_loss"] != apart.diagnostics["held_out_log_loss"]
    event = {"predictions": PROBS[:, 1].tolist(), "labels": (LABELS == 1).astype(int).tolist(), "clusters": CLUSTERS}
    batch = _post(http, "/batches", event).json()["id"]
    of_batch = client.fit("pl", batch, options={"candidates": [2]})
    curve = calibrant.fit("pl", PROBS[:, 1], LABELS == 1, clusters=CLUSTERS, candidates=(2,))
    np.testing.assert_allclose(client.calibrate(of_batch.id, PROBS[:, 1]), curve.apply(PROBS[:, 1]), atol=1e-12)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"group_folds": True}, "/group_folds"),
        ({"clusters": ["a"] * len(LABELS)}, "/clusters"),
        ({"clusters": CLUSTERS[1:]}, "/clusters"),
        ({"clusters": [*CLUSTERS[1:], ""]}, f"/clusters/{len(LABELS) - 1}"),
        ({"clusters": list(range(len(LABELS)))}, "/clusters/0"),
        ({"clusters": "patient"}, "/clusters"),
    ],
)
def test_clusters_that_cannot_be_folds_are_refused(http: httpx.Client, fields: dict[str, Any], pointer: str) -> None:
    problem = _post(http, "/maps", BODY | {"method": "multinomial"} | fields).json()
    assert problem["status"] == 422
    assert problem["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/maps", BODY | {"method": "platt", "reduction": "canonical"}, ("unknown-reduction", "/reduction")),
        ("/maps", BODY | {"method": "platt", "options": {"n_ranks": 1}}, ("invalid-option", "/options")),
        (
            "/maps",
            BODY | {"method": "platt", "reduction": "ranks", "options": {"n_ranks": 0}},
            ("invalid-option", "/options/n_ranks"),
        ),
        (
            "/maps",
            BODY | {"method": "platt", "reduction": "classwise", "labels": [0] * len(LABELS)},
            ("missing-class", "/labels"),
        ),
        ("/maps", BODY | {"method": "pl", "reduction": "classwise", "labels": [0] * 900}, ("missing-class", "/labels")),
        (
            "/maps",
            {"method": "temperature", "predictions": [[0.9, 0.1], [0.2, 0.8]], "labels": [0, 1]},
            ("not-converged", ""),
        ),
        (
            "/maps",
            {"method": "platt", "reduction": "classwise", "predictions": [0.2, 0.8], "labels": [0, 1]},
            ("unknown-reduction", "/reduction"),
        ),
    ],
)
def test_a_failed_fit_is_a_problem_and_stores_nothing(
    http: httpx.Client, path: str, body: Any, expected: tuple[str, str]
) -> None:
    answer = _post(http, path, body | {"name": "half-stored"})
    problem = answer.json()
    pointer = problem["errors"][0]["pointer"] if problem["errors"] else ""
    assert (answer.status_code, problem["type"].removeprefix("/problems/"), pointer) == (422, *expected)
    assert http.get("/maps/half-stored").status_code == 404


def test_a_map_refuses_rows_of_another_shape_or_scale(http: httpx.Client) -> None:
    stored = _post(http, "/maps", BODY | {"method": "temperature"}).json()["id"]
    for predictions, scale, code in [
        ([[0.5, 0.5]], None, "wrong-shape"),
        ([0.5], None, "wrong-shape"),
        ([[1.0, 2.0, 3.0]], None, "out-of-range"),
        ([[1.0, 2.0, 3.0]], "logit", "scale-mismatch"),
    ]:
        body = {"map": stored, "predictions": predictions} | ({} if scale is None else {"scale": scale})
        answer = _post(http, "/calibrate", body)
        assert (answer.status_code, answer.json()["type"]) == (422, f"/problems/{code}")


def test_the_bounds_of_a_venn_abers_map_are_returned_on_request(http: httpx.Client) -> None:
    p, y = PROBS[:, 0], (LABELS == 0).astype(int)
    body = {"predictions": p.tolist(), "labels": y.tolist()}
    stored = _post(http, "/maps", body | {"method": "venn-abers", "options": {"merge": "brier"}}).json()["id"]
    asked = {"map": stored, "predictions": p.tolist()}
    assert "p0" not in _post(http, "/calibrate", asked).json()
    answer = _post(http, "/calibrate", asked | {"bounds": True}).json()
    low, high = calibrant.fit("venn-abers", p, y, merge="brier").bounds(p)
    np.testing.assert_array_equal(answer["p0"], low)
    np.testing.assert_array_equal(answer["p1"], high)
    np.testing.assert_allclose(answer["predictions"], high + (low**2 - high**2) / 2)
    archive = http.post(
        "/calibrate",
        content=json.dumps(asked | {"bounds": True}).encode(),
        headers={"Content-Type": "application/json", "Accept": "application/x-npz"},
    )
    with np.load(io.BytesIO(archive.content), allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["p0"], low)
    other = _post(http, "/maps", body | {"method": "platt"}).json()["id"]
    refused = _post(http, "/calibrate", asked | {"map": other, "bounds": True})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/bounds")


def test_an_option_that_vectors_do_not_have_is_refused_before_a_job_is_queued(http: httpx.Client) -> None:
    refused = _post(http, "/maps", BODY | {"method": "averaged", "options": {"candidates": [1, 2]}})
    assert refused.status_code == 422
    assert [error["pointer"] for error in refused.json()["errors"]] == ["/options/candidates"]


@pytest.mark.slow
def test_a_map_that_does_not_improve_says_so_in_answers_reports_and_on_the_page(
    http: httpx.Client, client: Calibrant
) -> None:
    p, y = draw_event(400)
    record = _post(http, "/maps", {"predictions": p[:200].tolist(), "labels": y[:200].tolist(), "method": "isotonic"})
    fitted = record.json()
    local = calibrant.fit("isotonic", p[:200], y[:200])
    gain = local.diagnostics["held_out_gain"]
    assert local.warning is not None
    assert "does not improve" in local.warning
    assert fitted["warning"] == local.warning
    assert fitted["held_out_gain"] == {
        "score": "log-loss",
        "gain": gain["log_loss"],
        "standard_error": gain["standard_error"],
        "relative": None,
        "folds": 3,
        "rows": 200,
    }
    rows = {"predictions": p[200:].tolist(), "labels": y[200:].tolist(), "map": fitted["id"]}
    assert _post(http, "/evaluate", rows).json()["warning"] == local.warning
    assert client.evaluate(p[200:], y[200:], map=fitted["id"]).warning == local.warning
    assert local.warning in str(calibrant.evaluate(p[200:], y[200:], map=local))
    page = http.post("/evaluate", json=rows, headers={"Accept": "text/html"})
    assert f"Its fit warned: {local.warning}." in page.text
    assert "The cross-fitted log loss does not improve" in http.get(f"/ui/maps/{fitted['id']}").text
    helpful = _post(http, "/maps", {"predictions": (p**3).tolist(), "labels": y.tolist(), "method": "platt"}).json()
    assert helpful["warning"] is None
    assert helpful["held_out_gain"]["gain"] > 0.0
    assert "warning" not in _post(http, "/evaluate", rows | {"map": helpful["id"]}).json()
