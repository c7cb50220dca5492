"""Definitions of monitors: created, changed and deleted; validated as a whole, with defaults filled in."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from redis.client import Pipeline

from backend.kinds import take_slot_for
from backend.kinds.classes import read_stored_batch
from backend.monitors.adaptive_levels import check_adaptive
from backend.monitors.evidence import check_times, settling
from backend.monitors.kinds import check_map_now, kind_of_monitor
from backend.monitors.online_maps import started
from backend.monitors.rules.catalogue import RULE_TYPES
from backend.monitors.webhook_requests import check_secret, made_secret
from backend.monitors.webhook_targets import Targets
from backend.monitors.webhooks import prepare
from backend.monitors.windows import check_window, reservoir_of_batch, tally_of_batch, window_named
from backend.requester import Requester
from backend.store.chores import Chore, schedule
from backend.store.clock import now, stamp
from backend.store.errors import StorageError, UnknownMap, UnknownMapReference
from backend.store.monitors.reference import write_reference
from backend.store.monitors.standings import forget_label_shifts
from backend.store.registry.maps import read_reference
from calibrant.core.errors import (
    CalibrationError,
    InvalidOption,
)
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.measures.intervals import Resampling
from calibrant.monitoring.reservoir import Reservoir
from calibrant.monitoring.tally import Tally
from schemas.base import HOUR, MINUTE, Document, merge_patch
from schemas.monitor_answers import answer_of
from schemas.monitors import (
    MAX_BUCKETS,
    MAX_RESERVOIR_NUMBERS,
    MIN_RESERVOIR,
    HookSpec,
    MonitorBody,
    MonitorPatch,
    MonitorRecord,
    ReferenceSpec,
    WindowSpec,
)

# --- The champion that challengers are compared with, and the alias that is moved


def target_of(record: MonitorBody) -> str:
    """The name for challengers: that of the policy, else of the monitor's map, else of the monitor."""
    named = None if record.map is None else read_reference(record.map)
    return record.recalibration.name or (None if named is None else named.name) or record.name


def unlike_alias(body: MonitorBody) -> str | None:
    """The reason why the alias to move does not match the map that challengers are compared with, if any.

    The monitor's map must be the alias itself, so that rows use the new map after the alias has moved. Without a map
    the uncalibrated predictions are compared, so the alias must not exist yet.
    """
    wanted = f"{target_of(body)}@{body.recalibration.alias}"
    if body.map in (None, wanted):
        return None
    return f"would move {wanted}, but challengers are compared with the monitor's map {body.map}: both must be the same"


# --- Validation of a definition, and its defaults

#: Number of buckets in the shortest window by default.
_A_WINDOW = 24


def settled(body: MonitorBody, fitted: CalibrationMap | None) -> MonitorBody:
    """The validated definition with the full name of its reduction and default times; ``fitted`` is its map.

    Raises ``CalibrationError``, which names the invalid field.
    """
    bucket = _default_bucket(body.windows) if body.bucket is None else body.bucket
    said = body.model_fields_set
    retention = body.retention if "retention" in said else min(body.retention, bucket * MAX_BUCKETS)
    horizon = body.horizon if "horizon" in said else min(body.horizon, retention)
    filled: dict[str, Any] = {"bucket": bucket, "retention": retention, "horizon": horizon}
    kind = kind_of_monitor(body)
    kind.check()
    whole = body.model_copy(update=filled | kind.defaults(fitted))
    check(whole)
    return whole


def check(body: MonitorBody) -> None:
    """Raise the first error of a complete definition, except for its map."""
    _check_windows(body)
    Resampling.read(body.interval)
    _check_reference(body.reference)
    kind_of_monitor(body).check()
    _check_reservoir(body)
    _check_rules(body)
    _check_distinct([hook.name for hook in body.hooks], "hooks")
    for i, hook in enumerate(body.hooks):
        check_secret(hook.secret, f"/hooks/{i}/secret")
    _check_recalibration(body)


def _default_bucket(windows: Sequence[WindowSpec]) -> int:
    """Seconds of a bucket: 1/24 of the shortest time window, at least a minute; an hour without a time window.

    Longer if the longest window would otherwise have more buckets than allowed.
    """
    spans = [window.seconds for window in windows if window.seconds is not None]
    return max(MINUTE, min(spans) // _A_WINDOW, -(-max(spans) // MAX_BUCKETS)) if spans else HOUR


def _check_windows(body: MonitorBody) -> None:
    bucket = body.bucket or MINUTE
    _check_distinct([window.name for window in body.windows], "windows")
    for i, window in enumerate(body.windows):
        if (window.seconds is None) == (window.rows is None):
            raise InvalidOption.at(f"/windows/{i}", "must have one of seconds and rows")
        if window.seconds is not None and window.seconds < bucket:
            raise InvalidOption.at(f"/windows/{i}/seconds", f"must be at least the length of a bucket, {bucket}")
        if window.seconds is not None and window.seconds > body.retention:
            raise InvalidOption.at(f"/windows/{i}/seconds", f"must be at most the retention, {body.retention}")
    if body.retention > bucket * MAX_BUCKETS:
        longest = bucket * MAX_BUCKETS
        message = (
            f"must be at most {longest} with buckets of {bucket} s: a monitor may have at most {MAX_BUCKETS} buckets"
        )
        raise InvalidOption.at("/retention", message)
    if body.horizon > body.retention:
        raise InvalidOption.at("/horizon", f"must be at most the retention, {body.retention}")


def _check_reference(reference: ReferenceSpec | None) -> None:
    if reference is None:
        return
    spans = (reference.start is not None, reference.end is not None)
    if spans != (reference.batch is None,) * 2:
        raise InvalidOption.at("/reference", "must have start and end, or batch")
    if reference.start is not None and reference.end is not None and not reference.start < reference.end:
        raise InvalidOption.at("/reference/end", "must be after the start")


def _check_reservoir(body: MonitorBody) -> None:
    if body.reservoir is None:
        return
    if body.n_classes is None:
        raise InvalidOption.at("/reservoir", "needs predictions of several columns; set n_classes")
    most = MAX_RESERVOIR_NUMBERS // body.n_classes
    if most < MIN_RESERVOIR:
        classes = MAX_RESERVOIR_NUMBERS // MIN_RESERVOIR
        raise InvalidOption.at("/reservoir", f"is not supported for more than {classes} classes")
    if body.reservoir > most:
        raise InvalidOption.at("/reservoir", f"must be at most {most} for {body.n_classes} classes")


def _check_rules(body: MonitorBody) -> None:
    kind_of_monitor(body).requests()  # raises if the measures are invalid
    _check_distinct([rule.name for rule in body.rules], "rules")
    for i, rule in enumerate(body.rules):
        RULE_TYPES[rule.kind].validate(rule, body, f"/rules/{i}")


def _check_recalibration(body: MonitorBody) -> None:
    policy = body.recalibration
    if policy.policy == "off":
        _check_method(body)  # of a challenger on request
        return
    unlike = unlike_alias(body)
    if unlike is not None:
        raise InvalidOption.at("/recalibration", unlike)
    if policy.window is not None:
        check_window(body, policy.window, "/recalibration/window")
    kind_of_monitor(body).check_policy()
    if policy.policy == "adaptive":
        check_adaptive(body)
        return
    if policy.policy == "online":
        _check_online(body)
        return
    _check_settling(body)
    _check_method(body)


def _check_method(body: MonitorBody) -> None:
    try:
        kind_of_monitor(body).check_method()
    except CalibrationError as error:
        raise error.under("/recalibration") from None


def _check_online(body: MonitorBody) -> None:
    check_times(body, settling(body))
    try:
        started(body, None)
    except CalibrationError as error:
        raise error.under("/recalibration") from None


def _check_settling(body: MonitorBody) -> None:
    """Check that the rows of a challenger are kept until their labels are complete, and selected by time."""
    window, after = window_named(body, body.recalibration.window), settling(body)
    if not after or window is None:
        return
    if window.seconds is None:
        raise InvalidOption.at(
            "/recalibration/after", f"must be 0 for a window of rows, but is {after} because of the evidence rules"
        )
    if window.seconds + after > body.retention:
        longest = body.retention - window.seconds
        raise InvalidOption.at(
            "/recalibration/after", f"is {after}, but must be at most {longest}: older rows are dropped"
        )


def _check_distinct(names: Sequence[str], field: str) -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise InvalidOption.at(f"/{field}/{i}/name", "repeats an earlier name")


# --- Creating, changing and deleting monitors

#: Raises if the current state is not what the caller expects.
Require = Callable[[Document | None], None]

#: The names of hooks with newly generated secrets.
Fresh = frozenset[str]


def define_monitor(requester: Requester, targets: Targets, body: MonitorBody) -> tuple[MonitorRecord, Fresh]:
    """Validate a definition and store it; raises ``MonitorExists``. ``targets`` are those allowed for its hooks."""
    fitted = map_of(requester, body)
    body = settled(body, fitted)
    reference, vectors = _reference(requester, body, fitted)
    hooks, fresh = _with_secrets(requester, targets, body.hooks, [])
    moment = now()
    record = MonitorRecord(
        **body.model_copy(update={"hooks": hooks}).model_dump(),
        id=requester.new_id("monitor"),
        created_at=stamp(moment),
        created_by=requester.who,
        configured_by=requester.store.author.actor.id,
        started_at=moment.timestamp(),
    )
    keys = requester.store.keys
    stored = requester.store.monitors.put(
        record, lambda pipe: write_reference(pipe, keys, record.id, reference, vectors)
    )
    _request_look(requester, stored)
    return stored, fresh


class _Changed(Exception):
    """Another request has changed the monitor."""


def change_monitor(
    requester: Requester, targets: Targets, name: str, changes: MonitorPatch, require: Require
) -> tuple[MonitorRecord, Fresh]:
    """Merge changes into a monitor, unless ``require`` raises; starts over if it changes meanwhile."""
    changed_fields = {field: getattr(changes, field) for field in changes.model_fields_set}
    while True:
        before = requester.store.monitors.get(name)
        require(answer_of(before))
        with contextlib.suppress(_Changed):
            changed, fresh = _change(requester, targets, before, changed_fields)
            _request_look(requester, changed)
            return changed, fresh
        requester.go_on()


def _change(
    requester: Requester, targets: Targets, before: MonitorRecord, changed_fields: Mapping[str, Any]
) -> tuple[MonitorRecord, Fresh]:
    """Store the changed monitor with its reference; raises ``_Changed`` if it is no longer as ``before``.

    Without a difference nothing is stored, so that the caller does not become the one who configured it.
    Secrets and the tally of a reference depend on the monitor before, and take long to read and count.
    """
    hooks, fresh = _with_secrets(requester, targets, changed_fields.get("hooks", []), before.hooks)
    changed_fields = {**changed_fields, **({"hooks": hooks} if "hooks" in changed_fields else {})}
    if "recalibration" in changed_fields:
        changed_fields["recalibration"] = kind_of_monitor(before).with_method(changed_fields["recalibration"])
    merged = {field: _merged(getattr(before, field), change) for field, change in changed_fields.items()}
    changed = before.model_copy(update=merged)
    if changed != before:
        changed = changed.model_copy(update={"configured_by": requester.store.author.actor.id})
    again = changed.reference != before.reference
    reference, vectors = None, None
    if again:
        reference, vectors = _reference(requester, changed, current_map_of(requester, before))
    keys = requester.store.keys

    def change(record: MonitorRecord) -> MonitorRecord:
        if record != before:
            raise _Changed
        check(changed)
        return changed

    def with_it(pipe: Pipeline) -> None:
        forget_label_shifts(pipe, keys, before, changed)
        if again:
            write_reference(pipe, keys, changed.id, reference, vectors)

    return requester.store.monitors.patch(before.name, change, with_it), fresh


def _merged(before: Any, change: Any) -> Any:
    """A changed field: objects are merged, anything else is replaced."""
    if not (isinstance(before, Document) and isinstance(change, Document)):
        return change
    return type(before)(**merge_patch(before.model_dump(exclude_unset=True), change.model_dump(exclude_unset=True)))


def delete_monitor(requester: Requester, name: str, require: Require) -> None:
    """Delete a monitor and all its data, unless ``require`` raises."""
    requester.store.monitors.delete(name, lambda record: require(answer_of(record)))


def _request_look(requester: Requester, record: MonitorRecord) -> None:
    schedule(requester.store.redis, Chore("look", requester.store.keys.tenant, record.id))


def map_of(requester: Requester, body: MonitorBody) -> CalibrationMap | None:
    """The map of a monitor; raises ``UnknownMap`` at ``/map``."""
    return None if body.map is None else requester.find_map(body.map).map


def current_map_of(requester: Requester, record: MonitorRecord) -> CalibrationMap | None:
    """The map of a stored monitor; raises ``UnknownMapReference``, and the errors of ``check_map_now``."""
    try:
        fitted = map_of(requester, record)
    except UnknownMap as error:
        raise UnknownMapReference("the map of the monitor no longer exists") from error
    if fitted is not None:
        check_map_now(record, fitted)
    return fitted


def _reference(
    requester: Requester, body: MonitorBody, fitted: CalibrationMap | None
) -> tuple[Tally | None, Reservoir | None]:
    """The tally of the reference batch, and its reservoir if the monitor keeps one; None if it is not a batch."""
    if body.reference is None or body.reference.batch is None:
        return None, None
    try:
        take_slot_for(requester, body.reference.batch)
        batch = read_stored_batch(requester.store.batches, body.reference.batch, where="/reference/batch")
    except StorageError as error:
        raise type(error)(error.detail, "/reference/batch") from error
    tally = tally_of_batch(batch, body, fitted)
    return tally, None if body.reservoir is None else reservoir_of_batch(batch, body.reservoir)


def _with_secrets(
    requester: Requester, targets: Targets, hooks: list[HookSpec], known: list[HookSpec]
) -> tuple[list[HookSpec], Fresh]:
    """Validate the hooks and give each a secret: its own, that of the existing hook with its name, or a new one."""
    names = {hook.name for hook in known}
    prepared = prepare(
        hooks,
        targets,
        now=now().timestamp(),
        make=lambda name: made_secret(requester.seed, name),
        before=known,
    )
    return prepared, frozenset(hook.name for hook in hooks if hook.secret is None and hook.name not in names)
