"""The error level that follows the coverage of a monitor: its options, its value, and what callers see of it."""

from __future__ import annotations

from backend.monitors.evidence import check_times
from backend.monitors.windows import bucket_seconds
from calibrant.core.errors import CalibrationError, InvalidOption
from calibrant.sets.adaptive import AdaptiveAlpha, start_adaptive
from schemas.base import MINUTE
from schemas.monitor_alarms import Standing
from schemas.monitor_online import AdaptiveReading, AdaptiveStanding
from schemas.monitors import MonitorBody, MonitorRecord

#: Options that callers may set.
OPTIONS = ("gamma",)


def check_adaptive(body: MonitorBody) -> None:
    """Raise ``InvalidOption`` for options or times of the policy."""
    policy, bucket = body.recalibration, body.bucket or MINUTE
    if body.coverage is None:
        raise InvalidOption.at("/recalibration/policy", "must not be adaptive: the monitor is not of prediction sets")
    check_times(body, policy.after or 0)
    if (policy.after or 0) + policy.every + bucket > body.retention:
        raise InvalidOption.at("/recalibration/every", "is too long: buckets would be dropped before the next version")
    if not set(policy.options) <= set(OPTIONS):
        raise InvalidOption.at("/recalibration/options", f"must be among: {', '.join(OPTIONS)}")
    try:
        start_adaptive(1.0 - body.coverage, **policy.options)
    except CalibrationError as error:
        raise error.under("/recalibration/options") from None


def level_of(adaptive: AdaptiveStanding) -> AdaptiveAlpha:
    """The error level for the next sets, after the labels that were counted."""
    return AdaptiveAlpha(adaptive.target, adaptive.gamma, adaptive.first, adaptive.rows, adaptive.misses)


def read_adaptive(record: MonitorRecord, standing: Standing) -> AdaptiveReading | None:
    """The progress as callers see it; None for another policy, or before the start."""
    adaptive = standing.adaptive
    if record.recalibration.policy != "adaptive" or adaptive is None:
        return None
    level = level_of(adaptive)
    return AdaptiveReading.with_fields_of(
        adaptive,
        next_level=level.value,
        error=level.error,
        bound=level.bound(adaptive.delay) if adaptive.rows else None,
        counted_until=float(adaptive.following * bucket_seconds(record)),
        next_at=adaptive.written_at + record.recalibration.every,
    )
