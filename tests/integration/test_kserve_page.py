"""docs/how-to/kserve-monitor.md, as a reader follows it: the commands run, events come in, labels join."""

from __future__ import annotations

import re
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import orjson
import yaml

from calibrant.client import Calibrant
from service.stack import Stack

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "kserve-monitor.md").read_text("utf-8")
_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
BLOCKS = [(kind, textwrap.dedent(text)) for _, kind, text in _BLOCK.findall(PAGE)]


def test_answers_of_a_predictor_are_logged_and_met_by_their_labels(service: Stack) -> None:
    commands = [text for kind, text in BLOCKS if kind == "sh"]
    assert len(commands) == PAGE.count("```sh\n") == 3
    answers = [_run(command, service) for command in commands]
    event, labels = answers[1][0], answers[2][0]
    assert (event["accepted"], event["refused"]) == (2, 0)
    assert (labels["accepted"], labels["joined"]) == (2, 2)
    assert answers[2][1]["counts"]["joined"] == 2
    again = _run(commands[1], service)[0]
    assert (again["accepted"], again["duplicates"]) == (0, 2)
    with Calibrant(service.url) as client:
        client.delete_monitor("churn-live")


def _run(command: str, service: Stack) -> list[dict[str, Any]]:
    """What the commands of a block answer."""
    here = command.replace("localhost:8000", service.url.removeprefix("http://"))
    parts = [part for part in re.split(r"^(?=curl )", here, flags=re.MULTILINE) if part]
    answers = []
    for part in parts:
        run = subprocess.run(["bash", "-c", part], capture_output=True, timeout=600, check=True)
        answers.append(orjson.loads(run.stdout))
    return answers


def test_the_loggers_of_the_manifest_post_bodies_that_the_monitor_accepts() -> None:
    service, trigger = (yaml.safe_load(text) for kind, text in BLOCKS if kind == "yaml")
    logger = service["spec"]["predictor"]["logger"]
    assert logger["mode"] == "response"
    assert logger["url"] == trigger["spec"]["subscriber"]["uri"]
    attributes = trigger["spec"]["filter"]["attributes"]
    posted = next(text for kind, text in BLOCKS if kind == "sh" and "/events" in text)
    assert f"Ce-Type: {attributes['type']}'" in posted
    assert f"Ce-Inferenceservicename: {attributes['inferenceservicename']}'" in posted
    assert attributes["inferenceservicename"] == service["metadata"]["name"]
