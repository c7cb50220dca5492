"""A challenger: fitted to rows of a monitor's window, and compared with the champion on others of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from calibrant.batch import Batch, read_batch
from calibrant.errors import CalibrationError
from calibrant.maps.calibration_map import CalibrationMap, load
from calibrant.methods import FitContext, Fitting
from calibrant.tallies.gains import Gain, gain
from calibrant.tallies.tally import FOLDS, Tally
from monitoring.champions import target_of, unlike_alias
from monitoring.evidence import settling
from monitoring.thresholds import tally_of_window
from monitoring.windows import window_named
from schemas.maps import FitSpec, MapRecord
from schemas.monitor_alarms import Occasion
from schemas.monitors import MonitorRecord
from storage.errors import UnknownAlias, UnknownMap
from storage.keyspace import derived_id
from storage.monitors.buckets import Buckets, TallyKind
from storage.store import Store, map_record

#: The fold whose rows are compared on; the fit has the others.
COMPARED = FOLDS - 1
#: Logits of exact 0 and 1 would be infinite.
_TINY = 2.0**-52


@dataclass(frozen=True)
class Challenge:
    """What became of a challenger: ``draft`` is its record where it is better beyond the level, else ``why`` not.

    ``code`` is that of the problem where the fit or the comparison was refused.
    """

    why: str | None = None
    code: str | None = None
    champion: str | None = None
    gain: Gain | None = None
    draft: MapRecord | None = None


def challenge(store: Store, record: MonitorRecord, occasion: Occasion, now: float) -> Challenge:
    """Fit a challenger upon an alarm, and compare it; nothing is stored."""
    asked = record.recalibration
    unlike = unlike_alias(record)
    if unlike is not None:
        return Challenge(unlike)
    if record.map is None and _is_alias(store, target_of(record), asked.alias):
        return Challenge(
            f"{target_of(record)}@{asked.alias} is there, whose map was not compared: the monitor has none"
        )
    window = window_named(record, asked.window)
    if window is None:
        return Challenge("the monitor has no such window any more")
    kind: TallyKind = "measured" if record.map is None else "raw"
    tally = tally_of_window(Buckets(store.redis, store.keys, record), record, window, now, kind, settling(record))
    if len(tally) < asked.least_rows:
        return Challenge(f"the window has {len(tally)} labelled rows, and {asked.least_rows} are needed")
    try:
        champion = None if record.map is None else store.maps.get(record.map)
    except UnknownMap:
        return Challenge("the monitor's map is not there any more", "unknown-map")
    curve = None if champion is None else load(champion.document)
    if curve is not None and curve.of_vector:
        return Challenge("the monitor's map is one of the whole vector, and a challenger would be one of one event")
    told = Challenge(champion=None if champion is None else champion.id)
    try:
        return _compared(record, occasion, tally, curve, told)
    except CalibrationError as error:
        return replace(told, why=error.detail, code=error.code)


def _compared(
    record: MonitorRecord, occasion: Occasion, tally: Tally, champion: CalibrationMap | None, told: Challenge
) -> Challenge:
    """Fit to all folds but one, compare on that one."""
    asked = record.recalibration
    train = tally.of_folds([fold for fold in range(FOLDS) if fold != COMPARED])
    batch = _batch(train, record)
    fitted = _fitted(batch, record)
    curve = None if champion is None else champion.curve
    found = gain(tally.of_folds([COMPARED]), curve, fitted.curve, asked.level)
    told = replace(told, gain=found)
    if found.low <= 0.0:
        return replace(told, why=f"it is not better beyond the level of {asked.level:g}")
    spec = FitSpec(
        method=asked.method,
        name=None,  # a version of a name would go live for all who ask for the name alone
        options=asked.options,
        batch="",
        reduction=fitted.reduction,
        seed=0,
        tags={
            "monitor": record.name,
            "alarm": occasion.seed,
            "rows": str(len(tally)),
            "gain": f"{found.value:.6g} ({found.low:.6g} to {found.high:.6g})",
        },
        description="fitted upon an alarm",
    )
    draft = map_record(derived_id("map", f"{record.uid} {occasion.seed}"), spec, fitted, batch)
    return replace(told, draft=draft.model_copy(update={"n": len(train)}))


def _is_alias(store: Store, name: str, alias: str) -> bool:
    try:
        store.aliases.get(name, alias)
    except UnknownAlias:
        return False
    return True


def _batch(tally: Tally, record: MonitorRecord) -> Batch:
    """The rows of a tally as a batch on the monitor's scale, each cell with its count as frequency weight."""
    event = tally.event()
    if record.scale == "probability":
        return read_batch(event.p, event.y, event.w)
    p = np.clip(event.p, _TINY, 1.0 - _TINY)
    return read_batch(np.log(p) - np.log1p(-p), event.y, event.w, scale="logit")


def _fitted(batch: Batch, record: MonitorRecord) -> CalibrationMap:
    """The map of the monitor's event, which takes predictions as the monitor does."""
    asked = record.recalibration
    fitted = Fitting.read(asked.method, asked.options, "binary").run(batch, FitContext(0, "cpu", None))
    return replace(fitted, reduction=record.reduction or "binary", n_classes=record.n_classes)
