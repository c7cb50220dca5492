"""Moving an alias to a challenger, and deciding on one that was proposed."""

from __future__ import annotations

from monitoring.evidence import next_start
from monitoring.happening import recalibrated, step_of
from schemas.aliases import AliasRecord
from schemas.monitor_alarms import AuditEntry, Proposal, Standing
from schemas.monitor_events import RecalibrationTold
from schemas.monitors import MonitorRecord
from storage.chores import Chore
from storage.clock import at
from storage.errors import ProposalOutdated, UnknownAlias, UnknownMap, UnknownProposal
from storage.monitors.standings import Change, Standings
from storage.registry.promotion import promote
from storage.store import Store


def accept(store: Store, record: MonitorRecord, who: str | None, now: float) -> Proposal:
    """Name the challenger that waits, and move the alias to it; raises ``UnknownProposal`` and ``ProposalOutdated``.

    Where this process ends in between, a worker carries it out.
    """
    standings = Standings(store.redis, store.keys, record)
    proposal = waiting(standings.read())
    check_unmoved(_alias(store, proposal), proposal)
    seen_to = Chore("recalibrate", store.keys.tenant, record.uid)

    def change(_: MonitorRecord, standing: Standing) -> Change:
        _same(standing, proposal)
        after = standing.model_copy(update={"proposal": None, "moving": proposal, "moved_by": who})
        entry = step_of("proposal-accepted", now, proposal.occasion, proposal.found, who=who)
        return Change(after, [], [entry], chores=[seen_to])

    standings.change(change)
    if not move(store, record, now):
        raise ProposalOutdated("the alias was moved, or the challenger deleted, at the same time")
    return proposal.model_copy(update={"version": store.maps.read(proposal.map).version})


def reject(store: Store, record: MonitorRecord, who: str | None, now: float) -> Proposal:
    """Decide against the challenger that is proposed, whose map stays without a name; raises ``UnknownProposal``."""
    standings = Standings(store.redis, store.keys, record)
    proposal = waiting(standings.read())
    occasion, told = proposal.occasion, proposal.found.model_copy(update={"code": "rejected"})
    look = Chore("look", store.keys.tenant, record.uid)

    def change(record: MonitorRecord, standing: Standing) -> Change:
        _same(standing, proposal)
        event = recalibrated(record, occasion, "monitor.recalibration.declined", told, now)
        entry = step_of("proposal-rejected", now, occasion, told, who=who)
        return Change(standing.model_copy(update={"proposal": None}), [event], [entry], chores=[look])

    standings.change(change)
    return proposal


def waiting(standing: Standing) -> Proposal:
    """The proposal that waits to be decided; raises ``UnknownProposal``."""
    if standing.proposal is None:
        raise UnknownProposal("no challenger waits to be accepted or rejected")
    return standing.proposal


def move(store: Store, record: MonitorRecord, now: float) -> bool:
    """Carry out the decision to move an alias, if there is one; False where it was moved elsewhere meanwhile."""
    standings = Standings(store.redis, store.keys, record)
    standing = standings.read()
    proposal = standing.moving
    if proposal is None:
        return True
    try:
        alias = promote(
            store.redis,
            store.keys,
            proposal.map,
            proposal.name,
            proposal.alias,
            who=standing.moved_by,
            check=lambda before: check_unmoved(before, proposal),
        )
        version, why, code = alias.version, None, None
    except ProposalOutdated as error:
        version, why, code = None, error.detail, "moved-meanwhile"
    except UnknownMap as error:
        version, why, code = None, "the challenger was deleted", error.code
    told = proposal.found.model_copy(update={"code": code})
    standings.change(lambda record, standing: moved(record, standing, proposal, told, version, why, now))
    return why is None


def moved(
    record: MonitorRecord,
    standing: Standing,
    proposal: Proposal,
    told: RecalibrationTold,
    version: int | None,
    why: str | None,
    now: float,
) -> Change | None:
    """What follows when an alias was moved to a version, or why it could not be; None where another has seen to it.

    Evidence begins anew with the rows that are mapped anew.
    """
    if standing.moving != proposal:
        return None
    who, occasion = standing.moved_by, proposal.occasion
    after = standing.model_copy(update={"moving": None, "moved_by": None})
    if why is not None:
        event = recalibrated(record, occasion, "monitor.recalibration.declined", told, now)
        return Change(after, [event], [step_of("alias-not-moved", now, occasion, told, who=who, detail=why)])
    if record.map is not None:
        after = after.model_copy(update={"applied": proposal.map})  # evidence begins anew here, and not at a look again
    event = recalibrated(record, occasion, "monitor.recalibration.applied", told, now)
    entries = [
        step_of(
            "alias-moved",
            now,
            occasion,
            told,
            who=who,
            detail=f"{proposal.name}@{proposal.alias} to {version}",
        ),
        AuditEntry(at=at(now), action="evidence-restarted", who=who),
    ]
    return Change(after, [event], entries, started_at=next_start(record, now), chores=[])


def check_unmoved(before: AliasRecord | None, proposal: Proposal) -> None:
    """Raise ``ProposalOutdated`` where an alias is not as it was when its maps were compared, and not moved either."""
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
