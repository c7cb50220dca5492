"""What the dashboard and the alert rules ask for is what a running service exposes."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import httpx
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

import calibrant
from calibrant.client import Calibrant
from service.stack import Stack
from tests.dashboards import ALERTS, OF_THE_SCRAPE, PANELS, asked_by, expressions, variables
from tests.integration.redis_server import until
from tests.rows import draw_event

P, Y = draw_event(300, 6)
#: Metrics that a look at a monitor brings.
OF_A_LOOK = (
    "calibrant_calibration_error_ratio",
    "calibrant_measure",
    "calibrant_monitor_alarm",
    "calibrant_monitor_class_frequency_ratio",
    "calibrant_monitor_changed_timestamp_seconds",
    "calibrant_monitor_drift_evidence",
    "calibrant_monitor_estimate",
    "calibrant_monitor_event_frequency_ratio",
    "calibrant_monitor_online_weight_ratio",
    "calibrant_monitor_realised",
)


def _labels(http: httpx.Client) -> dict[str, set[str]]:
    """The labels of every sample that is exposed now, by its name."""
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(http.get("/metrics").text):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


@pytest.fixture(scope="module")
def exposed(service: Stack) -> Iterator[dict[str, set[str]]]:
    """The metrics of a service that has done one of everything, and looked at a monitor."""
    with Calibrant(service.url) as client, httpx.Client(base_url=service.url, timeout=600) as http:
        client.fit("pl", predictions=P, labels=Y, timeout=600)
        client.create_monitor(
            "exposed", measures=["ece", "log-loss"], bucket=60, retention=5 * 86_400, recalibration={"policy": "online"}
        )
        earlier = time.time() - 3600.0 + np.arange(300)
        client.send_rows("exposed", P, Y, ids=np.arange(300), timestamps=earlier)  # for the online map
        client.send_rows("exposed", P, 1 - Y)  # for an alarm
        client.create_monitor("estimated", bucket=60, reference={"batch": client.upload(P, Y).id})
        client.send_rows("estimated", P, Y)
        vectors, classes, _ = calibrant.logistic_normal(2000, n_classes=3, seed=0)
        batch = client.upload(vectors, classes, scale="logit").id
        client.create_monitor(
            "classes",
            n_classes=3,
            scale="logit",
            reduction="confidence",
            reservoir=1000,
            bucket=60,
            reference={"batch": batch},
        )
        client.send_rows("classes", vectors[:500], classes[:500])
        until(lambda: set(OF_A_LOOK) <= _labels(http).keys(), 600.0)
        labels = _labels(http)
        # A service without an issuer of tokens has no keys of one, whose age tests/integration/test_oidc.py reads.
        yield labels | {"calibrant_issuer_keys_age_seconds": set()}
        client.delete_monitor("exposed")
        client.delete_monitor("estimated")


@pytest.mark.slow
def test_every_queried_metric_and_label_is_exposed(exposed: dict[str, set[str]]) -> None:
    asked = [*expressions(), *((name, selector) for name, selector, _ in variables())]
    for where, expression in asked:
        query = asked_by(expression)
        for metric, matched in query.matched.items():
            assert metric in exposed, f"{where}: {metric}"
            assert matched <= exposed[metric], f"{where}: {metric}"
        known = set.union(*(exposed[metric] for metric in query.matched)) | OF_THE_SCRAPE
        assert query.grouped <= known, where


def test_every_label_of_a_legend_or_an_annotation_is_one_of_its_metrics(exposed: dict[str, set[str]]) -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            metrics = asked_by(target["expr"].replace("$__rate_interval", "5m")).matched
            known = set.union(*(exposed[metric] for metric in metrics)) | OF_THE_SCRAPE
            labels = re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", ""))
            assert set(labels) <= known, panel["title"]
    for alert in ALERTS:
        known = set.union(*(exposed[metric] for metric in asked_by(alert["expr"]).matched))
        labels = re.findall(r"\$labels\.(\w+)", " ".join(alert["annotations"].values()))
        assert set(labels) <= known, alert["alert"]


def test_the_values_of_variables_are_those_of_a_label(exposed: dict[str, set[str]]) -> None:
    for name, selector, label in variables():
        (metric,) = asked_by(selector).matched
        assert label in exposed[metric], name


def test_every_metric_of_a_monitor_is_shown(exposed: dict[str, set[str]]) -> None:
    shown = {metric for _, expression in expressions() for metric in asked_by(expression).matched}
    assert {name for name in exposed if name.startswith(("calibrant_monitor_", *OF_A_LOOK))} <= shown
