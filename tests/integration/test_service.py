from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import httpx
import numpy as np
import pytest

import calibrant
from calibrant.client import Calibrant, JobFailed, ProblemResponse
from tests.integration.responses import body_of, problem_of, result_of
from tests.known import known
from tests.packed import npz, zipped

RANDOM = np.random.default_rng(0)
TRUE = RANDOM.random(3000)
P, Y = TRUE**1.5, (RANDOM.random(3000) < TRUE).astype(int)
PROBS = RANDOM.dirichlet([0.5] * 4, 1200)
BAD_CANDIDATES: list[tuple[str, Any]] = [
    *[("pl", []), ("pl", [1, 1]), ("pl", [0]), ("pl", [True]), ("pl", [1.5]), ("pl", ["1"]), ("pl", [[1]])],
    *[("pl", [{}]), ("pl", 3), ("pl", "3"), ("pl", {"1": 1}), ("pl3", list(range(1, 66))), ("averaged", [65])],
]
LABELS = np.array([RANDOM.choice(4, p=row**0.5 / (row**0.5).sum()) for row in PROBS])


def _post(http: httpx.Client, path: str, body: Any, kind: str = "application/json", **query: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return http.post(path, content=content, headers={"Content-Type": kind}, params=query)


def test_a_batch_is_evaluated_fitted_and_calibrated_from_end_to_end(client: Calibrant) -> None:
    fit_half, unseen = client.upload(P[:1500], Y[:1500]), client.upload(P[1500:], Y[1500:])
    assert (fit_half.n, fit_half.n_classes) == (1500, None)
    before = client.evaluate(unseen.id)
    assert before.measures["ece"].value == calibrant.evaluate(P[1500:], Y[1500:]).measures["ece"].value
    seen: list[str] = []
    stored = client.fit(
        "pl3", fit_half.id, name="end-to-end", timeout=600, progress=lambda job: seen.append(job.status)
    )
    assert seen[-1] == "succeeded"
    assert (stored.name, stored.version, stored.method, stored.n) == ("end-to-end", 1, "pl3", 1500)
    local = calibrant.load(stored.document)
    np.testing.assert_array_equal(client.calibrate("end-to-end", P[1500:]), local.apply(P[1500:]))
    after = client.evaluate(unseen.id, map="end-to-end:1")
    assert after.map == stored.id
    assert after.after is not None
    assert (after.after.measures["ece"].value or 1) < (before.measures["ece"].value or 0) / 2
    gained = known(calibrant.evaluate(P[1500:], Y[1500:], map=local).improvement)
    assert known(after.improvement)["brier"].value == gained["brier"].value
    assert before.improvement is None


def test_a_fit_in_the_service_is_the_fit_in_a_notebook(client: Calibrant) -> None:
    batch = client.upload(PROBS, LABELS)
    wanted: dict[str, dict[str, Any]] = {
        "platt": {},
        "update": {},
        "isotonic": {},
        "pl": {"folds": 5, "candidates": [1, 2, 3]},
    }
    for method, options in wanted.items():
        stored = client.fit(method, batch.id, options=options, seed=3, timeout=600)
        local = calibrant.fit(method, PROBS, LABELS, seed=3, **options)
        np.testing.assert_allclose(client.calibrate(stored.id, PROBS), local.apply(PROBS), atol=1e-12)
        assert stored.reduction == "confidence"


def test_a_known_prior_is_corrected_in_the_service_as_in_a_notebook(http: httpx.Client, client: Calibrant) -> None:
    batch = client.upload(P, Y)
    stored = client.fit("prior-shift", batch.id, options={"kept_negatives": 0.1})
    assert (stored.held_out_gain, stored.warning) == (None, None)
    np.testing.assert_allclose(client.calibrate(stored.id, P), calibrant.shift_prior(P, kept_negatives=0.1), rtol=1e-13)
    weights = [1.0, 2.0, 3.0, 4.0]
    stored = client.fit("prior-shift", PROBS, LABELS, options={"class_weights": weights})
    expected = calibrant.shift_prior(PROBS, class_weights=weights)
    np.testing.assert_allclose(client.calibrate(stored.id, PROBS), expected, rtol=1e-12)
    refused: list[tuple[dict[str, Any], str]] = [
        ({}, "/options"),
        ({"new_rate": 0.1, "kept_negatives": 0.1}, "/options/kept_negatives"),
        ({"rate": 0.1, "kept_negatives": 0.1}, "/options/rate"),
        ({"new_rate": [0.5, 0.5]}, "/options/new_rate"),
    ]
    for options, pointer in refused:
        answer = _post(http, "/maps", {"batch": batch.id, "method": "prior-shift", "options": options})
        assert problem_of(answer) == (422, "invalid-option", pointer)


def test_a_fit_without_a_method_is_the_average(http: httpx.Client, client: Calibrant) -> None:
    batch = client.upload(P, Y)
    fitted = result_of(client, _post(http, "/maps", {"batch": batch.id, "options": {"candidates": [1, 2]}}))
    local = calibrant.fit("averaged", P, Y, candidates=(1, 2))
    np.testing.assert_allclose(client.calibrate(fitted["map"], P), local.apply(P), atol=1e-12)


@pytest.mark.slow
def test_a_measure_that_is_a_fit_is_a_job_and_its_report_that_of_a_notebook(
    http: httpx.Client, client: Calibrant
) -> None:
    fitted = client.fit("platt", client.upload(P, Y).id)
    body = {"predictions": P.tolist(), "labels": Y.tolist(), "groups": ["a", "b"] * (len(P) // 2), "map": fitted.id}
    asked: list[str | dict[str, Any]] = ["ece-averaged", {"name": "ece-pl3", "norm": 2, "candidates": [3, 1]}, "ks"]
    queued = _post(http, "/evaluate", body | {"measures": asked, "interval": 0.9})
    assert queued.status_code == 202
    assert queued.headers["Location"] == f"/jobs/{queued.json()['id']}"
    assert queued.json()["kind"] == "evaluate"
    job = client.wait(queued.json()["id"], timeout=600)
    report = known(job.result)["report"]
    local = calibrant.evaluate(P, Y, measures=asked, interval=0.9)
    for key, estimate in local.measures.items():
        assert report["measures"][key]["value"] == pytest.approx(estimate.value, abs=1e-12)
        assert report["measures"][key]["debiased"] == pytest.approx(estimate.debiased, abs=1e-12)
        assert report["measures"][key]["interval"] == pytest.approx(estimate.interval, abs=1e-12)
    assert set(report["groups"]) == {"a", "b"}
    assert report["map"] == fitted.id
    assert report["after"]["measures"]["ece-averaged"]["value"] is not None


def test_a_list_of_an_option_travels_in_a_query_and_comes_back_in_the_definition(
    http: httpx.Client, client: Calibrant
) -> None:
    asked = {"name": "ece-pl", "candidates": [2, 4], "folds": 3}
    queued = _post(
        http,
        "/evaluate",
        npz(predictions=P[:600], labels=Y[:600]),
        "application/x-npz",
        measures=json.dumps([asked]),
    )
    estimate = result_of(client, queued)["report"]["measures"]["ece-pl"]
    assert estimate["definition"].items() >= asked.items()
    calibrated = calibrant.fit("pl", P[:600], Y[:600], candidates=[2, 4], folds=3).apply(P[:600])
    assert estimate["value"] == pytest.approx(np.mean(np.abs(calibrated - P[:600])), abs=1e-12)
    refused = _post(
        http,
        "/evaluate",
        npz(predictions=P[:600], labels=Y[:600]),
        "application/x-npz",
        measures=json.dumps([asked | {"candidates": [2, 2]}]),
    )
    assert problem_of(refused) == (422, "invalid-option", "?measures")


def test_the_catalogue_of_measures_describes_every_option_of_a_fit(http: httpx.Client) -> None:
    measures = {measure["name"]: measure["options"] for measure in http.get("/measures").json()["items"]}
    for method in http.get("/methods").json()["items"]:
        if f"ece-{method['name']}" in measures:
            own = measures[f"ece-{method['name']}"]
            assert {
                name: option for name, option in method["options"].items() if name != "folds"
            }.items() <= own.items()
            assert all(option["allowed"] for option in own.values())


def test_an_evaluation_that_cannot_be_run_is_refused_before_it_is_queued(http: httpx.Client) -> None:
    body = {"predictions": P.tolist(), "labels": Y.tolist(), "measures": ["ece-pl"]}
    assert problem_of(_post(http, "/evaluate", body | {"groups": ["a"]}))[:2] == (422, "length-mismatch")
    assert problem_of(_post(http, "/evaluate", body | {"interval": 0.9, "map": "nowhere"}))[:2] == (
        422,
        "unknown-map-reference",
    )
    four = _post(http, "/maps", {"method": "identity", "predictions": PROBS.tolist(), "labels": LABELS.tolist()}).json()
    two = {"predictions": [[0.2, 0.8], [0.6, 0.4]], "labels": [1, 0], "measures": ["ece-pl"], "map": four["id"]}
    refused = problem_of(_post(http, "/evaluate", two | {"reduction": "confidence"}))
    assert refused == (422, "wrong-shape", "/predictions")


def test_json_and_npz_bodies_give_the_same_report(http: httpx.Client) -> None:
    as_json = _post(
        http, "/evaluate", {"predictions": P.tolist(), "labels": Y.tolist(), "measures": ["ks", "ece"], "interval": 0.9}
    )
    as_npz = _post(
        http, "/evaluate", npz(predictions=P, labels=Y), "application/x-npz", measures="ks,ece", interval="0.9"
    )
    assert as_json.status_code == as_npz.status_code == 200
    assert as_json.json() == as_npz.json()
    structured = json.dumps([{"name": "ece", "n_bins": 5}])
    five = _post(http, "/evaluate", npz(predictions=P, labels=Y), "application/x-npz", measures=structured)
    assert five.json()["measures"]["ece"]["definition"]["n_bins"] == 5


def test_diagrams_are_drawn_as_in_a_notebook(http: httpx.Client, client: Calibrant) -> None:
    asked: list[str | dict[str, Any]] = ["corp", "ks-graphs", {"name": "reliability", "n_bins": 8, "as": "eight"}]
    fitted = client.fit("platt", client.upload(P, Y).id)
    local = calibrant.evaluate(P, Y, diagrams=asked, measures=["ks"])
    body = {"predictions": P.tolist(), "labels": Y.tolist(), "measures": ["ks"], "diagrams": asked}
    report = body_of(_post(http, "/evaluate", body | {"map": fitted.id}))
    assert report["diagrams"] == local.diagrams
    after = calibrant.evaluate(calibrant.load(fitted.document).apply(P).tolist(), Y, diagrams=asked)
    assert report["after"]["diagrams"] == after.diagrams
    assert "diagrams" not in _post(http, "/evaluate", body | {"diagrams": None}).json()
    rows = npz(predictions=P, labels=Y)
    named = _post(http, "/evaluate", rows, "application/x-npz", diagrams="corp, ks-graphs").json()
    assert named["diagrams"] == {key: local.diagrams[key] for key in ("corp", "ks-graphs")}
    structured = _post(http, "/evaluate", rows, "application/x-npz", diagrams=json.dumps(asked)).json()
    assert structured["diagrams"] == local.diagrams
    classwise = client.evaluate(client.upload(PROBS, LABELS).id, diagrams=asked, reduction="classwise")
    assert all(d.data is None and d.problem for d in known(classwise.diagrams).values())


@pytest.mark.slow
def test_a_diagram_that_is_a_fit_is_a_job(http: httpx.Client, client: Calibrant) -> None:
    asked: list[str | dict[str, Any]] = [{"name": "fit-on-test", "method": "pl3", "folds": 5}, "logit-logit"]
    queued = _post(http, "/evaluate", {"predictions": P.tolist(), "labels": Y.tolist(), "diagrams": asked})
    drawn = result_of(client, queued)["report"]["diagrams"]
    local = calibrant.evaluate(P, Y, diagrams=asked).diagrams
    assert drawn["logit-logit"] == local["logit-logit"]
    for field in ("calibrated", "low", "high", "alpha_1", "alpha_2"):
        np.testing.assert_allclose(drawn["fit-on-test"]["data"][field], local["fit-on-test"]["data"][field], atol=1e-12)


def test_fortran_order_big_endian_and_narrow_arrays_are_read(http: httpx.Client) -> None:
    plain = _post(http, "/evaluate", npz(predictions=PROBS, labels=LABELS), "application/x-npz").json()
    odd = npz(predictions=np.asfortranarray(PROBS.astype(">f8")), labels=LABELS.astype(np.uint8))
    assert _post(http, "/evaluate", odd, "application/x-npz").json() == plain


def test_groups_and_weights_are_sent_with_the_rows(http: httpx.Client) -> None:
    body = {
        "predictions": [0.1, 0.9, 0.4, 0.6],
        "labels": [0, 1, 0, 1],
        "weights": [1, 2, 1, 1],
        "groups": list("abab"),
    }
    report = _post(http, "/evaluate", body).json()
    assert set(report["groups"]) == {"a", "b"}
    assert report["groups"]["a"]["n"] == 2
    numbered = _post(http, "/evaluate", body | {"groups": ["10", "9", "10", "9"]}).json()
    assert list(numbered["groups"]) == ["9", "10"]


def test_clipped_and_renormalised_rows_are_reported(http: httpx.Client) -> None:
    report = _post(http, "/evaluate", {"predictions": [1.00001, 0.5], "labels": [1, 0]}).json()
    assert (report["clipped"], report["renormalised"]) == (1, 0)


def test_a_batch_can_be_read_and_deleted(http: httpx.Client, client: Calibrant) -> None:
    batch = client.upload(P, scale="probability")
    assert http.get(f"/batches/{batch.id}").json()["arrays"] == ["predictions"]
    assert problem_of(_post(http, "/evaluate", {"batch": batch.id})) == (422, "invalid-field", "/labels")
    assert http.delete(f"/batches/{batch.id}").status_code == 204
    assert problem_of(http.get(f"/batches/{batch.id}"))[:2] == (404, "unknown-batch")
    assert problem_of(_post(http, "/evaluate", {"batch": batch.id}))[:2] == (422, "unknown-batch-reference")


def test_logits_are_taken_as_logits_and_never_guessed(http: httpx.Client) -> None:
    logits = np.log(P / (1 - P))
    body = {"predictions": logits.tolist(), "labels": Y.tolist(), "method": "platt"}
    assert problem_of(_post(http, "/maps", body))[:2] == (422, "out-of-range")
    stored = _post(http, "/maps", body | {"scale": "logit", "name": "on-logits"}).json()
    assert stored["scale"] == "logit"
    call = {"map": "on-logits", "predictions": [0.3]}
    assert _post(http, "/calibrate", call).status_code == 200
    assert problem_of(_post(http, "/calibrate", call | {"scale": "probability"}))[:2] == (422, "scale-mismatch")


NAN = b'{"predictions": [0.1, NaN], "labels": [0, 1]}'
GOOD: dict[str, Any] = {"predictions": [0.1, 0.9], "labels": [0, 1]}


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/evaluate", NAN, (400, "malformed-json", "")),
        ("/evaluate", b"{", (400, "malformed-json", "")),
        ("/evaluate", b"", (400, "malformed-json", "")),
        ("/evaluate", b"\xff\xfe", (400, "malformed-json", "")),
        ("/evaluate", b"[" * 100_000, (413, "too-large", "")),
        ("/evaluate", b"[1]", (422, "invalid-field", "")),
        ("/evaluate", {}, (422, "invalid-field", "/predictions")),
        ("/evaluate", {"predictions": [0.1]}, (422, "invalid-field", "/labels")),
        ("/evaluate", GOOD | {"predictions": [0.1, 1.2]}, (422, "out-of-range", "/predictions/1")),
        ("/evaluate", GOOD | {"predictions": [0.1, None]}, (422, "not-a-number", "/predictions/1")),
        ("/evaluate", GOOD | {"predictions": [0.1, True]}, (422, "not-a-number", "/predictions/1")),
        ("/evaluate", GOOD | {"predictions": ["0.1", 0.2]}, (422, "not-a-number", "/predictions/0")),
        ("/evaluate", GOOD | {"predictions": "0.1"}, (422, "wrong-shape", "/predictions")),
        ("/evaluate", GOOD | {"predictions": [[0.1, 0.9], [0.2]]}, (422, "wrong-shape", "/predictions/1")),
        ("/evaluate", GOOD | {"predictions": [[0.1, 0.9], 0.2]}, (422, "not-a-number", "/predictions/0")),
        ("/evaluate", GOOD | {"labels": [0, 2]}, (422, "invalid-label", "/labels/1")),
        ("/evaluate", GOOD | {"labels": [0]}, (422, "length-mismatch", "/labels")),
        ("/evaluate", GOOD | {"labels": [False, 1]}, (422, "not-a-number", "/labels/0")),
        ("/evaluate", {"predictions": [], "labels": []}, (422, "empty-batch", "/predictions")),
        ("/evaluate", GOOD | {"weights": [1, -1]}, (422, "invalid-weight", "/weights/1")),
        ("/evaluate", GOOD | {"groups": ["a", 1]}, (422, "not-a-number", "/groups/1")),
        ("/evaluate", GOOD | {"groups": ["a"]}, (422, "length-mismatch", "/groups")),
        ("/evaluate", GOOD | {"groups": ["a" * 300, "b"]}, (422, "invalid-option", "/groups/0")),
        ("/evaluate", GOOD | {"groups": ["a", "a\0"]}, (422, "invalid-option", "/groups/1")),
        ("/evaluate", GOOD | {"measures": ["ks"] * 129}, (422, "invalid-option", "/measures")),
        ("/evaluate", GOOD | {"measures": ["x"]}, (422, "unknown-measure", "/measures/0")),
        ("/evaluate", GOOD | {"measures": "ece"}, (422, "invalid-field", "/measures")),
        ("/evaluate", GOOD | {"diagrams": ["x"]}, (422, "unknown-diagram", "/diagrams/0")),
        ("/evaluate", GOOD | {"diagrams": "corp"}, (422, "invalid-field", "/diagrams")),
        (
            "/evaluate",
            GOOD | {"diagrams": [{"name": "corp", "level": 2}]},
            (422, "invalid-option", "/diagrams/0/level"),
        ),
        ("/evaluate", GOOD | {"reduction": "x"}, (422, "unknown-reduction", "/reduction")),
        ("/evaluate", GOOD | {"map": "nothing"}, (422, "unknown-map-reference", "/map")),
        ("/evaluate", GOOD | {"batch": "batch_x"}, (422, "invalid-field", "/batch")),
        ("/evaluate", {"batch": "batch_x"}, (422, "unknown-batch-reference", "/batch")),
        ("/evaluate", GOOD | {"bogus": 1}, (422, "invalid-field", "/bogus")),
        ("/evaluate", GOOD | {"interval": "0.9"}, (422, "invalid-field", "/interval")),
        ("/evaluate", GOOD | {"interval": 1.0}, (422, "invalid-field", "/interval")),
        ("/evaluate", GOOD | {"scale": "percents"}, (422, "invalid-field", "/scale")),
        ("/maps", GOOD, (422, "too-few-rows", "/predictions")),
        ("/maps", GOOD | {"method": "x"}, (422, "unknown-method", "/method")),
        ("/maps", GOOD | {"method": "pl", "options": {"folds": 0}}, (422, "invalid-option", "/options/folds")),
        ("/maps", GOOD | {"method": "pl", "options": {"x": 0}}, (422, "invalid-option", "/options")),
        ("/maps", GOOD | {"method": "platt", "name": "map_x"}, (422, "invalid-field", "/name")),
        ("/maps", GOOD | {"method": "platt", "name": "a\n"}, (422, "invalid-field", "/name")),
        ("/maps", GOOD | {"method": "platt", "name": "a b"}, (422, "invalid-field", "/name")),
        ("/maps", GOOD | {"method": "platt", "seed": -1}, (422, "invalid-field", "/seed")),
        ("/maps", {"method": "platt", "predictions": [0.1, 0.2], "labels": [1, 1]}, (422, "one-class", "/labels")),
        (
            "/maps",
            {"method": "pl3", "predictions": [0.1, 0.2], "labels": [1, 1]},
            (422, "too-few-rows", "/predictions"),
        ),
        (
            "/maps",
            {"method": "pl3", "predictions": [i / 9 for i in range(9)], "labels": [0, 1, 0, 1, 0, 1, 0, 1, 0]},
            (422, "too-few-rows", "/predictions"),
        ),
        ("/maps", {"method": "pl", "predictions": [0.1] * 20, "labels": [1] * 20}, (422, "one-class", "/labels")),
        ("/maps", {"predictions": [0.1] * 20, "labels": [0, 1] * 10}, (422, "one-prediction", "/predictions")),
        ("/maps", GOOD | {"options": {"folds": 1}}, (422, "invalid-option", "/options/folds")),
        (
            "/evaluate",
            GOOD | {"measures": [{"name": "ece-pl", "folds": 1}]},
            (422, "invalid-option", "/measures/0/folds"),
        ),
        *(
            (
                "/evaluate",
                GOOD | {"measures": ["ks", {"name": f"ece-{method}", "candidates": candidates}]},
                (422, "invalid-option", "/measures/1/candidates"),
            )
            for method, candidates in BAD_CANDIDATES
        ),
        (
            "/evaluate",
            GOOD | {"diagrams": [{"name": "fit-on-test", "method": "pl", "options": {"candidates": [2, 2]}}]},
            (422, "invalid-option", "/diagrams/0/options/candidates"),
        ),
        ("/calibrate", {"map": "nothing", "predictions": [0.1]}, (422, "unknown-map-reference", "/map")),
        ("/calibrate", {"predictions": [0.1]}, (422, "invalid-field", "/map")),
        (
            "/maps",
            {"method": "pl", "predictions": [0.1, 0.9] * 10, "labels": [0, 1] * 10, "weights": [1, 0] * 10},
            (422, "one-class", "/labels"),
        ),
        ("/batches", {"labels": [1]}, (422, "invalid-field", "/predictions")),
    ],
)
def test_bad_input_gets_a_problem_that_names_the_place(
    http: httpx.Client, path: str, body: Any, expected: tuple[int, str, str]
) -> None:
    assert problem_of(_post(http, path, body)) == expected


def _bomb() -> bytes:
    file = io.BytesIO()
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**28,)})
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("predictions.npy", "w", force_zip64=True) as member,
    ):
        member.write(header.getvalue())
        for _ in range(2**28 * 8 // 2**24):
            member.write(bytes(2**24))
    return file.getvalue()


def _forged_shape() -> bytes:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**60,)})
    return zipped({"predictions.npy": header.getvalue() + bytes(64)})


def _objects() -> bytes:
    return npz(predictions=np.array([print], dtype=object), labels=np.array([1]))


def _zipped(content: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    return zipped({"predictions.npy": content}, method)


def _npy_with_header(header: str) -> bytes:
    text = header.encode().ljust(118) + b"\n"
    return _zipped(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)


def _groups_of(unit: int) -> bytes:
    return npz(predictions=[0.1, 0.9], labels=[0, 1], groups=np.full(2, unit, "<u4").view("<U1"))


def _truncated() -> bytes:
    return npz(predictions=P, labels=Y)[:-200]


def _corrupted() -> bytes:
    body = bytearray(npz(predictions=P, labels=Y))
    body[400:420] = bytes(20)
    return bytes(body)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (_bomb, (413, "too-large")),
        (_forged_shape, (400, "malformed-npz")),
        (_objects, (400, "malformed-npz")),
        (_truncated, (400, "malformed-npz")),
        (_corrupted, (400, "malformed-npz")),
        (lambda: _zipped(bytes(1000), zipfile.ZIP_BZIP2), (400, "malformed-npz")),
        (lambda: _zipped(bytes(1000), zipfile.ZIP_LZMA), (400, "malformed-npz")),
        (lambda: _npy_with_header("{[]: 1}"), (400, "malformed-npz")),
        (lambda: _npy_with_header("{'descr': ',f8', 'fortran_order': False, 'shape': (0,)}"), (400, "malformed-npz")),
        (lambda: _npy_with_header("(" * 100), (400, "malformed-npz")),
        (lambda: _groups_of(0xD800), (400, "malformed-npz")),
        (lambda: _groups_of(0x7FFFFFFF), (400, "malformed-npz")),
        (lambda: b"PK", (400, "malformed-npz")),
        (lambda: b"", (400, "malformed-npz")),
        (lambda: npz(predictions=P, labels=Y, extra=P), (400, "malformed-npz")),
        (lambda: npz(predictions=[1 + 2j], labels=[1]), (400, "malformed-npz")),
        (lambda: npz(predictions=[float("nan")], labels=[1]), (422, "not-finite")),
        (lambda: npz(predictions=[float("inf")], labels=[1]), (422, "not-finite")),
        (lambda: npz(predictions=[0.1, 0.2], labels=[0, 1], groups=[1, 2]), (400, "malformed-npz")),
    ],
)
def test_a_hostile_archive_is_refused(http: httpx.Client, make: Any, expected: tuple[int, str]) -> None:
    assert problem_of(_post(http, "/evaluate", make(), "application/x-npz"))[:2] == expected
    assert http.get("/health/ready").status_code == 200


def test_a_query_option_that_is_no_number_is_refused(http: httpx.Client) -> None:
    response = _post(http, "/evaluate", npz(predictions=P, labels=Y), "application/x-npz", seed="x")
    assert problem_of(response) == (422, "invalid-field", "?seed")


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_other_content_types_are_refused(http: httpx.Client, kind: str) -> None:
    assert problem_of(_post(http, "/evaluate", GOOD, kind)) == (415, "unsupported-media-type", "Content-Type:")


def test_unknown_paths_methods_and_ids_are_problems(http: httpx.Client) -> None:
    assert problem_of(http.get("/nothing"))[:2] == (404, "not-found")
    assert problem_of(http.put("/evaluate"))[:2] == (405, "method-not-allowed")
    assert problem_of(http.get("/jobs/job_x"))[:2] == (404, "unknown-job")
    assert problem_of(http.get("/maps/map_x"))[:2] == (404, "unknown-map")
    assert problem_of(http.get("/batches/../../etc"))[0] == 404


def test_pages_of_other_origins_and_hosts_are_refused(http: httpx.Client) -> None:
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Host": "localhost.evil.example"}):
        assert problem_of(http.get("/health/live", headers=headers))[:2] == (403, "foreign-origin")
    for headers in ({"Host": "localhost:1"}, {"Host": "[::1]:80"}, {"Origin": "http://127.0.0.1:8000"}):
        assert http.get("/health/live", headers=headers).status_code == 200


def test_no_problem_repeats_the_callers_data(http: httpx.Client) -> None:
    secret = "patient-4711"
    for body in (
        {"predictions": [secret], "labels": [1]},
        {"predictions": [0.1], "labels": [secret]},
        GOOD | {"map": secret},
        GOOD | {"reduction": secret},
        GOOD | {"measures": [secret]},
        GOOD | {"measures": [{"name": "ece", "n_bins": secret}]},
        GOOD | {"scale": secret},
        GOOD | {"interval": secret},
    ):
        assert secret not in _post(http, "/evaluate", body).text


def test_a_long_fit_answers_its_job_at_once(client: Calibrant, http: httpx.Client) -> None:
    batch = client.upload(P[:50], Y[:50])
    job = _post(http, "/maps", {"method": "pl", "batch": batch.id})
    assert job.status_code == 202
    assert job.headers["location"] == f"/jobs/{job.json()['id']}"
    assert job.headers["retry-after"]
    client.wait(job.json()["id"], timeout=600)
    answered = http.get(job.headers["location"]).json()
    assert set(answered) == {
        "id", "kind", "status", "progress", "created_at", "created_by", "started_at", "finished_at", "expires_at",
        "result", "problem", "method", "map", "batch", "batches",
    }  # fmt: skip
    assert answered["status"] == "succeeded"


def test_the_client_raises_the_problem_with_its_pointer(client: Calibrant) -> None:
    with pytest.raises(ProblemResponse) as caught:
        client.evaluate("batch_nothing")
    assert caught.value.problem.type == "/problems/unknown-batch-reference"
    assert not isinstance(caught.value, JobFailed)


def test_the_catalogues_list_every_measure_method_and_diagram(http: httpx.Client) -> None:
    assert [m["name"] for m in http.get("/measures").json()["items"]] == list(calibrant.MEASURES)
    assert [m["name"] for m in http.get("/methods").json()["items"]] == list(calibrant.METHODS)
    drawn = {d["name"]: d for d in http.get("/diagrams").json()["items"]}
    assert list(drawn) == list(calibrant.DIAGRAMS)
    assert drawn["corp"]["options"] == {"level": {"default": 0.9, "allowed": "a number from 0.5 to 0.999"}}
    assert all(d["runs"] == "inline" and d["source"] and d["data"] for d in drawn.values())


def test_every_reduction_answers_over_http_as_in_a_notebook(http: httpx.Client) -> None:
    body = {"predictions": PROBS.tolist(), "labels": LABELS.tolist(), "measures": ["ece", "ks"], "interval": 0.9}
    for reduction in ("top:2", "within-top:2", "pooled", "classwise", "canonical"):
        answer = body_of(_post(http, "/evaluate", body | {"reduction": reduction, "resamples": 100}))
        local = calibrant.evaluate(
            PROBS, LABELS, measures=["ece", "ks"], interval=0.9, reduction=reduction, resamples=100
        )
        for key, estimate in local.measures.items():
            assert answer["measures"][key]["value"] == pytest.approx(estimate.value, abs=1e-12)
            assert answer["measures"][key]["parts"].keys() == estimate.parts.keys()


def test_chosen_classes_are_evaluated_and_left_out_rows_are_counted(http: httpx.Client) -> None:
    body = {"predictions": PROBS.tolist(), "labels": LABELS.tolist(), "classes": [0, 2]}
    answer = _post(http, "/evaluate", body).json()
    n_rows = int(np.isin(LABELS, [0, 2]).sum())
    assert (answer["n"], answer["left_out"]) == (n_rows, len(LABELS) - n_rows)
    assert problem_of(_post(http, "/evaluate", body | {"classes": [0, 9]})) == (422, "invalid-option", "/classes/1")
    same = _post(http, "/evaluate", npz(predictions=PROBS, labels=LABELS), "application/x-npz", classes="[0, 2]").json()
    assert same["measures"] == answer["measures"]


@pytest.mark.slow
def test_measures_are_pooled_over_groups_as_in_the_library(http: httpx.Client, client: Calibrant) -> None:
    groups = [f"centre {i % 3}" for i in range(len(P))]
    options: dict[str, Any] = {"measures": ["oe-ratio", "auroc"], "interval": 0.9, "resamples": 100}
    local = calibrant.evaluate(P, Y, groups=groups, **options).to_dict()["pooled"]
    body = {"predictions": P.tolist(), "labels": Y.tolist(), "groups": groups} | options
    assert _post(http, "/evaluate", body).json()["pooled"] == local
    answer = client.evaluate(predictions=P, labels=Y, groups=groups, **options)
    assert known(answer.pooled)["oe-ratio"].prediction_interval == tuple(local["oe-ratio"]["prediction_interval"])


def test_a_long_evaluation_is_a_job_with_the_same_answer(http: httpx.Client, client: Calibrant) -> None:
    groups = ["a", "b"] * (len(P) // 2)
    body = {"predictions": P.tolist(), "labels": Y.tolist(), "groups": groups, "interval": 0.9, "resamples": 100}
    quick = body_of(_post(http, "/evaluate", body | {"measures": ["ks-end", "ece-platt"]}))
    assert quick["gaps"]["ks-end"]["between"] is not None
    assert "long" in quick["gaps"]["ece-platt"]["problem"]
    slow = body | {"measures": ["kde-ece"], "resamples": 300}
    report = result_of(client, _post(http, "/evaluate", slow))["report"]
    estimate = calibrant.evaluate(P, Y, groups=groups, measures=["kde-ece"], interval=0.9, resamples=300).measures[
        "kde-ece"
    ]
    assert (report["measures"]["kde-ece"]["value"], tuple(report["measures"]["kde-ece"]["interval"])) == (
        estimate.value,
        estimate.interval,
    )
