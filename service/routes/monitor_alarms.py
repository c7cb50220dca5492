"""Routes of a monitor's alarms: the state of its rules, events, the audit log, and recalibration."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import Request, Response

from backend.monitors.alarms import acknowledge, find_alarms
from backend.monitors.challengers import accept, reject, waiting
from backend.monitors.recalibration import request_challenger
from backend.store.clock import now
from backend.store.monitors.standings import Standings
from backend.store.pages import PageRequest
from schemas.monitor_alarms import (
    AlarmsAnswer,
    AuditAnswer,
    JournalQuery,
    Proposal,
    RecalibrationQuery,
    RecalibrationRequested,
)
from schemas.monitor_rules import RuleState
from service.calls import Call, Calls, ClientMethod
from service.context import Context, Here, answer
from service.formats.body import read_no_fields
from service.headers import Conditions, to_bytes
from service.paging import page_answer, read_query
from service.threads import run_in_thread

calls = Calls("monitors", reads="monitors:read", writes="monitors:write")


@calls.add(
    Call(
        "GET",
        "/monitors/{name}/alarms",
        query=JournalQuery,
        answer=AlarmsAnswer,
        links=False,
        problems=("unknown-monitor",),
        client=(
            ClientMethod(
                "alarms",
                answer_field="rules",
                query={"limit": 1},
                summary="Get the current state of every rule of a monitor.",
            ),
            ClientMethod("alarm_events", summary="Iterate over the events of a monitor's alarms, newest first."),
        ),
    )
)
async def get_alarms(name: str, request: Request, here: Here) -> Response:
    """Get the current state of every rule of a monitor, and its events, newest first.

    Examples
    --------
    >>> [rule.rule for rule in client.alarms("inbox")]
    ['evidence']

    >>> list(client.alarm_events("inbox"))
    []
    """
    alarms = await run_in_thread(find_alarms, here.store, name, read_query(request, JournalQuery))
    return answer(alarms.model_dump())


@calls.add(
    Call(
        "POST",
        "/monitors/{name}/alarms/{rule}/acknowledge",
        answer=RuleState,
        problems=("unknown-monitor", "unknown-rule", "no-alarm"),
        client="acknowledge",
    )
)
async def post_acknowledgement(name: str, rule: str, request: Request, here: Here) -> Response:
    """Acknowledge an alarm: an evidence rule restarts with the next time bucket, a threshold stays until it clears."""
    await read_no_fields(request, here.settings)
    record = await run_in_thread(here.store.monitors.get, name)
    state = await run_in_thread(acknowledge, here.store, record, rule, here.who, now().timestamp())
    return answer(state.model_dump())


@calls.add(
    Call(
        "GET",
        "/monitors/{name}/audit",
        query=JournalQuery,
        answer=AuditAnswer,
        problems=("unknown-monitor",),
        client="audit",
    )
)
async def get_audit(name: str, request: Request, here: Here) -> Response:
    """List the actions on a monitor, by the service or a user, newest first.

    Examples
    --------
    >>> list(client.audit("inbox"))
    []
    """
    query = read_query(request, JournalQuery)
    page = await run_in_thread(lambda: _standings(here, name).audit(PageRequest(query.limit, query.cursor)))
    return page_answer(request, page.items, page.next)


@calls.add(
    Call(
        "POST",
        "/monitors/{name}/recalibrate",
        query=RecalibrationQuery,
        answer=RecalibrationRequested,
        status=202,
        problems=("unknown-monitor", "prediction-kind-mismatch"),
        client="recalibrate",
    )
)
async def post_recalibration(name: str, request: Request, here: Here) -> Response:
    """Request a challenger now, whether or not an alarm is raised.

    See `GET .../audit` and `.../proposal`.

    Examples
    --------
    >>> client.recalibrate("inbox").number
    1
    """
    await read_no_fields(request, here.settings, RecalibrationQuery)
    correction = read_query(request, RecalibrationQuery).correction
    record = await run_in_thread(here.store.monitors.get, name)
    requested = await run_in_thread(request_challenger, here.store, record, here.who, now().timestamp(), correction)
    return answer(requested.model_dump(), 202)


@calls.add(
    Call(
        "GET",
        "/monitors/{name}/proposal",
        answer=Proposal,
        conditional=True,
        problems=("unknown-monitor", "unknown-proposal"),
        client="proposal",
    )
)
async def get_proposal(name: str, request: Request, here: Here) -> Response:
    """Get the challenger that is waiting.

    Use its ``ETag`` in ``If-Match`` to accept or reject no other one.
    """
    proposal = await run_in_thread(lambda: waiting(_standings(here, name).read()))
    return Conditions.of(request.headers).answer(to_bytes(proposal))


@calls.add(
    Call(
        "POST",
        "/monitors/{name}/proposal/accept",
        access="maps:promote",
        answer=Proposal,
        conditional=True,
        problems=("unknown-monitor", "unknown-proposal", "proposal-outdated"),
    )
)
async def post_acceptance(name: str, request: Request, here: Here) -> Response:
    """Make the challenger the next version of its name and move the alias to it; fails if the alias was moved since."""
    return await _decided(name, request, here, accept)


@calls.add(
    Call(
        "POST",
        "/monitors/{name}/proposal/reject",
        access="maps:promote",
        answer=Proposal,
        conditional=True,
        problems=("unknown-monitor", "unknown-proposal"),
    )
)
async def post_rejection(name: str, request: Request, here: Here) -> Response:
    """Reject the challenger; its map is kept under its id, without a name."""
    return await _decided(name, request, here, reject)


async def _decided(name: str, request: Request, here: Context, decide: Callable[..., Proposal]) -> Response:
    await read_no_fields(request, here.settings)
    require = Conditions.of(request.headers).require
    record = await run_in_thread(here.store.monitors.get, name)
    proposal = await run_in_thread(decide, here.store, record, here.who, now().timestamp(), require)
    return answer(proposal.model_dump())


def _standings(here: Context, name: str) -> Standings:
    return Standings(here.store.redis, here.store.keys, here.store.monitors.get(name))
