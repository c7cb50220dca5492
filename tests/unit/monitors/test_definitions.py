from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.monitors.definitions import settled
from calibrant.core.errors import CalibrationError
from calibrant.maps.calibration_map import load
from schemas.base import DAY, HOUR
from schemas.monitors import MonitorBody
from tests.refusals import refused_at

_DOCUMENT: dict[str, Any] = {
    "format": 1,
    "method": "identity",
    "family": "identity",
    "reduction": "confidence",
    "scale": "probability",
    "n_classes": 3,
    "parameters": {},
}
_THRESHOLD = {"kind": "threshold", "window": "day", "above": 0.1}


def _body(**fields: Any) -> MonitorBody:
    return MonitorBody.model_validate({"name": "spam", **fields})


def _pointer(**fields: Any) -> tuple[str, str]:
    with pytest.raises(CalibrationError) as caught:
        settled(_body(**fields), None)
    return caught.value.code, caught.value.offences[0].pointer


def test_missing_fields_of_a_definition_have_defaults() -> None:
    definition = settled(_body(), None)
    assert (definition.reduction, definition.bucket) == ("binary", HOUR)
    assert settled(_body(n_classes=3), None).reduction == "confidence"


@pytest.mark.parametrize(
    ("windows", "bucket"),
    [
        ([{"name": "w", "seconds": 7 * DAY}], 7 * HOUR),
        ([{"name": "w", "seconds": 7 * DAY}, {"name": "v", "seconds": 2 * DAY}], 2 * HOUR),
        ([{"name": "w", "rows": 1000}], HOUR),
    ],
)
def test_a_bucket_is_a_24th_of_the_shortest_window(windows: list[dict[str, Any]], bucket: int) -> None:
    assert settled(_body(windows=windows), None).bucket == bucket


def test_a_bucket_is_at_least_a_minute() -> None:
    window = {"name": "w", "seconds": 600}
    assert settled(_body(windows=[window], retention=DAY, horizon=DAY), None).bucket == 60


def test_default_times_match_the_buckets() -> None:
    hour = settled(_body(windows=[{"name": "w", "seconds": HOUR}]), None)
    assert (hour.bucket, hour.retention, hour.horizon) == (150, 1_500_000, 1_500_000)
    both = settled(
        _body(windows=[{"name": "w", "seconds": HOUR}, {"name": "y", "seconds": 360 * DAY}], retention=360 * DAY), None
    )
    assert (both.bucket, both.horizon) == (3111, 30 * DAY)


@pytest.mark.parametrize("reduction", ["binary", "confidence", "class:1", "top:2"])
def test_one_event_of_a_row_is_watched(reduction: str) -> None:
    n_classes = 2 if reduction == "binary" else 3
    assert settled(_body(reduction=reduction, n_classes=n_classes), None).reduction == reduction


@pytest.mark.parametrize(
    ("fields", "code", "pointer"),
    [
        ({"reduction": "classwise", "n_classes": 3}, "unknown-reduction", "/reduction"),
        ({"reduction": "canonical", "n_classes": 3}, "unknown-reduction", "/reduction"),
        ({"reduction": "pooled", "n_classes": 3}, "unknown-reduction", "/reduction"),
        ({"reduction": "within-top:2", "n_classes": 3}, "unknown-reduction", "/reduction"),
        ({"reduction": "class:3", "n_classes": 3}, "unknown-reduction", "/reduction"),
        ({"reduction": "confidence"}, "unknown-reduction", "/reduction"),
        ({"reduction": "sideways"}, "unknown-reduction", "/reduction"),
        ({"windows": [{"name": "w"}]}, "invalid-option", "/windows/0"),
        ({"windows": [{"name": "w", "seconds": DAY, "rows": 100}]}, "invalid-option", "/windows/0"),
        (
            {"windows": [{"name": "w", "seconds": DAY}, {"name": "w", "rows": 100}], "rules": []},
            "invalid-option",
            "/windows/1/name",
        ),
        ({"windows": [{"name": "w", "seconds": HOUR}], "bucket": DAY}, "invalid-option", "/windows/0/seconds"),
        (
            {"windows": [{"name": "w", "seconds": DAY}], "retention": HOUR, "horizon": HOUR},
            "invalid-option",
            "/windows/0/seconds",
        ),
        ({"windows": [{"name": "w", "seconds": HOUR}], "retention": 90 * DAY}, "invalid-option", "/retention"),
        ({"retention": DAY, "horizon": 2 * DAY}, "invalid-option", "/horizon"),
        ({"reference": {"start": 5.0}}, "invalid-option", "/reference"),
        ({"reference": {}}, "invalid-option", "/reference"),
        ({"reference": {"start": 5.0, "end": 6.0, "batch": "b"}}, "invalid-option", "/reference"),
        ({"reference": {"start": 5.0, "end": 5.0}}, "invalid-option", "/reference/end"),
        ({"measures": ["ece", "nonsense"]}, "unknown-measure", "/measures/1"),
        ({"measures": ["ece", "ece"]}, "invalid-option", "/measures/1"),
        ({"measures": [{"name": "ece", "n_bins": 0}]}, "invalid-option", "/measures/0/n_bins"),
        ({"measures": ["ece-pl"]}, "invalid-option", "/measures/0"),
        ({"measures": ["ks-by-predicted-class"]}, "invalid-option", "/measures/0"),
        ({"measures": [{"name": "ece", "binning": "exact"}]}, "invalid-option", "/measures/0"),
        ({"measures": ["optimal-temperature"], "n_classes": 3}, "invalid-option", "/measures/0"),
        ({"rules": [{"kind": "evidence"}, {"kind": "evidence"}]}, "invalid-option", "/rules/1/name"),
        ({"rules": [_THRESHOLD | {"measure": "brier"}]}, "invalid-option", "/rules/0/measure"),
        ({"rules": [_THRESHOLD | {"window": "week"}]}, "invalid-option", "/rules/0/window"),
        ({"rules": [_THRESHOLD | {"clear_below": 0.2}]}, "invalid-option", "/rules/0/clear_below"),
        ({"rules": [_THRESHOLD | {"group": "\u00e9" * 101}]}, "invalid-option", "/rules/0/group"),
        ({"rules": [_THRESHOLD | {"by": "lower"}], "interval": None}, "invalid-option", "/rules/0/by"),
        (
            {"rules": [_THRESHOLD | {"by": "lower", "measure": "l2-bias"}], "measures": ["l2-bias"]},
            "invalid-option",
            "/rules/0/by",
        ),
        *(
            ({"rules": [_THRESHOLD | {"by": by, "measure": key}], "measures": [key]}, "invalid-option", "/rules/0/by")
            for key, by in (
                ("brier", "debiased"),
                ("log-loss", "debiased"),
                ("smooth-test", "lower"),
                ("decomposition", "lower"),
            )
        ),
        ({"hooks": [{"url": "https://a.test"}, {"url": "https://b.test"}]}, "invalid-option", "/hooks/1/name"),
        ({"hooks": [{"url": "https://a.test", "secret": "whsec_c2hvcnQ="}]}, "invalid-option", "/hooks/0/secret"),
        ({"hooks": [{"url": "https://a.test", "secret": "no secret"}]}, "invalid-option", "/hooks/0/secret"),
        ({"recalibration": {"policy": "auto"}, "map": "fraud"}, "invalid-option", "/recalibration"),
        ({"recalibration": {"policy": "auto"}, "map": "fraud:3"}, "invalid-option", "/recalibration"),
        ({"recalibration": {"policy": "propose"}, "map": "fraud@live"}, "invalid-option", "/recalibration"),
        ({"recalibration": {"policy": "auto", "name": "f"}, "map": "g@champion"}, "invalid-option", "/recalibration"),
        ({"rules": [{"kind": "evidence", "after": 90 * DAY}]}, "invalid-option", "/rules/0/after"),
        (
            {"recalibration": {"policy": "auto"}, "rules": [{"kind": "evidence", "after": 90 * DAY - HOUR}]},
            "invalid-option",
            "/recalibration/after",
        ),
        (
            {"recalibration": {"policy": "auto", "after": DAY}, "windows": [{"name": "w", "rows": 1000}]},
            "invalid-option",
            "/recalibration/after",
        ),
        ({"recalibration": {"policy": "auto", "window": "week"}}, "invalid-option", "/recalibration/window"),
        ({"recalibration": {"policy": "auto", "method": "magic"}}, "unknown-method", "/recalibration/method"),
        ({"recalibration": {"policy": "online"}, "map": "fraud"}, "invalid-option", "/recalibration"),
        ({"recalibration": {"policy": "online", "window": "week"}}, "invalid-option", "/recalibration/window"),
        ({"recalibration": {"policy": "online", "every": HOUR - 1}}, "invalid-option", "/recalibration/every"),
        ({"recalibration": {"policy": "online", "after": 90 * DAY}}, "invalid-option", "/recalibration/after"),
        (
            {"recalibration": {"policy": "online", "options": {"loss": 1}}},
            "invalid-option",
            "/recalibration/options",
        ),
        (
            {"recalibration": {"policy": "online", "options": {"delay": 1}}},
            "invalid-option",
            "/recalibration/options",
        ),
        (
            {"recalibration": {"policy": "online", "options": {"memories": [0]}}},
            "invalid-option",
            "/recalibration/options/memories",
        ),
        (
            {"recalibration": {"policy": "online", "options": {"memories": {"a": 1}}}},
            "invalid-option",
            "/recalibration/options/memories",
        ),
        (
            {"recalibration": {"policy": "online", "options": {"memories": list(range(1, 10))}}},
            "invalid-option",
            "/recalibration/options/memories",
        ),
        (
            {"recalibration": {"policy": "online", "options": {"window": "x" * 1000}}},
            "invalid-option",
            "/recalibration/options/window",
        ),
        (
            {"recalibration": {"policy": "online", "options": {"rows_per_round": True}}},
            "invalid-option",
            "/recalibration/options/rows_per_round",
        ),
        (
            {"recalibration": {"policy": "auto", "options": {"no": 1}}},
            "invalid-option",
            "/recalibration/options",
        ),
    ],
)
def test_an_invalid_argument_is_named(fields: dict[str, Any], code: str, pointer: str) -> None:
    assert _pointer(**fields) == (code, pointer)


@pytest.mark.parametrize("reduction", ["binary", "confidence"])
@pytest.mark.parametrize(("key", "by"), [("ece", "debiased"), ("ece", "lower"), ("brier", "lower"), ("ks", "lower")])
def test_a_rule_may_compare_what_its_measure_gives(key: str, by: str, reduction: str) -> None:
    rules, n_classes = [_THRESHOLD | {"by": by, "measure": key}], None if reduction == "binary" else 3
    assert settled(_body(rules=rules, measures=[key], n_classes=n_classes), None).reduction == reduction


def test_the_map_must_take_what_is_watched() -> None:
    fitted = load(_DOCUMENT)
    assert settled(_body(n_classes=3), fitted).reduction == "confidence"
    for fields, pointer in (
        ({"n_classes": 4}, "/n_classes"),
        ({"n_classes": 3, "scale": "logit"}, "/scale"),
        ({"n_classes": 3, "reduction": "top:2"}, "/reduction"),
        ({}, "/reduction"),
    ):
        with refused_at(pointer, CalibrationError):
            settled(_body(**fields), fitted)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=10) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(["memories", "window", "rows_per_round", "delay", ""]), _JSON, max_size=4))
def test_any_options_of_an_online_map_are_accepted_or_refused_by_name(options: dict[str, Any]) -> None:
    body = _body(recalibration={"policy": "online", "options": options})
    refused: tuple[str, str] | None = None
    try:
        settled(body, None)
    except CalibrationError as error:
        refused = error.code, error.offences[0].pointer
    if refused is None:
        assert set(options) <= {"memories", "window", "rows_per_round"}
    else:
        code, pointer = refused
        assert (code, pointer.startswith("/recalibration/options")) == ("invalid-option", True)
