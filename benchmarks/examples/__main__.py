"""``make examples``: the answers of the OpenAPI document's examples, from a service started for them."""

import json
import tempfile
from pathlib import Path

import httpx

from benchmarks.examples.record import admitting, record, settled
from calibrant.client import Calibrant
from service.stack import stack

ANSWERS = Path(__file__).parents[2] / "service" / "examples" / "answers.json"

with (
    tempfile.TemporaryDirectory(prefix="calibrant-examples-") as folder,
    (Path(folder) / "log").open("ab") as log,
    stack(host="127.0.0.1", port=0, data=Path(folder) / "data", log=log, inherited=admitting()) as running,
    httpx.Client(base_url=running.url, timeout=60) as http,
    Calibrant(running.url) as client,
):
    answers = settled(record(http, client.wait), json.loads(ANSWERS.read_text("utf-8")))
    ANSWERS.write_text(json.dumps(answers, indent=1) + "\n", encoding="utf-8")
