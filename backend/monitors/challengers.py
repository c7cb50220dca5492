"""Challengers: fitted to a window of a monitor, compared with the champion, proposed or promoted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from backend.monitors.alarms import recalibrated, step_of
from backend.monitors.definitions import target_of, unlike_alias
from backend.monitors.evidence import last_counted, next_start, settling
from backend.monitors.kinds import kind_of_monitor
from backend.monitors.looks import tally_of_window
from backend.monitors.windows import time_span, window_named
from backend.store.chores import Chore
from backend.store.clock import at, seconds
from backend.store.errors import ProposalOutdated, UnknownAlias, UnknownMap, UnknownProposal
from backend.store.keyspace import derived_id
from backend.store.monitors.buckets import Buckets, TallyKind
from backend.store.monitors.standings import StandingChange, Standings, author_of
from backend.store.registry.aliases import promote
from backend.store.store import Store
from calibrant.core.errors import CalibrationError
from calibrant.maps.calibration_map import CalibrationMap, load
from calibrant.monitoring.event_tally import Gain
from calibrant.monitoring.tally import FOLDS, Tally
from schemas.aliases import AliasRecord
from schemas.maps import MapRecord
from schemas.monitor_alarms import AuditEntry, Occasion, Proposal, RecalibrationData, Standing
from schemas.monitor_online import AdaptiveStanding, OnlineStanding
from schemas.monitors import MonitorRecord, WindowSpec

# --- Fitting a challenger to rows of a window, and comparing it with the champion on held-out rows of the window

#: The fold that is held out for the comparison.
COMPARED = FOLDS - 1
#: The description of the maps.
_DESCRIPTION = "fitted after an alarm"


@dataclass(frozen=True)
class Challenge:
    """The outcome of a challenger: ``draft`` is its record if it is significantly better, else ``why`` is set.

    ``code`` is a short form of the reason, or the code of the problem if it ``failed``. ``since`` is the start of its
    rows if they do not start with the window, and ``labelled`` is their number. A challenger without labels has an
    ``assumption`` instead of a gain.
    """

    why: str | None = None
    code: str | None = None
    failed: bool = False
    champion: str | None = None
    since: str | None = None
    labelled: int | None = None
    gain: Gain | None = None
    draft: MapRecord | None = None
    assumption: str | None = None

    @property
    def tried(self) -> bool:
        """Whether the next challenger must wait for the pause; False if this one could not be tried."""
        return self.code not in ("pause", "too-few-rows", "recalibration-off")


def challenge(
    store: Store, record: MonitorRecord, occasion: Occasion, now: float, since: str | None = None
) -> Challenge:
    """Fit a challenger for an alarm or a request and compare it, without storing anything.

    It is fitted to the rows ``since`` the start of the evidence if they are sufficient, else to the window.
    """
    policy = record.recalibration
    candidate, champion = opponent(store, record)
    window = window_named(record, policy.window)
    if candidate.why is not None or window is None:
        return candidate
    tally, since = _rows(Buckets(store.redis, store.keys, record), record, window, since, now)
    candidate = replace(candidate, since=since, labelled=len(tally))
    if len(tally) < policy.least_rows:
        why = f"the window has {len(tally)} labelled rows, but {policy.least_rows} are needed"
        return replace(candidate, why=why, code="too-few-rows")
    curve = None if champion is None else load(champion.document)
    if curve is not None and curve.of_vector:
        why = "the map of the monitor applies to the whole vector, but a challenger applies to a single event"
        return replace(candidate, why=why, code="map-of-vector")
    try:
        return _compared(record, occasion, tally, curve, candidate)
    except CalibrationError as error:
        return replace(candidate, why=error.detail, code=error.code, failed=True)


def opponent(store: Store, record: MonitorRecord) -> tuple[Challenge, MapRecord | None]:
    """The start of a challenge, or why there can be none, with the champion; None for a monitor without a map."""
    policy = record.recalibration
    unlike = unlike_alias(record)
    if unlike is not None:
        return Challenge(unlike, "alias-not-compared"), None
    if record.map is None and _is_alias(store, target_of(record), policy.alias):
        why = f"{target_of(record)}@{policy.alias} exists, but the monitor has no map, so its map was not compared"
        return Challenge(why, "alias-not-compared"), None
    if window_named(record, policy.window) is None:
        return Challenge("the monitor no longer has this window", "unknown-window"), None
    try:
        champion = None if record.map is None else store.maps.get(record.map)
    except UnknownMap:
        return Challenge("the map of the monitor no longer exists", "unknown-map", failed=True), None
    return Challenge(champion=None if champion is None else champion.id), champion


def _rows(
    buckets: Buckets, record: MonitorRecord, window: WindowSpec, since: str | None, now: float
) -> tuple[Tally, str | None]:
    """The rows since that time, and the time; if they are too few, the rows of the window, and None."""
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
    record: MonitorRecord, occasion: Occasion, tally: Tally, champion: CalibrationMap | None, challenge: Challenge
) -> Challenge:
    """Fit to all folds except one, and compare on that one."""
    train = tally.of_folds([fold for fold in range(FOLDS) if fold != COMPARED])
    gain, map_record = kind_of_monitor(record).challenger(train, tally.of_folds([COMPARED]), champion)
    if gain.low <= 0.0:
        why = f"it is not significantly better at the level {record.recalibration.level:g}"
        return replace(challenge, gain=gain, why=why, code="not-better")
    about = {"tags": _tags(record, occasion, len(tally), gain), "description": _DESCRIPTION}
    return replace(challenge, gain=gain, draft=map_record(derived_id("map", f"{record.id} {occasion.seed}"), about))


def tags_of(record: MonitorRecord, occasion: Occasion, rows: int) -> dict[str, str]:
    """The tags of a challenger that was made from this number of rows."""
    return {"monitor": record.name, "alarm": occasion.seed, "rows": str(rows)}


def _tags(record: MonitorRecord, occasion: Occasion, rows: int, difference: Gain) -> dict[str, str]:
    gain = f"{difference.value:.6g} ({difference.low:.6g} to {difference.high:.6g})"
    return tags_of(record, occasion, rows) | {"gain": gain}


def _is_alias(store: Store, name: str, alias: str) -> bool:
    try:
        store.aliases.get(name, alias)
    except UnknownAlias:
        return False
    return True


# --- Moving an alias to a challenger, and deciding on a proposal


#: Raises an error unless the waiting proposal is the one that the caller has seen.
RequireSeen = Callable[[Proposal], None]


def accept(
    store: Store, record: MonitorRecord, who: str | None, now: float, require: RequireSeen = lambda _: None
) -> Proposal:
    """Name the proposed challenger and move the alias to it.

    If this process ends in between, a worker completes the move. Raises ``UnknownProposal``, ``ProposalOutdated``, and
    the errors of ``require``.
    """
    standings = Standings(store.redis, store.keys, record, store.audit)
    proposal = waiting(standings.read())
    require(proposal)
    check_unmoved(_alias(store, proposal), proposal)
    seen_to = Chore("recalibrate", store.keys.tenant, record.id)

    def change(_: MonitorRecord, standing: Standing) -> StandingChange:
        _same(standing, proposal)
        moving = {"proposal": None, "moving": proposal, "moved_by": who, "moved_for": store.author}
        after = standing.model_copy(update=moving)
        entry = step_of("proposal-accepted", now, proposal.occasion, proposal.found, who=who)
        return StandingChange(after, [], [entry], chores=[seen_to])

    standings.change(change)
    if not move(store, record, now):
        raise ProposalOutdated("the alias was moved, or the challenger was deleted, at the same time")
    return proposal.model_copy(update={"version": store.maps.read(proposal.map).version})


def reject(
    store: Store, record: MonitorRecord, who: str | None, now: float, require: RequireSeen = lambda _: None
) -> Proposal:
    """Reject the proposed challenger; its map is kept without a name.

    Raises ``UnknownProposal``, and the errors of ``require``.
    """
    standings = Standings(store.redis, store.keys, record, store.audit)
    proposal = waiting(standings.read())
    require(proposal)
    occasion, data = proposal.occasion, proposal.found.model_copy(update={"code": "rejected"})
    look = Chore("look", store.keys.tenant, record.id)

    def change(record: MonitorRecord, standing: Standing) -> StandingChange:
        _same(standing, proposal)
        event = recalibrated(record, occasion, "monitor.recalibration.declined", data, now)
        entry = step_of("proposal-rejected", now, occasion, data, who=who)
        return StandingChange(standing.model_copy(update={"proposal": None}), [event], [entry], chores=[look])

    standings.change(change)
    return proposal


def waiting(standing: Standing) -> Proposal:
    """The pending proposal; raises ``UnknownProposal``."""
    if standing.proposal is None:
        raise UnknownProposal("no challenger is waiting to be accepted or rejected")
    return standing.proposal


def move(store: Store, record: MonitorRecord, now: float) -> bool:
    """Carry out a decision to move an alias, if there is one; False if it was moved elsewhere in the meantime."""
    standing = Standings(store.redis, store.keys, record).read()
    proposal = standing.moving
    if proposal is None:
        return True
    trail = store.by(standing.moved_for or author_of(record)).audit
    standings = Standings(store.redis, store.keys, record, trail)
    try:
        alias = promote(
            store.redis,
            store.keys,
            proposal.map,
            proposal.name,
            proposal.alias,
            who=standing.moved_by,
            check=lambda before: check_unmoved(before, proposal),
            trail=trail,
        )
        version, why, code = alias.version, None, None
    except ProposalOutdated as error:
        version, why, code = None, error.detail, "moved-meanwhile"
    except UnknownMap as error:
        version, why, code = None, "the challenger was deleted", error.code
    data = proposal.found.model_copy(update={"code": code})
    standings.change(lambda record, standing: moved(record, standing, proposal, data, version, why, now))
    return why is None


def moved(
    record: MonitorRecord,
    standing: Standing,
    proposal: Proposal,
    data: RecalibrationData,
    version: int | None,
    why: str | None,
    now: float,
) -> StandingChange | None:
    """The change after an alias was moved to a version, or could not be moved (``why``); None if already recorded.

    Evidence restarts with the rows that the new map is applied to, except for a version of an online map: its rows are
    tested as they were predicted, whatever the version.
    """
    if standing.moving != proposal:
        return None
    who, occasion = standing.moved_by, proposal.occasion
    after = standing.model_copy(update={"moving": None, "moved_by": None, "moved_for": None})
    if why is not None:
        event = recalibrated(record, occasion, "monitor.recalibration.declined", data, now)
        return StandingChange(after, [event], [step_of("alias-not-moved", now, occasion, data, who=who, detail=why)])
    if record.map is not None:
        after = after.model_copy(
            update={"applied": proposal.map}
        )  # evidence restarts here, and not again at the next check
    event = recalibrated(record, occasion, "monitor.recalibration.applied", data, now)
    for name in ("online", "adaptive") if occasion.reason is not None else ():
        progress: OnlineStanding | AdaptiveStanding | None = getattr(standing, name)
        if progress is not None:
            known = {"version": version}
            versions = [
                stored.model_copy(update=known if stored.map == proposal.map else {}) for stored in progress.versions
            ]
            after = after.model_copy(update={name: progress.model_copy(update={"versions": versions})})
    entries = [
        step_of(
            "alias-moved",
            now,
            occasion,
            data,
            who=who,
            detail=f"{proposal.name}@{proposal.alias} to {version}",
        ),
    ]
    if occasion.reason is not None:
        return StandingChange(after, [event], entries)
    entries.append(AuditEntry(at=at(now), action="evidence-restarted", who=who))
    return StandingChange(after, [event], entries, started_at=next_start(record, now), chores=[])


def check_unmoved(before: AliasRecord | None, proposal: Proposal) -> None:
    """Raise ``ProposalOutdated`` if an alias has changed since the comparison, unless it was already moved."""
    if before is not None and before.map == proposal.map:
        return
    if (None if before is None else before.map) != proposal.found.champion:
        raise ProposalOutdated("the alias points to another map than the one that was compared")
    if (None if before is None else before.revision) != proposal.revision:
        raise ProposalOutdated("the alias was moved after the comparison")


def _same(standing: Standing, proposal: Proposal) -> None:
    if standing.proposal != proposal:
        raise UnknownProposal("the proposal was decided or replaced at the same time")


def _alias(store: Store, proposal: Proposal) -> AliasRecord | None:
    try:
        return store.aliases.get(proposal.name, proposal.alias)
    except UnknownAlias:
        return None
