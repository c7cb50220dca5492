"""deploy/grafana and deploy/prometheus, before anything runs: what their own readers say of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.dashboards import ALERTS, BOARD, DASHBOARD, DEPLOY, PANELS, RULES, asked_by, expressions, variables

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="there is no promtool")
API = yaml.safe_load_all((DEPLOY / "kubernetes/base/api.yaml").read_text("utf-8"))


def _promtool(*arguments: str | Path) -> str:
    run = subprocess.run([str(PROMTOOL), *map(str, arguments)], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def _lost(before: Any, after: Any, at: str = "") -> list[str]:
    """Where what was written is not what was read of it; defaults that were added are none of that."""
    if isinstance(before, dict) and isinstance(after, dict):
        gone = [f"{at}/{name}" for name in before.keys() - after.keys()]
        return gone + [
            lost for name in before.keys() & after for lost in _lost(before[name], after[name], f"{at}/{name}")
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [lost for i, pair in enumerate(zip(before, after, strict=True)) for lost in _lost(*pair, f"{at}/{i}")]
    return [] if before == after else [at]


def _read(board: dict[str, Any]) -> Any:
    """A dashboard as Grafana's own models have it, which pass over what they do not know."""
    register_default_plugins()
    return json.loads(JSONEncoder().encode(Dashboard.from_json(board)))


def test_grafanas_own_models_know_every_field_of_the_dashboard() -> None:
    assert _lost(BOARD, _read(BOARD)) == []


def test_a_field_that_grafana_does_not_have_would_be_found() -> None:
    board = json.loads(DASHBOARD.read_text("utf-8"))
    board["panels"][1]["fieldConfig"]["defaults"]["units"] = "s"
    assert _lost(board, _read(board)) == ["/panels/1/fieldConfig/defaults/units"]


def test_every_expression_parses_and_asks_for_a_metric() -> None:
    for where, expression in expressions():
        assert asked_by(expression).matched, where
    for _, selector, _ in variables():
        assert asked_by(selector).matched


def test_every_panel_says_what_it_shows_and_of_which_source() -> None:
    assert {variable["name"] for variable in BOARD["templating"]["list"]} == {"datasource", "tenant", "monitor"}
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}
        assert "unit" in panel["fieldConfig"]["defaults"] or "mappings" in panel["fieldConfig"]["defaults"], panel[
            "title"
        ]


def test_panels_do_not_lie_over_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not taken & cells, panel["title"]
        taken |= cells


def test_what_is_of_a_monitor_is_chosen_by_the_variables() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            for metric, labels in asked_by(target["expr"].replace("$__rate_interval", "5m")).matched.items():
                of_a_monitor = metric.startswith(("calibrant_monitor_", "calibrant_calibration_", "calibrant_measure"))
                assert ({"tenant", "monitor"} <= labels) == of_a_monitor, panel["title"]


def test_every_alert_has_a_description_and_a_severity() -> None:
    assert len({alert["alert"] for alert in ALERTS}) == len(ALERTS)
    for alert in ALERTS:
        assert alert["alert"].startswith("Calibrant")
        assert alert["labels"]["severity"] in ("warning", "critical")
        assert {"summary", "description"} <= set(alert["annotations"])
    tested = (DEPLOY / "prometheus/rules.test.yaml").read_text("utf-8")
    assert all(re.search(rf"alertname: {alert['alert']}\b", tested) for alert in ALERTS)


def test_a_cluster_is_scraped_by_the_labels_and_the_port_that_its_pods_have() -> None:
    (deployment,) = (document for document in API if document["kind"] == "Deployment")
    pod = deployment["spec"]["template"]
    config = yaml.safe_load((DEPLOY / "prometheus/scrape-kubernetes.yaml").read_text("utf-8"))["scrape_configs"][0]
    rule = config["relabel_configs"][0]
    named = {
        f"__meta_kubernetes_pod_label_{re.sub(r'[^a-z]', '_', name)}": label
        for name, label in pod["metadata"]["labels"].items()
    }
    ports = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
    *wanted, port = rule["regex"].split(";")
    assert [named[source] for source in rule["source_labels"][:-1]] == wanted
    assert port in ports


@needs_promtool
def test_prometheus_takes_the_rules_and_the_scrape() -> None:
    assert "SUCCESS" in _promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert "SUCCESS" in _promtool("check", "config", "--syntax-only", DEPLOY / "prometheus/scrape.yaml")


@needs_promtool
def test_alerts_are_raised_when_they_should_be() -> None:
    assert "SUCCESS" in _promtool("test", "rules", DEPLOY / "prometheus/rules.test.yaml")


@needs_promtool
def test_prometheus_takes_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{i}", "expr": expression} for i, (_, expression) in enumerate(expressions())]
    panels = tmp_path / "panels.yaml"
    panels.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert "SUCCESS" in _promtool("check", "rules", panels)
