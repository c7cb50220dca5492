"""Triton's own client for Python, which blocks or awaits, against the service."""

from __future__ import annotations

import asyncio
import gc
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tritonclient.http
import tritonclient.http.aio
from tritonclient.utils import InferenceServerException

import calibrant
from calibrant.client import Calibrant
from service.stack import Stack

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "inference-protocol.md"
RANDOM = np.random.default_rng(19)
TRUE = RANDOM.random(500)
P, Y = TRUE**1.5, (RANDOM.random(500) < TRUE).astype(int)
PROBS = RANDOM.dirichlet(np.ones(4), 300)
LABELS = RANDOM.integers(0, 4, 300)
ROWS = {"triton-event": P[:7], "triton-vector": PROBS[:7]}

#: The awaiting client leaves the body of a refusal unread where it only asks for the status, as in `is_model_ready`.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed connection:ResourceWarning")

#: Runs one call of a client: its name, its arguments, its options.
Call = Callable[..., Any]


@pytest.fixture(scope="module")
def maps(service: Stack) -> dict[str, Any]:
    """The documents of a map of one event with bounds, and of a map of four classes."""
    with Calibrant(service.url) as client:
        return {
            "triton-event": client.fit("venn-abers", predictions=P, labels=Y, name="triton-event").document,
            "triton-vector": client.fit("temperature", predictions=PROBS, labels=LABELS, name="triton-vector").document,
        }


@pytest.fixture(scope="module", autouse=True)
def _collected() -> Iterator[None]:
    """Collect what clients left while it is expected."""
    yield
    gc.collect()


@pytest.fixture(params=[tritonclient.http, tritonclient.http.aio], ids=["blocking", "awaiting"])
def call(request: pytest.FixtureRequest, service: Stack) -> Iterator[Call]:
    address = service.url.removeprefix("http://")
    with asyncio.Runner() as runner:

        async def opened() -> Any:
            return request.param.InferenceServerClient(address)

        client = runner.run(opened())

        def run(name: str, *args: Any, **options: Any) -> Any:
            answer = getattr(client, name)(*args, **options)
            return runner.run(answer) if inspect.iscoroutine(answer) else answer

        yield run
        run("close")


def _tensor(rows: npt.NDArray[Any], datatype: str, *, binary: bool) -> tritonclient.http.InferInput:
    tensor = tritonclient.http.InferInput("predictions", list(rows.shape), datatype)
    return tensor.set_data_from_numpy(rows, binary_data=binary)


@pytest.mark.parametrize("model", ROWS)
@pytest.mark.parametrize(("datatype", "dtype"), [("FP64", np.float64), ("FP32", np.float32)])
@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
@pytest.mark.parametrize("asked", [True, False, None], ids=["binary-out", "json-out", "all-out"])
@pytest.mark.parametrize(
    "packed", [None, *(pytest.param(name, marks=pytest.mark.slow) for name in ("gzip", "deflate"))]
)
def test_tensors_are_calibrated_as_the_library_does(
    maps: dict[str, Any],
    call: Call,
    model: str,
    datatype: str,
    dtype: type[np.floating[Any]],
    binary: bool,
    asked: bool | None,
    packed: str | None,
) -> None:
    rows = ROWS[model].astype(dtype)
    wanted = tritonclient.http.InferRequestedOutput
    answer = call(
        "infer",
        model,
        [_tensor(rows, datatype, binary=binary)],
        model_version="1",
        outputs=None if asked is None else [wanted("predictions", binary_data=asked)],
        request_id="42",
        request_compression_algorithm=packed,
        response_compression_algorithm=packed,
    )
    expected = calibrant.load(maps[model]).apply(rows)
    np.testing.assert_array_equal(answer.as_numpy("predictions"), expected)
    head = answer.get_response()
    assert (head["model_name"], head["model_version"], head["id"]) == (model, "1", "42")
    bounds = {"p0", "p1"} if model == "triton-event" and asked is None else set()
    assert {output["name"] for output in head["outputs"]} == {"predictions"} | bounds


def test_outputs_are_binary_or_json_each_for_itself(maps: dict[str, Any], call: Call) -> None:
    wanted = tritonclient.http.InferRequestedOutput
    outputs = [wanted("p1", binary_data=False), wanted("predictions"), wanted("p0", binary_data=False)]
    answer = call("infer", "triton-event", [_tensor(P[:3], "FP64", binary=False)], outputs=outputs)
    merged = answer.as_numpy("p1") / (1 - answer.as_numpy("p0") + answer.as_numpy("p1"))
    np.testing.assert_allclose(answer.as_numpy("predictions"), merged, atol=1e-12)


def test_parameters_of_sequences_and_schedulers_change_nothing(maps: dict[str, Any], call: Call) -> None:
    tensor = [_tensor(P[:3], "FP64", binary=False)]
    plain = call("infer", "triton-event", tensor)
    options = {"sequence_id": 3, "sequence_start": True, "priority": 1, "timeout": 1000, "parameters": {"a": "b"}}
    answer = call("infer", "triton-event", tensor, **options)
    np.testing.assert_array_equal(answer.as_numpy("predictions"), plain.as_numpy("predictions"))


def test_the_server_and_its_models_describe_themselves(maps: dict[str, Any], call: Call) -> None:
    assert call("is_server_live") is True
    assert call("is_server_ready") is True
    assert call("get_server_metadata")["extensions"] == ["binary_tensor_data"]
    for version in ("", "1"):
        assert call("is_model_ready", "triton-vector", version) is True
        metadata = call("get_model_metadata", "triton-vector", version)
        assert (metadata["versions"], metadata["inputs"][0]["shape"]) == (["1"], [-1, 4])
    assert call("is_model_ready", "triton-vector", "2") is False
    assert call("is_model_ready", "triton-nothing") is False


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("get_model_metadata", ("triton-nothing",)),
        ("get_model_config", ("triton-event",)),
        ("get_model_config", ("triton-event", "1")),
        ("get_model_repository_index", ()),
        ("load_model", ("triton-event",)),
        ("unload_model", ("triton-event",)),
        ("get_inference_statistics", ()),
        ("get_inference_statistics", ("triton-event",)),
        ("get_inference_statistics", ("triton-event", "1")),
        ("get_trace_settings", ()),
        ("get_trace_settings", ("triton-event",)),
        ("update_trace_settings", ("triton-event", {"trace_level": ["OFF"]})),
        ("get_log_settings", ()),
        ("update_log_settings", ({"log_info": True},)),
        ("get_system_shared_memory_status", ()),
        ("register_system_shared_memory", ("region", "/key", 64)),
        ("unregister_system_shared_memory", ("region",)),
        ("get_cuda_shared_memory_status", ()),
        ("register_cuda_shared_memory", ("region", b"handle", 0, 64)),
        ("unregister_cuda_shared_memory", ("region",)),
    ],
)
def test_calls_of_other_extensions_are_404_with_a_message(
    maps: dict[str, Any], call: Call, name: str, arguments: tuple[Any, ...]
) -> None:
    with pytest.raises(InferenceServerException, match=r"\[404\] there is no such (endpoint|model)"):
        call(name, *arguments)


def test_what_an_inference_cannot_offer_is_400_with_a_message(maps: dict[str, Any], call: Call) -> None:
    tensor = _tensor(P[:3], "FP64", binary=False)
    classes = [tritonclient.http.InferRequestedOutput("predictions", class_count=2)]
    with pytest.raises(InferenceServerException, match=r"\[400\].*classification"):
        call("infer", "triton-event", [tensor], outputs=classes)
    elsewhere = tritonclient.http.InferInput("predictions", [3], "FP64")
    elsewhere.set_shared_memory("region", 24)
    with pytest.raises(InferenceServerException, match=r"\[400\].*shared_memory"):
        call("infer", "triton-event", [elsewhere])
    text = _tensor(np.array([b"0.5"], dtype=object), "BYTES", binary=True)
    with pytest.raises(InferenceServerException, match=r"\[400\].*/inputs/0/datatype"):
        call("infer", "triton-event", [text])
    outside = _tensor(np.array([0.5, 7.0]), "FP64", binary=False)
    with pytest.raises(InferenceServerException, match=r"\[400\].*first at /predictions/1"):
        call("infer", "triton-event", [outside])


def test_an_asynchronous_inference_of_the_blocking_client_is_answered(maps: dict[str, Any], service: Stack) -> None:
    with tritonclient.http.InferenceServerClient(service.url.removeprefix("http://"), concurrency=4) as client:
        parts = np.split(P[:400].astype(np.float32), 4)
        tensors = [_tensor(part, "FP32", binary=i % 2 == 0) for i, part in enumerate(parts)]
        pending = [client.async_infer("triton-event", [tensor]) for tensor in tensors]
        calibrated = np.concatenate([request.get_result().as_numpy("predictions") for request in pending])
    expected = calibrant.load(maps["triton-event"]).apply(P[:400].astype(np.float32))
    np.testing.assert_array_equal(calibrated, expected)


def test_the_program_of_the_page_prints_what_it_says(service: Stack, tmp_path: Path) -> None:
    (program, printed) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[0]
    points = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9]
    with Calibrant(service.url) as client:
        name = client.fit("isotonic", predictions=points, labels=[0, 0, 0, 0, 1, 0, 1, 1], name="triton-page").name
    here = program.replace("localhost:8000", service.url.removeprefix("http://")).replace('"churn"', f'"{name}"')
    run = subprocess.run([sys.executable, "-c", here], capture_output=True, text=True, timeout=600)
    assert (run.returncode, run.stdout) == (0, printed), run.stderr
