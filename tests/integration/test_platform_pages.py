"""The pages of MLflow and Evidently, run with those libraries where they are installed (``make integrations``)."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from calibrant_client import Calibrant
from cli.stack import Stack

PAGES = Path(__file__).parents[2] / "docs" / "integrations"


def _without(*libraries: str) -> pytest.MarkDecorator:
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"without {', '.join(missing)}")


def _told(page: str, module: str, service: Stack, folder: Path, then: str) -> Any:
    """What ``then`` tells after all of a page's Python, in a process of its own, in a folder with the page's module."""
    text = (PAGES / page).read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == text.count("```python")
    shutil.copy(PAGES / module, folder)
    script = folder / "page.py"
    script.write_text("\n".join([*blocks, f"import json\nopen('told.json', 'w').write(json.dumps({then}))"]))
    environment = os.environ | {
        "CALIBRANT_SERVER": service.url,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "1",
    }
    done = subprocess.run(
        [sys.executable, str(script)], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "told.json").read_text())


@_without("mlflow", "sqlalchemy", "skops")
def test_a_calibrated_model_and_its_evaluation_are_logged_to_mlflow(service: Stack, tmp_path: Path) -> None:
    raw = "model.predict_proba(X_test)[:, 1]"
    told = _told(
        "mlflow.md",
        "calibrant_pyfunc.py",
        service,
        tmp_path,
        "[mlflow.get_run(run.info.run_id).data.metrics, calibrated.tolist(),"
        f" client.calibrate('credit', {raw}).tolist(), report.model_dump(mode='json')]",
    )
    metrics, served, expected, report = told
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
    found, p, label = _told(
        "evidently.md",
        "calibrant_evidently.py",
        service,
        tmp_path,
        "[found, *(current.as_dataframe()[name].tolist() for name in ('p', 'label'))]",
    )
    with Calibrant(service.url) as client:
        measures = client.evaluate(predictions=p, labels=label, measures=["ece", "log-loss"]).measures
    drift, auc, ece, log_loss = (metric["value"] for metric in found["metrics"])
    assert (ece, log_loss) == (measures["ece"].debiased, measures["log-loss"].value)
    assert ece > 0.1
    assert drift < 0.1 < 0.8 < auc
    assert [test["status"] for test in found["tests"]] == ["FAIL"]
    assert "Calibration: ece of p" in (tmp_path / "calibration-and-drift.html").read_text("utf-8")
