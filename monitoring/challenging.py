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
from monitoring.evidence import last_counted, settling
from monitoring.thresholds import tally_of_window
from monitoring.windows import time_span, window_named
from schemas.maps import FitSpec, MapRecord
from schemas.monitor_alarms import Occasion
from schemas.monitors import MonitorRecord, WindowSpec
from storage.clock import seconds
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

    ``code`` says the same in a word: where it ``failed``, that of the problem by which it was refused. ``since`` is
    when its rows begin, if not with the window; ``labelled`` their number.
    """

    why: str | None = None
    code: str | None = None
    failed: bool = False
    champion: str | None = None
    since: str | None = None
    labelled: int | None = None
    gain: Gain | None = None
    draft: MapRecord | None = None

    @property
    def tried(self) -> bool:
        """Whether the next one waits for the pause; where none could be tried yet it does not."""
        return self.code not in ("pause", "too-few-rows", "recalibration-off")


def challenge(
    store: Store, record: MonitorRecord, occasion: Occasion, now: float, since: str | None = None
) -> Challenge:
    """Fit a challenger upon an alarm, and compare it; nothing is stored.

    Its rows are those ``since`` the evidence speaks, where they are enough, else those of the window.
    """
    asked = record.recalibration
    unlike = unlike_alias(record)
    if unlike is not None:
        return Challenge(unlike, "alias-not-compared")
    if record.map is None and _is_alias(store, target_of(record), asked.alias):
        return Challenge(
            f"{target_of(record)}@{asked.alias} is there, whose map was not compared: the monitor has none",
            "alias-not-compared",
        )
    window = window_named(record, asked.window)
    if window is None:
        return Challenge("the monitor has no such window any more", "unknown-window")
    try:
        champion = None if record.map is None else store.maps.get(record.map)
    except UnknownMap:
        return Challenge("the monitor's map is not there any more", "unknown-map", failed=True)
    told = Challenge(champion=None if champion is None else champion.id)
    tally, since = _rows(Buckets(store.redis, store.keys, record), record, window, since, now)
    told = replace(told, since=since, labelled=len(tally))
    if len(tally) < asked.least_rows:
        why = f"the window has {len(tally)} labelled rows, and {asked.least_rows} are needed"
        return replace(told, why=why, code="too-few-rows")
    curve = None if champion is None else load(champion.document)
    if curve is not None and curve.of_vector:
        why = "the monitor's map is one of the whole vector, and a challenger would be one of one event"
        return replace(told, why=why, code="map-of-vector")
    try:
        return _compared(record, occasion, tally, curve, told)
    except CalibrationError as error:
        return replace(told, why=error.detail, code=error.code, failed=True)


def _rows(
    buckets: Buckets, record: MonitorRecord, window: WindowSpec, since: str | None, now: float
) -> tuple[Tally, str | None]:
    """The rows since then, and since when; of the window, and None, where there are too few of them."""
    kind: TallyKind = "measured" if record.map is None else "raw"
    after = settling(record)
    if since is not None:
        span = time_span(record, seconds(since), now + record.skew)
        last = min(span.last, last_counted(record, now, after))
        tally = buckets.tally(span.first, max(span.first, last), kind)
        if last >= span.first and len(tally) >= record.recalibration.least_rows:
            return tally, since
    return tally_of_window(buckets, record, window, now, kind, after), None


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
        return replace(told, why=f"it is not better beyond the level of {asked.level:g}", code="not-better")
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
