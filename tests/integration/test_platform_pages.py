"""The pages of MLflow and Evidently, and KServe's client, where they are installed (``make integrations``)."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.client import Calibrant
from service.stack import Stack
from tests.integration.hosting import hosted, running_host

PAGES = Path(__file__).parents[2] / "docs" / "how-to"


def _without(*libraries: str) -> pytest.MarkDecorator:
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"without {', '.join(missing)}")


def _result_of(page: str, module: str, service: Stack, folder: Path, then: str) -> Any:
    """What ``then`` tells after all of a page's Python, in a process of its own, in a folder with the page's module."""
    text = (PAGES / page).read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == text.count("```python")
    shutil.copy(PAGES / module, folder)
    script = folder / "page.py"
    script.write_text("\n".join([*blocks, f"import json\nopen('result.json', 'w').write(json.dumps({then}))"]))
    environment = os.environ | {
        "CALIBRANT_SERVER": service.url,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "1",
    }
    done = subprocess.run(
        [sys.executable, str(script)], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "result.json").read_text())


@_without("mlflow", "sqlalchemy", "skops")
def test_a_calibrated_model_and_its_evaluation_are_logged_to_mlflow(service: Stack, tmp_path: Path) -> None:
    raw = "model.predict_proba(X_test)[:, 1]"
    answers = _result_of(
        "mlflow.md",
        "calibrant_pyfunc.py",
        service,
        tmp_path,
        "[mlflow.get_run(run.info.run_id).data.metrics, calibrated.tolist(),"
        f" client.calibrate('credit', {raw}).tolist(), report.to_dict()]",
    )
    metrics, served, expected, report = answers
    assert served == expected
    assert metrics["calibration/before/ece/value"] == report["measures"]["ece"]["value"]
    assert metrics["calibration/after/ece/value"] < metrics["calibration/before/ece/value"]
    assert metrics["calibration/after/log-loss/high"] == report["after"]["measures"]["log-loss"]["interval"][1]
    artifacts = {path.name: path for path in tmp_path.rglob("calibration/*")}
    assert artifacts.keys() == {"report.html", "report.json", "reliability.svg"}
    assert artifacts["reliability.svg"].read_text().startswith("<svg")
    assert artifacts["report.html"].read_text().lower().startswith("<!doctype html>")
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".pkl", ".pickle", ".joblib")]


@_without("evidently")
def test_an_evidently_report_holds_calibration_beside_drift(service: Stack, tmp_path: Path) -> None:
    report, p, label = _result_of(
        "evidently.md",
        "calibrant_evidently.py",
        service,
        tmp_path,
        "[found, *(current.as_dataframe()[name].tolist() for name in ('p', 'label'))]",
    )
    with Calibrant(service.url) as client:
        measures = client.evaluate(predictions=p, labels=label, measures=["ece", "log-loss"]).measures
    drift, auc, ece, log_loss = (metric["value"] for metric in report["metrics"])
    assert (ece, log_loss) == (measures["ece"].debiased, measures["log-loss"].value)
    assert ece > 0.1
    assert drift < 0.1 < 0.8 < auc
    assert [test["status"] for test in report["tests"]] == ["FAIL"]
    assert "Calibration: ece of p" in (tmp_path / "calibration-and-drift.html").read_text("utf-8")


@_without("kserve")
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize(("datatype", "dtype"), [("FP64", np.float64), ("FP32", np.float32)])
@pytest.mark.parametrize("many", [False, True])
def test_kserves_client_infers(
    service: Stack, binary: bool, datatype: str, dtype: type[np.floating[Any]], many: bool
) -> None:
    kserve: Any = importlib.import_module("kserve")
    random = np.random.default_rng(20)
    probabilities = random.dirichlet(np.ones(4), 200)
    labels = random.integers(0, 4, 200)
    name, method = ("kserve-vector", "temperature") if many else ("kserve-event", "venn-abers")
    predictions, labels = (probabilities, labels) if many else (probabilities[:, 0], (labels == 0).astype(int))
    with Calibrant(service.url) as client:
        fitted = calibrant.load(client.fit(method, predictions=predictions, labels=labels, name=name).document)
    rows = predictions[:5].astype(dtype)
    tensor = kserve.InferInput("predictions", list(rows.shape), datatype)
    tensor.set_data_from_numpy(rows, binary_data=binary)

    async def asked() -> tuple[list[bool], Any]:
        client = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2"))
        try:
            ready = [
                await client.is_server_live(service.url),
                await client.is_server_ready(service.url),
                await client.is_model_ready(service.url, name),
                await client.is_model_ready(service.url, "kserve-nothing"),
            ]
            request = kserve.InferRequest(name, infer_inputs=[tensor])
            return ready, await client.infer(service.url, request, model_name=name)
        finally:
            await client.close()

    ready, answer = asyncio.run(asked())
    assert ready == [True, True, True, False]
    outputs = {output.name: output.as_numpy() for output in answer.outputs}
    np.testing.assert_array_equal(outputs["predictions"], fitted.apply(rows))
    assert outputs.keys() == ({"predictions"} if many else {"predictions", "p0", "p1"})


@_without("kserve")
@pytest.mark.parametrize("name", ["spam", "pets"])
def test_kserves_client_predicts_with_version_1_of_the_protocol_on_a_host(name: str, tmp_path: Path) -> None:
    kserve: Any = importlib.import_module("kserve")
    fitted = hosted()[name]
    fitted.save(tmp_path / f"{name}.json")
    rows = np.array([0.1, 0.9]) if name == "spam" else np.array([[0.1, 0.2, 0.7], [0.8, 0.1, 0.1]])

    async def asked(url: str) -> tuple[bool, Any]:
        client = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v1"))
        try:
            ready = await client.is_model_ready(url, name)
            return ready, await client.infer(url, {"instances": rows.tolist()}, model_name=name)
        finally:
            await client.close()

    with running_host(str(tmp_path)) as host:
        ready, answer = asyncio.run(asked(host.url))
    assert ready
    assert answer == {"predictions": fitted.apply(rows).tolist()}
