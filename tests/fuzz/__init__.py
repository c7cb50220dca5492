"""Schemathesis over the whole OpenAPI document, against a live service with its store and its worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx

from tests.fuzz.bodies import BATCH_VARIABLE

ALL_PHASES = "examples,coverage,fuzzing,stateful"
#: What no answer may break. That a request of the right shape is accepted is not asked: its numbers may be wrong.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
    "use_after_delete",
    "problem_code_conformance",
)
_NO_BATCHES = json.dumps({"classification": "batch_1", "regression": "batch_2"})
_ROOT = Path(__file__).parents[2]
_HOOKS = Path(__file__).with_name("hooks.py")


def fuzz(
    url: str,
    *,
    examples: int,
    phases: str = ALL_PHASES,
    seed: int = 1,
    document: Path | None = None,
    is_host: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Send what a document allows and what it does not; a status of 0 says that nothing was found.

    The document is the service's own, unless another is given. A host stores nothing that bodies could refer to.
    """
    command = [
        str(Path(sys.executable).with_name("st")),
        "run", str(document or f"{url}/openapi.json"), "--url", url,
        "--phases", phases, "--checks", ",".join(CHECKS), "--max-examples", str(examples), "--seed", str(seed),
        "--request-timeout", "60", "--generation-database", "none", "--suppress-health-check", "all",
        "--warnings", "off", "--no-color", "--continue-on-failure",
    ]  # fmt: skip
    # For each request, its client looks through all variables for proxies: they took a tenth of its time.
    variables = {name: os.environ[name] for name in ("PATH", "HOME", "OMP_NUM_THREADS") if name in os.environ} | {
        "SCHEMATHESIS_HOOKS": str(_HOOKS),
        "PYTHONPATH": str(_ROOT),
        # Without a folder that stays, Hypothesis computes the tables of Unicode in each run, in 1.5 s.
        "HYPOTHESIS_STORAGE_DIRECTORY": str(_ROOT / ".hypothesis"),
        BATCH_VARIABLE: _NO_BATCHES if is_host else _prepare(url),
    }
    # It keeps what it found in the folder where it runs, and would begin with that the next time.
    with tempfile.TemporaryDirectory(prefix="calibrant-fuzz-") as folder:
        return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def _prepare(url: str) -> str:
    """Store the batches and the maps that bodies refer to; the id of a batch of each prediction kind, as JSON."""
    from service.examples.calls import all_examples  # the hooks import this package too, in a process of their own

    records = [
        httpx.post(url + example.call.split()[1], json=example.body, timeout=600).raise_for_status().json()
        for example in all_examples()
        if example.call in ("POST /batches", "POST /maps") and example.status == 201
    ]
    return json.dumps(
        {record["prediction_kind"]: record["id"] for record in records if record["id"].startswith("batch_")}
    )
