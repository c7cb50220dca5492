"""Definitions of monitors: created, changed and deleted; checked as a whole, with defaults filled in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from backend.batches import take_slot_for
from backend.monitors.evidence import settling
from backend.monitors.readings import numbers_of, read_measures
from backend.monitors.webhook_requests import check_secret, made_secret
from backend.monitors.webhook_targets import Targets
from backend.monitors.webhooks import prepare
from backend.monitors.windows import tally_of_batch, window_named
from backend.requester import Requester
from backend.store.batches import read_stored_batch
from backend.store.chores import Chore, ask
from backend.store.clock import now, stamp
from backend.store.errors import StorageError, UnknownMap
from backend.store.monitors.reference import put_reference
from backend.store.registry.maps import read_reference
from calibrant.calibrators import Fitting
from calibrant.errors import CalibrationError, InvalidOption, ScaleMismatch, UnknownReduction, WrongShape
from calibrant.io.errors import InvalidField
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.measures.measure import MeasureRequest
from calibrant.monitoring.tally import Tally
from calibrant.reductions import resolve
from schemas.base import Document
from schemas.monitor_answers import answer_of
from schemas.monitors import (
    HOUR,
    MAX_BUCKETS,
    MINUTE,
    HookSpec,
    MonitorBody,
    MonitorPatch,
    MonitorRecord,
    ReferenceSpec,
    ThresholdRule,
    WindowSpec,
)

# --- Which map is the champion that challengers are compared with, and which alias is moved to them


def target_of(record: MonitorBody) -> str:
    """The name under which challengers are stored: the policy's, else the monitor's map's, else the monitor's own."""
    named = None if record.map is None else read_reference(record.map)
    return record.recalibration.name or (None if named is None else named.name) or record.name


def unlike_alias(body: MonitorBody) -> str | None:
    """Why the alias that is moved is not what challengers are compared with, if it is not.

    The monitor's map must be what the alias means, and so must be what rows are mapped by after it was moved. Without
    a map predictions are compared as they are, of which no alias says anything: it must not be there yet.
    """
    wanted = f"{target_of(body)}@{body.recalibration.alias}"
    if body.map in (None, wanted):
        return None
    return f"would move {wanted}, where what is compared is the monitor's map, {body.map}: they must be the same"


# --- What a monitor may be: its definition checked as a whole, and what it leaves open filled in

#: Buckets of the shortest window, where nobody says how long they are.
_A_WINDOW = 24
#: Questions about one event of a row, whose answer is known from the row alone.
_OF_ONE_EVENT = re.compile(r"binary|confidence|class:[0-9]+|top:[0-9]+")


def settled(body: MonitorBody, fitted: CalibrationMap | None) -> MonitorBody:
    """The definition with its reduction in full and all that nobody said of times, checked; ``fitted`` is its map.

    Raises ``CalibrationError`` naming the field that is wrong.
    """
    bucket = _default_bucket(body.windows) if body.bucket is None else body.bucket
    said = body.model_fields_set
    retention = body.retention if "retention" in said else min(body.retention, bucket * MAX_BUCKETS)
    horizon = body.horizon if "horizon" in said else min(body.horizon, retention)
    filled = {"bucket": bucket, "retention": retention, "horizon": horizon}
    whole = body.model_copy(update=filled | {"reduction": _reduction(body, fitted)})
    check(whole)
    return whole


def check(body: MonitorBody) -> None:
    """Raise what is wrong with a definition whose reduction and buckets are settled; its map aside."""
    _check_windows(body)
    _check_reference(body.reference)
    requests = read_measures(body.measures, body.reduction or "binary")
    _check_rules(body, {request.key: request for request in requests})
    _check_distinct([hook.name for hook in body.hooks], "hooks")
    for i, hook in enumerate(body.hooks):
        check_secret(hook.secret, f"/hooks/{i}/secret")
    _check_recalibration(body)


def _reduction(body: MonitorBody, fitted: CalibrationMap | None) -> str:
    """The reduction's full name; raises where it, the classes and the map do not go together."""
    own = None if fitted is None or fitted.of_vector else fitted.reduction
    if fitted is not None:
        _check_map(body, fitted)
    name = resolve(own if body.reduction is None else body.reduction, body.n_classes)
    if not _OF_ONE_EVENT.fullmatch(name):
        raise UnknownReduction.at("/reduction", "of a monitor must be binary, confidence, class:k or top:r")
    if body.n_classes is None and name != "binary":
        raise UnknownReduction.at("/reduction", "of predictions of one column must be binary: give n_classes")
    if own is not None and body.n_classes is not None and name != own:
        raise UnknownReduction.at("/reduction", f"must be the map's, {own}")
    return name


def _check_map(body: MonitorBody, fitted: CalibrationMap) -> None:
    if fitted.scale != body.scale:
        raise ScaleMismatch.at("/scale", f"is {body.scale}, where the map was fitted on {fitted.scale}")
    if body.n_classes != fitted.n_classes and (body.n_classes is not None or fitted.of_vector):
        wanted = "null" if fitted.n_classes is None else str(fitted.n_classes)
        raise WrongShape.at("/n_classes", f"must be {wanted}, as the map's fit took them")


def _default_bucket(windows: Sequence[WindowSpec]) -> int:
    """Seconds of a bucket: a 24th of the shortest window of time, at least a minute; an hour without such a window.

    Longer, where there would be more of them in the longest window than there may be.
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
            raise InvalidOption.at(f"/windows/{i}/seconds", f"must be at least a bucket's, {bucket}")
        if window.seconds is not None and window.seconds > body.retention:
            raise InvalidOption.at(f"/windows/{i}/seconds", f"may be at most the retention, {body.retention}")
    if body.retention > bucket * MAX_BUCKETS:
        longest = bucket * MAX_BUCKETS
        message = f"may be at most {longest} with buckets of {bucket} s: a monitor has at most {MAX_BUCKETS} of them"
        raise InvalidOption.at("/retention", message)
    if body.horizon > body.retention:
        raise InvalidOption.at("/horizon", f"may be at most the retention, {body.retention}: labels join what is kept")


def _check_reference(reference: ReferenceSpec | None) -> None:
    if reference is None:
        return
    spans = (reference.start is not None, reference.end is not None)
    if spans != (reference.batch is None,) * 2:
        raise InvalidOption.at("/reference", "must have start and end, or batch")
    if reference.start is not None and reference.end is not None and not reference.start < reference.end:
        raise InvalidOption.at("/reference/end", "must be after the start")


def _check_rules(body: MonitorBody, measures: Mapping[str, MeasureRequest]) -> None:
    _check_distinct([rule.name for rule in body.rules], "rules")
    for i, rule in enumerate(body.rules):
        if isinstance(rule, ThresholdRule):
            _check_threshold(body, rule, measures, f"/rules/{i}")
        elif rule.after + (body.bucket or MINUTE) > body.retention:
            raise InvalidOption.at(f"/rules/{i}/after", "is so long that buckets are dropped before they count")


def _check_threshold(
    body: MonitorBody, rule: ThresholdRule, measures: Mapping[str, MeasureRequest], where: str
) -> None:
    if rule.measure not in measures:
        raise InvalidOption.at(f"{where}/measure", f"must be the key of one of the measures: {_listed(set(measures))}")
    _check_window(body, rule.window, f"{where}/window")
    if rule.clear_below is not None and rule.clear_below > rule.above:
        raise InvalidOption.at(f"{where}/clear_below", "may not be above the bound that raises")
    if rule.by == "lower" and body.interval is None:
        raise InvalidOption.at(f"{where}/by", "lower is the end of an interval, and the monitor has none")
    if rule.by != "value":
        numbers = numbers_of(measures[rule.measure], body.reduction or "binary", body.interval)
        if rule.by not in numbers:
            message = f"{rule.by} is no number that a monitor has of {rule.measure}, which has {', '.join(numbers)}"
            raise InvalidOption.at(f"{where}/by", message)


def _check_recalibration(body: MonitorBody) -> None:
    policy = body.recalibration
    if policy.policy == "off":
        return
    unlike = unlike_alias(body)
    if unlike is not None:
        raise InvalidOption.at("/recalibration", unlike)
    if policy.window is not None:
        _check_window(body, policy.window, "/recalibration/window")
    _check_settling(body)
    try:
        fitting = Fitting.read(policy.method, policy.options, "binary", where="/options")
        fitting.resolve(None)
    except CalibrationError as error:
        raise error.under("/recalibration") from None


def _check_settling(body: MonitorBody) -> None:
    """The rows that a challenger is fitted to must be kept until their labels are complete, and known by their time."""
    window, after = window_named(body, body.recalibration.window), settling(body)
    if not after or window is None:
        return
    if window.seconds is None:
        raise InvalidOption.at("/recalibration/after", f"must be 0 of a window by rows; it is {after}, as rules say")
    if window.seconds + after > body.retention:
        longest = body.retention - window.seconds
        raise InvalidOption.at(
            "/recalibration/after", f"is {after}, and may be at most {longest}: older rows are dropped"
        )


def _check_window(body: MonitorBody, name: str, where: str) -> None:
    names = {window.name for window in body.windows}
    if name not in names:
        raise InvalidOption.at(where, f"must be one of the monitor's windows: {_listed(names)}")


def _check_distinct(names: Sequence[str], field: str) -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise InvalidOption.at(f"/{field}/{i}/name", "is that of an earlier one")


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))


# --- Creating, changing and deleting monitors

#: Raises if the present state is not what the caller believes it is.
Require = Callable[[Document | None], None]

#: What a patch may remove.
_REMOVABLE = ("description", "interval", "reference")

#: The names of the hooks whose secrets were made now.
Fresh = frozenset[str]


def define_monitor(requester: Requester, targets: Targets, body: MonitorBody) -> tuple[MonitorRecord, Fresh]:
    """Check a definition and store it; raises ``MonitorExists``. ``targets`` are those that its hooks may have."""
    fitted = _map_of(requester, body)
    body = settled(body, fitted)
    reference = _reference(requester, body, fitted)
    hooks, fresh = _with_secrets(requester, targets, body.hooks, [])
    moment = now()
    record = MonitorRecord(
        **body.model_copy(update={"hooks": hooks}).model_dump(),
        uid=requester.new_id("monitor"),
        created_at=stamp(moment),
        created_by=requester.who,
        started_at=moment.timestamp(),
    )
    stored = requester.store.monitors.put(record)
    if reference is not None:
        put_reference(requester.store.redis, requester.store.keys, stored.uid, reference)
    _request_look(requester, stored)
    return stored, fresh


def change_monitor(
    requester: Requester, targets: Targets, name: str, changes: MonitorPatch, require: Require
) -> tuple[MonitorRecord, Fresh]:
    """Merge changes into a monitor, unless ``require`` raises."""
    fields = changes.model_dump(exclude_unset=True)
    for field, value in fields.items():
        if value is None and field not in _REMOVABLE:
            raise InvalidField.at(f"/{field}", "may not be null: leave it out, and it stays as it is")
    before = requester.store.monitors.get(name)
    require(answer_of(before))
    hooks, fresh = _with_secrets(requester, targets, changes.hooks or [], before.hooks)
    given = {field: getattr(changes, field) for field in fields} | ({"hooks": hooks} if "hooks" in fields else {})
    again = "reference" in fields and changes.reference != before.reference
    reference = _reference(requester, before.model_copy(update=given), _map_of(requester, before)) if again else None

    def change(record: MonitorRecord) -> MonitorRecord:
        require(answer_of(record))
        changed = record.model_copy(update=given)
        check(changed)
        return changed

    changed = requester.store.monitors.patch(name, change)
    if again:
        put_reference(requester.store.redis, requester.store.keys, changed.uid, reference)
    _request_look(requester, changed)
    return changed, fresh


def delete_monitor(requester: Requester, name: str, require: Require) -> None:
    """Delete a monitor and all that it has counted, unless ``require`` raises."""
    require(answer_of(requester.store.monitors.get(name)))
    requester.store.monitors.delete(name)


def _request_look(requester: Requester, record: MonitorRecord) -> None:
    ask(requester.store.redis, Chore("look", requester.store.keys.tenant, record.uid))


def _map_of(requester: Requester, body: MonitorBody) -> CalibrationMap | None:
    if body.map is None:
        return None
    try:
        return requester.find_map(body.map).map
    except UnknownMap as error:
        raise UnknownMap(error.detail, "/map") from error


def _reference(requester: Requester, body: MonitorBody, fitted: CalibrationMap | None) -> Tally | None:
    """The tally of the batch that windows are compared with; None where it is none."""
    if body.reference is None or body.reference.batch is None:
        return None
    try:
        take_slot_for(requester, body.reference.batch)
        batch, _ = read_stored_batch(requester.store.batches, body.reference.batch)
    except StorageError as error:
        raise type(error)(error.detail, "/reference/batch") from error
    return tally_of_batch(batch, body, fitted)


def _with_secrets(
    requester: Requester, targets: Targets, hooks: list[HookSpec], known: list[HookSpec]
) -> tuple[list[HookSpec], Fresh]:
    """The hooks, looked at, each with a secret: its own, that of the known hook of its name, or a fresh one."""
    names = {hook.name for hook in known}
    found = prepare(
        hooks,
        targets,
        now=now().timestamp(),
        make=lambda name: made_secret(requester.seed, name),
        before=known,
    )
    return found, frozenset(hook.name for hook in hooks if hook.secret is None and hook.name not in names)
