"""Monitors made, changed and forgotten: what a request asks for, checked against what is stored."""

from __future__ import annotations

from calibrant.maps.calibration_map import CalibrationMap
from calibrant.tallies.tally import Tally
from monitoring.definitions import check, settled
from monitoring.delivering.hooks import prepare
from monitoring.hook_secrets import made_secret
from monitoring.reference import tally_of_batch
from schemas.monitor_answers import told
from schemas.monitors import HookSpec, MonitorBody, MonitorPatch, MonitorRecord
from service.conditions import Conditions
from service.context import Context
from service.errors import InvalidField
from service.rows import check_weight
from storage.chores import Chore, ask
from storage.clock import now, stamp
from storage.errors import StorageError, UnknownMap
from storage.monitors.reference import put_reference
from storage.rows import read_stored_batch

#: What a patch may remove.
_REMOVABLE = ("description", "interval", "reference")

#: The names of the hooks whose secrets were made now.
Fresh = frozenset[str]


def define_monitor(here: Context, asked: MonitorBody) -> tuple[MonitorRecord, Fresh]:
    """Check a definition and store it; raises ``MonitorExists``."""
    fitted = _map_of(here, asked)
    body = settled(asked, fitted)
    reference = _reference(here, body, fitted)
    hooks, fresh = _with_secrets(here, body.hooks, [])
    moment = now()
    record = MonitorRecord(
        **body.model_copy(update={"hooks": hooks}).model_dump(),
        uid=here.new_id("monitor"),
        created_at=stamp(moment),
        created_by=here.who,
        started_at=moment.timestamp(),
    )
    stored = here.store.monitors.put(record)
    if reference is not None:
        put_reference(here.store.redis, here.store.keys, stored.uid, reference)
    _have_looked_at(here, stored)
    return stored, fresh


def change_monitor(
    here: Context, name: str, changes: MonitorPatch, conditions: Conditions
) -> tuple[MonitorRecord, Fresh]:
    """Merge what is given into a monitor, unless the conditions fail."""
    asked = changes.model_dump(exclude_unset=True)
    for field, value in asked.items():
        if value is None and field not in _REMOVABLE:
            raise InvalidField.at(f"/{field}", "may not be null: leave it out, and it stays as it is")
    before = here.store.monitors.get(name)
    conditions.require(told(before))
    hooks, fresh = _with_secrets(here, changes.hooks or [], before.hooks)
    given = {field: getattr(changes, field) for field in asked} | ({"hooks": hooks} if "hooks" in asked else {})
    again = "reference" in asked and changes.reference != before.reference
    reference = _reference(here, _merged(before, given), _map_of(here, before)) if again else None

    def change(record: MonitorRecord) -> MonitorRecord:
        conditions.require(told(record))
        changed = _merged(record, given)
        check(changed)
        return changed

    changed = here.store.monitors.patch(name, change)
    if again:
        put_reference(here.store.redis, here.store.keys, changed.uid, reference)
    _have_looked_at(here, changed)
    return changed, fresh


def forget_monitor(here: Context, name: str, conditions: Conditions) -> None:
    """Delete a monitor, unless the conditions fail."""
    conditions.require(told(here.store.monitors.get(name)))
    here.store.monitors.delete(name)


def _have_looked_at(here: Context, record: MonitorRecord) -> None:
    ask(here.store.redis, Chore("look", here.store.keys.tenant, record.uid))


def _merged(record: MonitorRecord, given: dict[str, object]) -> MonitorRecord:
    return record.model_copy(update=given)


def _map_of(here: Context, body: MonitorBody) -> CalibrationMap | None:
    if body.map is None:
        return None
    try:
        return here.find_map(body.map).map
    except UnknownMap as error:
        raise UnknownMap(error.detail, "/map") from error


def _reference(here: Context, body: MonitorBody, fitted: CalibrationMap | None) -> Tally | None:
    """The tally of the batch that windows are compared with; None where it is none."""
    if body.reference is None or body.reference.batch is None:
        return None
    try:
        check_weight(here, body.reference.batch)
        batch, _ = read_stored_batch(here.store.batches, body.reference.batch)
    except StorageError as error:
        raise type(error)(error.detail, "/reference/batch") from error
    return tally_of_batch(batch, body, fitted)


def _with_secrets(here: Context, hooks: list[HookSpec], known: list[HookSpec]) -> tuple[list[HookSpec], Fresh]:
    """The hooks, looked at, each with a secret: its own, that of the known hook of its name, or a fresh one."""
    names = {hook.name for hook in known}
    found = prepare(
        hooks,
        here.targets,
        now=now().timestamp(),
        make=lambda name: made_secret(here.seed, name),
        before=known,
    )
    return found, frozenset(hook.name for hook in hooks if hook.secret is None and hook.name not in names)
