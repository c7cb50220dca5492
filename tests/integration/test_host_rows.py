"""Sets, features, groups and seeds in the protocols of a host and of the service."""

from __future__ import annotations

import io
import json
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.http

from service.stack import Stack
from tests.body_formats import CSV, JSON, NPY
from tests.integration.hosting import CLASSES, COUNTRIES, PROBS, SITES, P, ask, host_of, hosted, post
from tests.integration.responses import body_of, text_of
from tests.packed import npy

SOME, FEW, AGES = PROBS[:4], P[:4], (80 * P[:4]).tolist()
WITH_HEADER = f"{CSV}; header=present"
ATTRIBUTES = "x_amzn_sagemaker_custom_attributes"


def _error(response: httpx.Response) -> str:
    assert response.status_code == 400, response.text
    message: str = response.json()["error"]
    return message


# --- Sets


def test_kserve_lists_the_classes_of_each_set() -> None:
    answer = body_of(post(host_of("sets"), "/v1/models/sets:predict", {"instances": SOME}))
    assert answer == {"predictions": hosted()["sets"].apply(SOME).to_lists()}
    assert {name for row in answer["predictions"] for name in row} <= set(CLASSES)
    objects = [dict(zip(CLASSES, row, strict=True)) for row in SOME.tolist()]
    assert post(host_of("sets"), "/v1/models/sets:predict", {"instances": objects}).json() == answer
    numbered = post(host_of("numbers"), "/v1/models/numbers:predict", {"instances": FEW}).json()
    assert numbered == {"predictions": hosted()["numbers"].apply(FEW).to_lists()}


def test_kserve_takes_the_group_of_each_row_and_a_seed() -> None:
    host, expected = host_of("random"), hosted()["random"].apply(SOME, groups=SITES[:4], seed=3)
    rows = [{"predictions": p, "groups": site} for p, site in zip(SOME.tolist(), SITES, strict=False)]
    named = [row | {"predictions": dict(zip(CLASSES, row["predictions"], strict=True))} for row in rows]
    for instances in (rows, named):
        body = {"instances": instances, "parameters": {"seed": 3}}
        assert post(host, "/v1/models/random:predict", body).json() == {"predictions": expected.to_lists()}


def test_the_labels_that_risk_control_chooses_are_those_of_the_library() -> None:
    expected = hosted()["labels"].apply(SOME)
    answer = post(host_of("labels"), "/v1/models/labels:predict", {"instances": SOME}).json()
    assert answer == {"predictions": expected.to_lists()}
    about = ask(host_of("labels"), ("GET", "/v2/models/labels", {}))[0].json()
    assert about["inputs"][0]["shape"] == about["outputs"][0]["shape"] == [-1, 3]


@pytest.mark.parametrize("kind", [JSON, CSV, NPY])
@pytest.mark.parametrize("accept", [JSON, CSV, NPY])
def test_invocations_return_sets_in_every_type(kind: str, accept: str) -> None:
    expected = hosted()["sets"].apply(SOME)
    lines = "".join(f"{','.join(map(repr, row))}\n" for row in SOME.tolist())
    bodies = {JSON: {"instances": SOME}, CSV: lines.encode(), NPY: npy(SOME)}
    response = post(host_of("sets"), "/invocations", bodies[kind], kind, accept=accept)
    assert response.status_code == 200, response.text
    if accept == JSON:
        assert response.json() == {"predictions": expected.to_lists()}
    elif accept == CSV:
        assert np.array_equal(np.loadtxt(io.StringIO(response.text), delimiter=","), expected.members)
    else:
        assert np.array_equal(np.load(io.BytesIO(response.content), allow_pickle=False), expected.members)


def test_a_csv_of_sets_has_a_header_if_the_rows_have_one() -> None:
    lines = "".join(f"{','.join(map(repr, row))},{site}\n" for row, site in zip(SOME.tolist(), SITES, strict=False))
    body = f"predictions.0,predictions.1,predictions.2,groups\n{lines}".encode()
    response = text_of(post(host_of("random"), "/invocations", body, WITH_HEADER, **{ATTRIBUTES: "map=random; seed=3"}))
    header, *rows = response.splitlines()
    assert header == ",".join(CLASSES)
    expected = hosted()["random"].apply(SOME, groups=SITES[:4], seed=3).members
    assert [list(map(int, row.split(","))) for row in rows] == expected.astype(int).tolist()


def _tensors(scores: Any, *others: dict[str, Any], **parameters: Any) -> dict[str, Any]:
    tensor = {"name": "predictions", "shape": list(np.shape(scores)), "datatype": "FP64", "data": np.ravel(scores)}
    return {"inputs": [tensor, *others], "parameters": parameters}


def test_a_set_map_is_a_model_with_members_as_booleans() -> None:
    host, expected = host_of("sets"), hosted()["sets"].apply(SOME).members
    about = ask(host, ("GET", "/v2/models/sets", {}))[0].json()
    assert about["outputs"] == [{"name": "members", "datatype": "BOOL", "shape": [-1, 3]}]
    assert about["parameters"]["alpha"] == "0.1"
    assert json.loads(about["parameters"]["class_names"]) == list(CLASSES)
    (output,) = post(host, "/v2/models/sets/infer", _tensors(SOME)).json()["outputs"]
    assert output == {"name": "members", "shape": [4, 3], "datatype": "BOOL", "data": expected.ravel().tolist()}
    binary = post(host, "/v2/models/sets/infer", _tensors(SOME, binary_data_output=True))
    length = int(binary.headers["inference-header-content-length"])
    assert binary.content[length:] == expected.tobytes()


def test_groups_and_the_seed_are_inputs_of_a_model() -> None:
    host, groups = host_of("random"), {"name": "groups", "shape": [4], "datatype": "BYTES", "data": SITES[:4]}
    about = ask(host, ("GET", "/v2/models/random", {}))[0].json()
    assert about["inputs"][1] == {"name": "groups", "datatype": "BYTES", "shape": [-1]}
    assert json.loads(about["parameters"]["groups"]) == ["north", "south"]
    (output,) = post(host, "/v2/models/random/infer", _tensors(SOME, groups, seed=3)).json()["outputs"]
    expected = hosted()["random"].apply(SOME, groups=SITES[:4], seed=3)
    assert output["data"] == expected.members.ravel().tolist()


@pytest.mark.parametrize("alpha", [0, 0.35, 1.0, -2])
def test_an_adjustable_map_has_another_error_level_in_every_protocol(alpha: float) -> None:
    host, expected = host_of("levels"), hosted()["levels"].at(alpha).apply(SOME, seed=3)
    parameters = {"seed": 3, "alpha": alpha}
    for path in ("/v1/models/levels:predict", "/invocations"):
        answer = body_of(post(host, path, {"instances": SOME, "parameters": parameters}))
        assert answer == {"predictions": expected.to_lists()}
    lines = "".join(f"{','.join(map(repr, row))}\n" for row in SOME.tolist()).encode()
    header = {ATTRIBUTES: f"seed=3; alpha={alpha}"}
    for kind, body in ((JSON, {"instances": SOME}), (CSV, lines), (NPY, npy(SOME))):
        response = post(host, "/invocations", body, kind, accept=JSON, **header)
        assert body_of(response) == {"predictions": expected.to_lists()}
    (output,) = post(host, "/v2/models/levels/infer", _tensors(SOME, **parameters)).json()["outputs"]
    assert output["data"] == expected.members.ravel().tolist()
    answer = body_of(post(host, "/calibrate", {"map": "levels", "predictions": SOME, **parameters}))
    assert (answer["sets"], answer["alpha"]) == (expected.to_lists(), expected.alpha)


@pytest.mark.parametrize("model", ["sets", "pets"])
def test_another_error_level_is_refused_by_maps_without_stored_scores_and_maps_to_probabilities(model: str) -> None:
    host = host_of(model)
    for path in (f"/v1/models/{model}:predict", "/invocations"):
        response = post(host, path, {"instances": SOME, "parameters": {"alpha": 0.2}})
        assert response.status_code in (400, 422)
        assert "alpha" in response.text
    assert "alpha" in _error(post(host, f"/v2/models/{model}/infer", _tensors(SOME, alpha=0.2)))


@pytest.mark.parametrize("alpha", ["0.1", True, [0.1], b"1e999", b"NaN", b"1" + b"0" * 400])
def test_an_error_level_is_a_finite_number(alpha: Any) -> None:
    host, text = host_of("levels"), alpha if isinstance(alpha, bytes) else json.dumps(alpha).encode()
    row = json.dumps(SOME[:1].tolist()).encode()
    for path in ("/v1/models/levels:predict", "/invocations"):
        body = b'{"instances": %s, "parameters": {"seed": 1, "alpha": %s}}' % (row, text)
        assert post(host, path, body).status_code in (400, 422)
    tensor = b'[{"name": "predictions", "shape": [1, 3], "datatype": "FP64", "data": %s}]' % row
    body = b'{"inputs": %s, "parameters": {"seed": 1, "alpha": %s}}' % (tensor, text)
    assert post(host, "/v2/models/levels/infer", body).status_code == 400
    body = b'{"map": "levels", "predictions": %s, "seed": 1, "alpha": %s}' % (row, text)
    assert post(host, "/calibrate", body).status_code in (400, 422)


def test_tritons_client_reads_sets_of_the_service(service: Stack) -> None:
    with httpx.Client(base_url=service.url, timeout=600) as http:
        document = hosted()["sets"].to_document()
        body_of(http.post("/maps/import", json={"document": document, "name": "triton-sets"}), 201)
    client = tritonclient.http.InferenceServerClient(service.url.removeprefix("http://"))
    for binary in (True, False):
        tensor = tritonclient.http.InferInput("predictions", [4, 3], "FP64")
        tensor.set_data_from_numpy(SOME, binary_data=binary)
        wanted = [tritonclient.http.InferRequestedOutput("members", binary_data=binary)]
        members = client.infer("triton-sets", [tensor], outputs=wanted).as_numpy("members")
        assert members.dtype == np.bool_
        assert np.array_equal(members, hosted()["sets"].apply(SOME).members)
    client.close()


# --- The bounds of Venn-Abers maps


def test_rows_have_the_bounds_of_a_venn_abers_map_if_they_are_requested() -> None:
    host, fitted = host_of("bounds"), hosted()["bounds"]
    columns = [fitted.apply(FEW), *fitted.bounds(FEW)]
    rows = [dict(zip(("predictions", "p0", "p1"), row, strict=True)) for row in np.column_stack(columns).tolist()]
    for path in ("/v1/models/bounds:predict", "/invocations"):
        body = {"instances": FEW, "parameters": {"bounds": True}}
        assert body_of(post(host, path, body)) == {"predictions": rows}
    lines = "".join(f"{p!r}\n" for p in FEW.tolist()).encode()
    text = post(host, "/invocations", lines, CSV, **{ATTRIBUTES: "bounds=true"}).text
    assert text.splitlines()[0] == "predictions,p0,p1"
    assert np.array_equal(np.loadtxt(io.StringIO(text), delimiter=",", skiprows=1), np.column_stack(columns))
    for model in ("spam", "sets"):
        predictions = FEW if model == "spam" else SOME
        refused = post(
            host_of(model), f"/v1/models/{model}:predict", {"instances": predictions, "parameters": {"bounds": 1}}
        )
        assert "/parameters/bounds" in _error(refused)
        body = {"instances": predictions, "parameters": {"bounds": True}}
        assert "bounds" in _error(post(host_of(model), f"/v1/models/{model}:predict", body))


# --- Features


def _rows() -> list[dict[str, Any]]:
    columns = zip(FEW.tolist(), COUNTRIES.tolist(), AGES, strict=False)
    return [{"predictions": p, "features": {"country": country, "age": age}} for p, country, age in columns]


def test_instances_have_the_features_of_their_row() -> None:
    expected = hosted()["segments"].apply(FEW, features={"country": COUNTRIES[:4], "age": AGES})
    assert not np.allclose(expected, FEW)
    for path in ("/v1/models/segments:predict", "/invocations"):
        answer = body_of(post(host_of("segments"), path, {"instances": _rows()}))
        np.testing.assert_allclose(answer["predictions"], expected, atol=1e-15)
    many = post(host_of("segments"), "/v1/models/segments:predict", {"instances": _rows() * 3000}).json()
    np.testing.assert_allclose(many["predictions"], np.tile(expected, 3000), atol=1e-15)


def test_a_missing_feature_of_a_row_is_null_and_falls_back() -> None:
    rows = [{"predictions": 0.5, "features": {"country": None, "age": 20.0}}]
    expected = hosted()["segments"].apply([0.5], features={"country": [None], "age": [20.0]})
    answer = body_of(post(host_of("segments"), "/v1/models/segments:predict", {"instances": rows}))
    np.testing.assert_allclose(answer["predictions"], expected, atol=1e-15)


def test_a_csv_with_the_columns_of_calibrate_has_features() -> None:
    lines = "".join(f"{p!r},{c},{a!r}\n" for p, c, a in zip(FEW.tolist(), COUNTRIES, AGES, strict=False))
    body = f"predictions,features/country,features/age\n{lines}".encode()
    response = text_of(post(host_of("segments"), "/invocations", body, WITH_HEADER))
    expected = hosted()["segments"].apply(FEW, features={"country": COUNTRIES[:4], "age": AGES})
    np.testing.assert_allclose(np.loadtxt(io.StringIO(response)), expected, atol=1e-15)


ROW = {"predictions": 0.5, "features": {"country": "DE", "age": 20.0}}
REFUSALS: dict[str, tuple[str, list[Any], str]] = {
    "no features": ("segments", [0.5], "features"),
    "another feature": ("segments", [{"predictions": 0.5, "features": {"zip": "1"}}], "features"),
    "features that are a list": ("segments", [{"predictions": 0.5, "features": [1]}], "/instances/0/features"),
    "features without names": ("segments", [{"predictions": 0.5, "features": {}}], "/instances/0/features"),
    "features of one row alone": ("segments", [ROW, {"predictions": 0.5}], "/instances/1"),
    "other features in a row": ("segments", [ROW, ROW | {"features": {"age": 1}}], "/instances/1/features"),
    "a feature of another type": (
        "segments",
        [ROW, ROW | {"features": {"country": "DE", "age": "old"}}],
        "/instances/1/features/age",
    ),
    "a list as a feature": ("segments", [ROW | {"features": {"country": ["DE"], "age": 1}}], "features/country"),
    "a prediction out of range": ("segments", [ROW, ROW | {"predictions": 1.5}], "/instances/1/predictions"),
    "a prediction that is text": ("segments", [ROW | {"predictions": "0.5"}], "/instances/0/predictions"),
    "another field": ("segments", [ROW | {"labels": 1}], "/instances/0"),
    "a number beside objects": ("segments", [ROW, 0.5], "/instances/1"),
    "features of a set map": ("sets", [{"predictions": [1, 0, 0], "features": {"a": 1}}], "features"),
    "groups of a map to probabilities": ("spam", [{"predictions": 0.5, "groups": "a"}], "groups"),
    "an unknown group": ("random", [{"predictions": [1, 0, 0], "groups": "west"}], "/instances/0/groups"),
    "a group that is a number": ("random", [{"predictions": [1, 0, 0], "groups": 1}], "/instances/0/groups"),
    "no group": ("random", [[1, 0, 0]], "groups"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_kserve_refuses_rows_with_the_place_of_the_fault(name: str) -> None:
    model, instances, place = REFUSALS[name]
    body = {"instances": instances, "parameters": {"seed": 1} if model == "random" else {}}
    message = _error(post(host_of(model), f"/v1/models/{model}:predict", body))
    assert place in message
    assert "west" not in message


@pytest.mark.parametrize("seed", [-1, 2**32, 0.5, True, "1", [1]])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    body = {"instances": [[1, 0, 0]], "parameters": {"seed": seed}}
    assert "/parameters/seed" in _error(post(host_of("random"), "/v1/models/random:predict", body))
    bad = post(host_of("sets"), "/v2/models/sets/infer", _tensors(SOME, seed=seed))
    assert "seed" in _error(bad)


@pytest.mark.parametrize(
    "attributes",
    ["seed=", "seed=-1", "seed=99999999999", "seed=1;seed=1", "map=a;;", "map=a;x=1", "alpha=nan", "alpha=x"],
)
def test_attributes_of_sagemaker_are_a_map_and_a_seed(attributes: str) -> None:
    response = post(host_of("sets"), "/invocations", SOME, JSON, **{ATTRIBUTES: attributes})
    assert response.status_code == 422, response.text


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"predictions,labels\n0.5,1\n", 422),
        (b"predictions,features/zip\n0.5,1\n", 422),
        (b"features/country,features/age\nDE,1\n", 422),
        (b"predictions,features/age,features/age\n0.5,1,1\n", 422),
        (b"predictions,features/\n0.5,1\n", 422),
        (b"predictions,features/country,features/age\n0.5,DE\n", 400),
    ],
)
def test_a_csv_with_wrong_columns_is_refused(body: bytes, status: int) -> None:
    assert post(host_of("segments"), "/invocations", body, WITH_HEADER).status_code == status


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"name": "zip"}, "/inputs/1/name"),
        ({"datatype": "FP64"}, "/inputs/1/data/0"),
        ({"data": ["north", None, "north", "north"]}, "groups/1"),
        ({"data": ["north", "west", "north", "north"]}, "groups/1"),
        ({"data": ["north"] * 3}, "/inputs/1/shape"),
        ({"data": ["north"] * 3, "shape": [3]}, "groups"),
    ],
)
def test_groups_of_a_model_are_checked(change: dict[str, Any], place: str) -> None:
    groups = {"name": "groups", "shape": [4], "datatype": "BYTES", "data": SITES[:4]} | change
    message = _error(post(host_of("random"), "/v2/models/random/infer", _tensors(SOME, groups, seed=1)))
    assert place in message
    assert "west" not in message


def test_a_model_without_features_or_groups_refuses_other_inputs_and_a_seed() -> None:
    groups = {"name": "groups", "shape": [4], "datatype": "BYTES", "data": SITES[:4]}
    assert "/inputs/1/name" in _error(post(host_of("sets"), "/v2/models/sets/infer", _tensors(SOME, groups)))
    for model, scores in (("sets", SOME), ("spam", FEW)):
        assert "seed" in _error(post(host_of(model), f"/v2/models/{model}/infer", _tensors(scores, seed=1)))
    assert "/outputs/0/name" in _error(
        post(host_of("sets"), "/v2/models/sets/infer", _tensors(SOME) | {"outputs": [{"name": "predictions"}]})
    )
