"""What the dashboard and the alert rules ask Prometheus for: expressions, and the metrics and labels in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import promql_parser as promql
import yaml

DEPLOY = Path(__file__).parents[1] / "deploy"
RULES = DEPLOY / "prometheus" / "rules.yaml"
DASHBOARD = DEPLOY / "grafana" / "calibrant.json"
BOARD: dict[str, Any] = json.loads(DASHBOARD.read_text("utf-8"))
GROUPS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
ALERTS: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]
PANELS: list[dict[str, Any]] = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
#: Labels that a scrape adds by itself.
OF_THE_SCRAPE = {"job", "instance", "pod"}


@dataclass
class Asked:
    """The labels that an expression names: of each metric its matchers', and of all of it those that it groups by."""

    matched: dict[str, set[str]] = field(default_factory=dict)
    grouped: set[str] = field(default_factory=set)


def expressions() -> Iterator[tuple[str, str]]:
    """Where each expression stands, and itself, with values in the place of the dashboard's variables."""
    for alert in ALERTS:
        yield alert["alert"], alert["expr"]
    for panel in PANELS:
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"].replace("$__rate_interval", "5m")


def variables() -> Iterator[tuple[str, str, str]]:
    """Each variable that asks for values: its name, the selector, and the label whose values they are."""
    for variable in BOARD["templating"]["list"]:
        if variable["type"] == "query":
            match = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert match is not None
            yield variable["name"], match[1], match[2]


def asked_by(expression: str) -> Asked:
    """The metrics and labels of an expression; raises ``ValueError`` where it is none."""
    asked = Asked()
    _walk(promql.parse(expression), asked)
    return asked


def _walk(node: Any, asked: Asked) -> None:
    if isinstance(node, promql.MatrixSelector):
        _walk(node.vector_selector, asked)
    elif isinstance(node, promql.VectorSelector):
        asked.matched.setdefault(node.name or "", set()).update(matcher.name for matcher in node.matchers.matchers)
    elif isinstance(node, promql.BinaryExpr):
        matching = None if node.modifier is None else node.modifier.matching
        asked.grouped.update([] if matching is None else matching.labels)
        _walk(node.lhs, asked)
        _walk(node.rhs, asked)
    elif isinstance(node, promql.AggregateExpr):
        asked.grouped.update([] if node.modifier is None else node.modifier.labels)
        _walk(node.expr, asked)
    elif isinstance(node, promql.Call):
        for argument in node.args:
            _walk(argument, asked)
    elif isinstance(node, promql.ParenExpr | promql.SubqueryExpr | promql.UnaryExpr):
        _walk(node.expr, asked)
    else:
        assert isinstance(node, promql.NumberLiteral | promql.StringLiteral)
