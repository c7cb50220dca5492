from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np
import pytest
from redis import Redis

import calibrant
from backend.store.api_keys import ApiKeyStore
from backend.store.keyspace import Keyspace
from calibrant.client import Calibrant
from service.settings import Settings
from tests.integration.alone import Call, ask
from tests.integration.responses import body_of
from tests.wire import answered, packed, request

RANDOM = np.random.default_rng(16)
TRUE = RANDOM.random(2000)
P, Y = TRUE**1.5, (RANDOM.random(2000) < TRUE).astype(int)
PROBS = RANDOM.dirichlet(np.full(80, 0.4), 300)
LABELS = RANDOM.integers(0, 80, 300)
LENGTH = "Inference-Header-Content-Length"


@pytest.fixture(scope="module")
def maps(service: Any) -> dict[str, str]:
    """Ids of maps by name: of one event, with bounds, on logits, of the whole vector, and one without a name."""
    with Calibrant(service.url) as client:
        event, vector = client.upload(P, Y), client.upload(PROBS, LABELS)
        logits = client.upload(np.log(P / (1 - P)), Y, scale="logit")
        return {
            "oip-isotonic": client.fit("isotonic", event.id, name="oip-isotonic").id,
            "oip-bounds": client.fit("venn-abers", event.id, name="oip-bounds").id,
            "oip-logits": client.fit("platt", logits.id, name="oip-logits").id,
            "oip-top": client.fit("platt", vector.id, name="oip-top").id,
            "oip-vector": client.fit("temperature", vector.id, name="oip-vector").id,
            "": client.fit("platt", event.id).id,
        }


def _input(scores: Any, **fields: Any) -> dict[str, Any]:
    shape = list(np.shape(scores))
    return {"name": "predictions", "shape": shape, "datatype": "FP64", "data": scores} | fields


def _infer(http: httpx.Client, model: str, body: Any, **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"Content-Type": "application/json"} | {name.replace("_", "-"): text for name, text in headers.items()}
    return http.post(f"/v2/models/{model}/infer", content=content, headers=sent)


def _binary(http: httpx.Client, model: str, scores: Any, datatype: str, **fields: Any) -> httpx.Response:
    length, body = request(np.ravel(scores).tolist(), datatype, np.shape(scores), **fields)
    headers = {LENGTH: str(length), "Content-Type": "application/octet-stream"}
    return http.post(f"/v2/models/{model}/infer", content=body, headers=headers)


def _read(response: httpx.Response) -> tuple[dict[str, Any], dict[str, list[float]]]:
    assert response.status_code == 200, response.text
    length = response.headers.get(LENGTH)
    kind = "application/json" if length is None else "application/octet-stream"
    assert response.headers["content-type"] == kind
    return answered(response.content, None if length is None else int(length))


def _error(response: httpx.Response) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/json"
    assert set(response.json()) == {"error"}
    return response.status_code, response.json()["error"]


def _calibrated(http: httpx.Client, model: str, scores: Any, **options: Any) -> dict[str, list[float]]:
    answer = body_of(http.post("/calibrate", json={"map": model, "predictions": scores} | options))
    return {name: np.ravel(column).tolist() for name, column in answer.items() if name not in ("map", "version")}


def test_the_server_describes_itself(http: httpx.Client) -> None:
    for path in ("/v2", "/v2/"):
        response = http.get(path)
        assert response.json() == {
            "name": "calibrant",
            "version": calibrant.__version__,
            "extensions": ["binary_tensor_data"],
        }
    assert http.get("/v2/health/live").json() == {"live": True}
    assert http.get("/v2/health/ready").json() == {"live": True, "ready": True}


@pytest.mark.parametrize(
    ("name", "taken", "outputs"),
    [
        ("oip-isotonic", [-1], {"predictions": [-1]}),
        ("oip-bounds", [-1], {"predictions": [-1], "p0": [-1], "p1": [-1]}),
        ("oip-logits", [-1], {"predictions": [-1]}),
        ("oip-top", [-1, 80], {"predictions": [-1]}),
        ("oip-vector", [-1, 80], {"predictions": [-1, 80]}),
    ],
)
def test_a_map_is_described_as_a_model(
    http: httpx.Client, maps: dict[str, str], name: str, taken: list[int], outputs: dict[str, list[int]]
) -> None:
    record = http.get(f"/maps/{name}").json()
    for path in (name, f"{name}/versions/1"):
        model = http.get(f"/v2/models/{path}").json()
        assert model == {
            "name": name,
            "versions": ["1"],
            "platform": "calibrant_map",
            "inputs": [{"name": "predictions", "datatype": "FP64", "shape": taken}],
            "outputs": [{"name": output, "datatype": "FP64", "shape": shape} for output, shape in outputs.items()],
            "parameters": {"map": maps[name]} | {key: record[key] for key in ("method", "reduction", "scale")},
        }
        assert http.get(f"/v2/models/{path}/ready").json() == {"name": name, "ready": True}


@pytest.mark.parametrize("name", ["oip-isotonic", "oip-bounds", "oip-top", "oip-vector", "oip-logits"])
def test_answers_are_those_of_calibrate_to_the_last_bit(http: httpx.Client, maps: dict[str, str], name: str) -> None:
    scores = (PROBS if name in ("oip-top", "oip-vector") else np.log(P / (1 - P)) if name == "oip-logits" else P)[:50]
    expected = _calibrated(http, name, scores.tolist(), bounds=name == "oip-bounds")
    flat = _input(scores.ravel().tolist(), shape=list(scores.shape))
    nested = _input(scores.tolist())
    for body in (flat, nested):
        head, tensors = _read(_infer(http, name, {"inputs": [body], "id": "é-42"}))
        assert (head["model_name"], head["model_version"], head["id"]) == (name, "1", "é-42")
        assert head["parameters"] == {"map": maps[name]}
        assert tensors == expected
    # Every place modulo 8 at which the tensor's bytes may begin.
    for pad in range(8):
        fields = {"id": "x" * pad, "parameters": {"binary_data_output": True}}
        head, tensors = _read(_binary(http, name, scores, "FP64", **fields))
        assert tensors == expected
        shape = list(scores.shape) if name == "oip-vector" else [50]
        assert [output["shape"] for output in head["outputs"]] == [shape] * len(expected)


@pytest.mark.parametrize("datatype", ["FP32", "FP16", "INT8", "INT16", "INT32", "INT64"])
def test_a_tensor_of_any_number_is_that_number(http: httpx.Client, maps: dict[str, str], datatype: str) -> None:
    floating = {"FP32": np.float32, "FP16": np.float16}.get(datatype)
    scores = [-3, -1, 0, 2, 5] if floating is None else np.array([-2.1, 0.3, 7.7], floating).tolist()
    expected = _calibrated(http, "oip-logits", scores)
    assert _read(_infer(http, "oip-logits", {"inputs": [_input(scores, datatype=datatype)]}))[1] == expected
    assert _read(_binary(http, "oip-logits", scores, datatype))[1] == expected


def test_a_half_written_number_is_the_element_of_its_datatype(http: httpx.Client, maps: dict[str, str]) -> None:
    short = _infer(http, "oip-logits", {"inputs": [_input([0.1], datatype="FP32")]})
    widened = _infer(http, "oip-logits", {"inputs": [_input([float(np.float32(0.1))], datatype="FP32")]})
    double = _infer(http, "oip-logits", {"inputs": [_input([0.1])]})
    assert short.json() == widened.json()
    assert short.json() != double.json()


@pytest.mark.parametrize(
    ("outputs", "every", "expected"),
    [
        (None, None, {"predictions": False, "p0": False, "p1": False}),
        ([], None, {"predictions": False, "p0": False, "p1": False}),
        (None, True, {"predictions": True, "p0": True, "p1": True}),
        ([("p1", None)], None, {"p1": False}),
        ([("p1", None), ("predictions", None)], True, {"p1": True, "predictions": True}),
        ([("p0", True), ("p1", None)], None, {"p0": True, "p1": False}),
        ([("p0", False), ("p1", None), ("predictions", True)], True, {"p0": False, "p1": True, "predictions": True}),
        ([("p0", True), ("p1", False)], False, {"p0": True, "p1": False}),
    ],
)
def test_outputs_have_the_requested_form(
    http: httpx.Client,
    maps: dict[str, str],
    outputs: list[tuple[str, bool | None]] | None,
    every: bool | None,
    expected: dict[str, bool],
) -> None:
    body: dict[str, Any] = {"inputs": [_input([0.2, 0.7])]}
    if every is not None:
        body["parameters"] = {"binary_data_output": every}
    if outputs is not None:
        body["outputs"] = [
            {"name": name} | ({} if binary is None else {"parameters": {"binary_data": binary}})
            for name, binary in outputs
        ]
    head, tensors = _read(_infer(http, "oip-bounds", body))
    sizes = {output["name"]: output.get("parameters", {}).get("binary_data_size") for output in head["outputs"]}
    assert {name: size == 16 for name, size in sizes.items()} == expected
    assert list(tensors) == list(expected)
    calibrated = _calibrated(http, "oip-bounds", [0.2, 0.7], bounds=True)
    assert tensors == {name: calibrated[name] for name in expected}
    assert "id" not in head


def test_versions_ids_and_names_are_models(http: httpx.Client, client: Calibrant, maps: dict[str, str]) -> None:
    for method in ("platt", "identity"):
        client.fit(method, client.upload(P, Y).id, name="oip-versions")
    model = http.get("/v2/models/oip-versions").json()
    assert (model["versions"], model["parameters"]["method"]) == (["1", "2"], "identity")
    body = {"inputs": [_input([0.3])]}
    for path, ref, version in (
        ("oip-versions", "oip-versions:2", "2"),
        ("oip-versions/versions/1", "oip-versions:1", "1"),
        ("oip-versions/versions/2", "oip-versions:2", "2"),
        ("oip-versions:1", "oip-versions:1", "1"),
        ("oip-versions:1/versions/1", "oip-versions:1", "1"),
        (f"{maps['oip-isotonic']}/versions/1", "oip-isotonic:1", "1"),
        (maps["oip-isotonic"], "oip-isotonic:1", "1"),
    ):
        head, tensors = _read(_infer(http, path, body))
        assert (head["model_name"], head["model_version"]) == (path.partition("/")[0], version)
        assert tensors == _calibrated(http, ref, [0.3])
        assert http.get(f"/v2/models/{path}/ready").status_code == 200
    assert http.get("/v2/models/oip-versions:1").json()["versions"] == ["1"]


def test_a_map_without_a_name_has_no_versions(http: httpx.Client, maps: dict[str, str]) -> None:
    model = http.get(f"/v2/models/{maps['']}").json()
    assert "versions" not in model
    assert model["name"] == maps[""]
    head, _ = _read(_infer(http, maps[""], {"inputs": [_input([0.3])]}))
    assert "model_version" not in head
    assert _error(http.get(f"/v2/models/{maps['']}/versions/1"))[0] == 404


@pytest.mark.parametrize(
    "model",
    [
        "nothing", "map_nothing", "oip-isotonic/versions/2", "oip-isotonic/versions/0", "oip-isotonic/versions/01",
        "oip-isotonic/versions/x", "oip-isotonic/versions/-1", "oip-isotonic/versions/1:1", "oip-isotonic:1/versions/2",
        "oip-isotonic:2", "oip-isotonic:", "oip-isotonic%3A1%3A1", "a" * 81, "a" * 5000, "%00", "..%2f..%2fetc", "%ff",
        "oip-isotonic/versions/" + "1" * 5000, "oip-isotonic/versions/%D9%A1",
    ],
)  # fmt: skip
def test_an_unknown_model_is_404_on_every_call(http: httpx.Client, maps: dict[str, str], model: str) -> None:
    assert _error(http.get(f"/v2/models/{model}"))[0] == 404
    assert _error(http.get(f"/v2/models/{model}/ready"))[0] == 404
    assert _error(_infer(http, model, {"inputs": [_input([0.3])]}))[0] == 404


def _whole(*inputs: Any, **fields: Any) -> dict[str, Any]:
    return {"inputs": list(inputs), **fields}


GOOD = _input([0.2, 0.7])


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b"", "JSON at byte 0"),
        (b"{", "JSON at byte 1"),
        (b"[" * 10, "JSON"),
        (b'{"inputs": [{"data": [NaN]}]}', "JSON at byte 22"),
        (b'{"inputs": [{"data": [Infinity]}]}', "JSON at byte 22"),
        ([], "must be an object"),
        ({}, "/inputs"),
        (_whole(), "/inputs"),
        (_whole(GOOD, GOOD), "/inputs/1/name: occurs twice"),
        (_whole(GOOD, GOOD | {"name": "weights"}), "inputs/1/name"),
        (_whole(GOOD | {"name": "input-0"}), "/inputs/0/name: must be predictions"),
        (_whole(GOOD, outputs=[{"name": "p0"}]), "/outputs/0/name: must be one of: predictions"),
        (_whole(GOOD, outputs=[{"name": "predictions"}] * 2), "/outputs/1/name: occurs twice"),
        (_whole(GOOD | {"shape": [3]}), "inputs/0/shape"),
        (_whole(GOOD | {"shape": [-2]}), "/inputs/0/shape/0"),
        (_whole(GOOD | {"shape": [2**63, 2]}), "inputs/0/shape"),
        (_whole(GOOD | {"shape": [2**70]}), "/inputs/0/shape/0"),
        (_whole(GOOD | {"shape": [2, 1, 1]}), "/inputs/0/shape: must be [n] or [n, K]"),
        (_whole(GOOD | {"shape": [1, 2]}), "predictions"),
        (_whole(GOOD | {"shape": [0], "data": []}), "/inputs/0/shape: has no rows"),
        (_whole(GOOD | {"data": [0.2, None]}), "/inputs/0/data/1"),
        (_whole(GOOD | {"data": [0.2, True]}), "/inputs/0/data/1"),
        (_whole(GOOD | {"data": [0.2, 1.2]}), "/predictions/1"),
        (_whole(GOOD | {"datatype": "INT64"}), "/inputs/0/data/0"),
        (_whole(GOOD | {"datatype": "BOOL", "data": [True, False]}), "/inputs/0/datatype"),
        (_whole(GOOD | {"datatype": "BYTES", "data": ["0.2", "0.7"]}), "/inputs/0/datatype"),
        (_whole(GOOD | {"parameters": {"binary_data_size": 16}}), "inputs/0/data"),
        (_whole({k: v for k, v in GOOD.items() if k != "data"}), "/inputs/0/data: is missing"),
        (_whole(GOOD, unknown=1), "/unknown"),
        (_whole(GOOD, parameters={"shared_memory_region": "x"}), "shared_memory_region"),
    ],
)
def test_a_bad_request_is_400_and_names_the_place(
    http: httpx.Client, maps: dict[str, str], body: Any, place: str
) -> None:
    status, message = _error(_infer(http, "oip-isotonic", body))
    assert status == 400
    assert place in message


def _raw(size: Any, *, shape: Sequence[int] = (2,), raw: bytes = packed([0.2, 0.7], "FP64"), **fields: Any) -> bytes:
    head = _whole({"name": "predictions", "shape": list(shape), "datatype": "FP64"} | fields)
    head["inputs"][0]["parameters"] = {"binary_data_size": size}
    return json.dumps(head).encode() + raw


@pytest.mark.parametrize(
    ("body", "length", "place"),
    [
        (_raw(16), None, "JSON"),
        (_raw(16), len(_raw(16)) + 1, "exceeds the size of the body"),
        (_raw(16), 10**30, "a single number of bytes"),
        (_raw(16), -1, "a single number of bytes"),
        (_raw(16), 0, "JSON"),
        (_raw(16), len(_raw(16)), "JSON"),
        (_raw(16), len(_raw(16)) - 17, "JSON"),
        (_raw(8), len(_raw(8)) - 16, "binary_data_size"),
        (_raw(24), len(_raw(24)) - 16, "binary_data_size"),
        (_raw(2**62), len(_raw(2**62)) - 16, "binary_data_size"),
        (_raw(-16), len(_raw(-16)) - 16, "binary_data_size"),
        (_raw("16"), len(_raw("16")) - 16, "binary_data_size"),
        (_raw(16, raw=b""), len(_raw(16, raw=b"")), "binary_data_size"),
        (_raw(16, shape=(3,)), len(_raw(16, shape=(3,))) - 16, "shape"),
        (_raw(16, shape=(2**61,)), len(_raw(16, shape=(2**61,))) - 16, "shape"),
        (_raw(16, shape=(2**63, 0)), len(_raw(16, shape=(2**63, 0))) - 16, "shape: has no rows"),
        (_raw(16, data=[0.2, 0.7]), len(_raw(16, data=[0.2, 0.7])) - 16, "data: must be absent"),
        (_raw(16, datatype="FP32"), len(_raw(16, datatype="FP32")) - 16, "shape"),
        (_raw(16, datatype="BOOL"), len(_raw(16, datatype="BOOL")) - 16, "datatype"),
        (_raw(16, raw=packed([0.2, float("nan")], "FP64")), len(_raw(16)) - 16, "/predictions/1"),
        (_raw(16, raw=packed([float("inf"), 0.2], "FP64")), len(_raw(16)) - 16, "/predictions/0"),
    ],
)
def test_a_binary_body_with_wrong_sizes_is_400(
    http: httpx.Client, maps: dict[str, str], body: bytes, length: int | None, place: str
) -> None:
    headers = {} if length is None else {LENGTH.replace("-", "_"): str(length)}
    status, message = _error(_infer(http, "oip-isotonic", body, **headers))
    assert status == 400
    assert place in message


def test_two_lengths_are_refused(http: httpx.Client, maps: dict[str, str]) -> None:
    body = _raw(16)
    headers = [("Content-Type", "application/json"), (LENGTH, str(len(body) - 16)), (LENGTH, "1")]
    response = http.post("/v2/models/oip-isotonic/infer", content=body, headers=headers)
    assert _error(response) == (400, f"{LENGTH}: must be a single number of bytes")


def test_a_tensor_of_one_column_is_read_as_its_rows(http: httpx.Client, maps: dict[str, str]) -> None:
    expected = _calibrated(http, "oip-isotonic", [0.2, 0.7])
    for tensor in (_input([[0.2], [0.7]]), _input([0.2, 0.7], shape=[2, 1])):
        head, tensors = _read(_infer(http, "oip-isotonic", _whole(tensor)))
        assert (tensors, head["outputs"][0]["shape"]) == (expected, [2])
    assert _read(_binary(http, "oip-isotonic", np.array([[0.2], [0.7]]), "FP64"))[1] == expected
    status, message = _error(_infer(http, "oip-vector", _whole(_input([[0.2], [0.7]]))))
    assert (status, "80" in message) == (400, True)
    status, message = _error(_infer(http, "oip-isotonic", _whole(_input([[0.2], [7.0]]))))
    assert (status, message.endswith("first at /predictions/1")) == (400, True)


@pytest.mark.parametrize("kind", [None, "application/octet-stream", "application/json"])
def test_the_length_header_and_not_the_content_type_says_how_a_body_is_read(
    http: httpx.Client, maps: dict[str, str], kind: str | None
) -> None:
    path = "/v2/models/oip-isotonic/infer"
    headers = {} if kind is None else {"Content-Type": kind}
    length, body = request([0.2, 0.7], "FP64", [2])
    _, binary = _read(http.post(path, content=body, headers=headers | {LENGTH: str(length)}))
    _, text = _read(http.post(path, content=json.dumps(_whole(GOOD)).encode(), headers=headers))
    assert binary == text == _calibrated(http, "oip-isotonic", [0.2, 0.7])


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_a_content_type_of_a_form_is_415(http: httpx.Client, maps: dict[str, str], kind: str) -> None:
    text = json.dumps(_whole(GOOD)).encode()
    refused = http.post("/v2/models/oip-isotonic/infer", content=text, headers={"Content-Type": kind})
    assert _error(refused)[0] == 415


def test_a_page_of_another_origin_cannot_infer_without_a_content_type(http: httpx.Client, maps: dict[str, str]) -> None:
    text = json.dumps(_whole(GOOD)).encode()
    refused = http.post("/v2/models/oip-isotonic/infer", content=text, headers={"Origin": "http://evil.example"})
    assert _error(refused)[0] == 403


def test_unknown_routes_and_methods_are_errors_of_the_protocol(http: httpx.Client) -> None:
    paths = ("nothing", "models", "models/x/y", "repository/index", "models/a/b/c/infer", "models/x/config", "logging")
    for method, path in itertools.product(("GET", "POST", "PUT", "DELETE", "PATCH"), paths):
        status, message = _error(http.request(method, f"/v2/{path}"))
        assert (status, "binary_tensor_data" in message) == (404, True), (method, path)
    for method, path, allowed in (
        ("DELETE", "models/x", "HEAD, GET"),
        ("GET", "models/x/infer", "POST"),
        ("PUT", "models/x/versions/1/infer", "POST"),
        ("POST", "health/live", "HEAD, GET"),
        ("POST", "models/x/ready", "HEAD, GET"),
    ):
        refused = http.request(method, f"/v2/{path}")
        assert _error(refused)[0] == 405
        assert refused.headers["allow"] == allowed
    assert http.get("/v20").headers["content-type"] == "application/problem+json"


def test_no_error_repeats_the_callers_data(http: httpx.Client, maps: dict[str, str]) -> None:
    secret = "patient-4711"
    for body in (
        _whole(GOOD | {"name": secret}),
        _whole(GOOD | {"datatype": secret}),
        _whole(GOOD | {"data": [secret, 0.1]}),
        _whole(GOOD | {"data": secret}),
        _whole(GOOD | {"shape": [secret]}),
        _whole(GOOD, id=[secret]),
        _whole(GOOD, parameters={"x": [secret]}),
        _whole(GOOD, outputs=[{"name": secret}]),
        secret,
    ):
        assert secret not in _infer(http, "oip-isotonic", body).text
    assert secret not in http.get(f"/v2/models/{secret}").text
    assert secret not in http.get(f"/v2/models/oip-isotonic/versions/{secret}").text


@pytest.mark.slow
def test_a_million_rows_are_one_tensor(http: httpx.Client, maps: dict[str, str]) -> None:
    predictions = np.random.default_rng(1).random(1_000_000)
    _, tensors = _read(_binary(http, "oip-isotonic", predictions, "FP64", parameters={"binary_data_output": True}))
    fitted = calibrant.load(http.get("/maps/oip-isotonic").json()["document"])
    np.testing.assert_array_equal(tensors["predictions"], fitted.apply(predictions))


def test_refusals_of_access_are_errors_of_the_protocol(redis_url: str, redis: Redis) -> None:
    reader = ApiKeyStore(redis).create("reader", tenant="a", scope="read", rate_limit=1)
    bearer = {"headers": {"Authorization": f"Bearer {reader.text}"}}
    refused, live, ready, elsewhere, served, *counted = ask(
        Settings(redis_url=redis_url),
        ("GET", "/v2", {}),
        ("GET", "/v2/health/live", {}),
        ("GET", "/v2/health/ready", {}),
        ("GET", "/measures", {}),
        *[("POST", "/v2/models/x/infer", bearer | {"json": _whole(GOOD)})] * 3,
    )
    assert _error(refused)[0] == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert (live.status_code, ready.status_code) == (200, 200)
    assert elsewhere.headers["content-type"] == "application/problem+json"
    assert _error(served) == (404, "there is no such model")
    # A minute may end between two of them, but not between all.
    limited = [answer for answer in counted if answer.status_code == 429]
    assert limited
    assert _error(limited[0])[0] == 429
    assert limited[0].headers["retry-after"]


def test_foreign_hosts_and_origins_are_refused_in_the_protocol(http: httpx.Client) -> None:
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        assert _error(http.get("/v2", headers=headers))[0] == 403


def test_a_body_over_the_limit_is_413(redis_url: str, redis: Redis) -> None:
    (refused,) = ask(
        Settings(redis_url=redis_url, max_body_bytes=100),
        ("POST", "/v2/models/x/infer", {"json": _whole(_input([0.5] * 100))}),
    )
    assert _error(refused) == (413, "the body may have at most 100 bytes")


def test_a_store_that_is_away_is_503_with_retry_after() -> None:
    calls: list[Call] = [
        ("GET", "/v2/health/ready", {}),
        ("GET", "/v2/models/x", {}),
        ("GET", "/v2/models/x/ready", {}),
        ("POST", "/v2/models/x/infer", {"json": _whole(GOOD)}),
    ]
    for away in ask(Settings(redis_url="unix:///nowhere"), *calls, started=False):
        assert _error(away)[0] == 503
        assert away.headers["retry-after"]


def test_an_internal_error_is_500_and_reveals_nothing(redis_url: str, redis: Redis) -> None:
    redis.set(Keyspace().newest_versions(), "of another type than the store writes")
    (failed,) = ask(Settings(redis_url=redis_url), ("GET", "/v2/models/x", {}))
    assert _error(failed) == (500, "the service failed; the error has been logged")
