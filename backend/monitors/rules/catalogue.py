"""The kinds of rules that monitors can have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.monitors.rules.coverage import COVERAGE
from backend.monitors.rules.drift import DRIFT
from backend.monitors.rules.evidence import EVIDENCE
from backend.monitors.rules.rule import RuleType
from backend.monitors.rules.threshold import THRESHOLD

#: By the name of the kind, as in the models of rules and in the states.
RULE_TYPES: Mapping[str, RuleType[Any, Any]] = {
    rule_type.kind: rule_type for rule_type in (EVIDENCE, THRESHOLD, DRIFT, COVERAGE)
}
