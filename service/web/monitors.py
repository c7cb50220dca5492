"""The pages of monitors: the list, and one monitor with live charts, alarms, challengers and deliveries."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response

from backend.monitors.adaptive_levels import read_adaptive
from backend.monitors.alarms import acknowledge
from backend.monitors.answers import MonitorReader, reader_of, weighted_rows, window_of
from backend.monitors.challengers import RequireSeen, accept, reject
from backend.monitors.estimates import Weighted
from backend.monitors.kinds import kind_of_monitor, measure_keys
from backend.monitors.online_maps import read_online
from backend.monitors.rules.catalogue import RULE_TYPES
from backend.monitors.timeline import latest_deliveries, read_timeline, state_of
from backend.store.clock import now
from backend.store.errors import NoAlarm, StorageError, UnknownProposal, problem_of
from backend.store.monitors.deliveries import Deliveries
from backend.store.monitors.standings import Standings
from backend.store.pages import PageRequest
from backend.store.server.connection import UNAVAILABLE
from calibrant.core.errors import CalibrationError
from calibrant.plots.canvas import Drawn, NothingToDraw
from schemas.monitor_alarms import Proposal
from schemas.monitor_answers import MonitorsQuery, WindowPictureQuery, answer_of
from schemas.monitor_rules import RuleState
from schemas.monitors import Counts, MonitorRecord
from schemas.problems import Problem
from service.calls import Call
from service.context import Context
from service.errors import Busy, InvalidField, NotFound
from service.jobs import EventStream
from service.monitor_charts import WIDTH, ChartData, chart_of, chart_titles, raised_alarms
from service.paging import page_request, read_query
from service.pictures import picture, window_drawing
from service.threads import run_in_thread
from service.web.forms import Form, page_calls, text_of
from service.web.visit import Visit, Visiting, redirect_to

# --- The content of the pages

#: Number of events in the list of a monitor's page.
_EVENTS = 20
#: Number of classes for which the page shows a whole prediction.
_SHOWN_CLASSES = 10
#: The key of the reliability diagram of the window among the charts.
_DIAGRAM = "diagram"
#: Number of groups in the table of a monitor's page.
_GROUPS = 20


@dataclass(frozen=True)
class MonitorShown:
    """What is shown of one monitor: the ``window`` for the diagram, and the ``measure`` for the chart over time.

    ``reference`` is the id of a batch of weighted rows that the estimates of the window use, or empty.
    """

    window: str
    measure: str
    reference: str = ""

    @property
    def query(self) -> str:
        """The same as a query."""
        weighted = {"reference": self.reference} if self.reference else {}
        return urlencode({"window": self.window, "measure": self.measure, **weighted})


def read_shown(reader: MonitorReader, query: Mapping[str, str]) -> MonitorShown:
    """The chosen window and measure, by default the first of each; raises ``InvalidField``."""
    record = reader.record
    keys = measure_keys(record)
    measure = query.get("measure") or keys[0]
    if measure not in keys:
        raise InvalidField.at("/measure", f"must be a measure of the monitor: {', '.join(keys)}")
    return MonitorShown(
        window_of(record, query.get("window") or None).name, measure, query.get("reference", "").strip()
    )


def read_weighted(visit: Visit, reader: MonitorReader, shown: MonitorShown) -> Weighted | None:
    """The weighted rows that the estimates use, if any."""
    return weighted_rows(visit.here, reader.record, shown.reference) if shown.reference else None


def read_figures(reader: MonitorReader, shown: MonitorShown, weighted: Weighted | None) -> dict[str, Any]:
    """The current counts and window of a monitor."""
    chosen, reference = window_of(reader.record, shown.window), reader.reference()
    window = reader.window(chosen, now().timestamp(), reference=reference, groups=_GROUPS, weighted=weighted)
    return {"counts": reader.counts(), "window": window}


def read_actions(visit: Visit, record: MonitorRecord) -> dict[str, Any]:
    """What a visitor can act on: the current rules, challenger, online map, latest deliveries and events."""
    store = visit.here.store
    standings = Standings(store.redis, store.keys, record)
    standing = standings.read()
    states = [standing.state_of(rule) for rule in record.rules]
    return {
        "rules": [(state, RULE_TYPES[state.kind], RULE_TYPES[state.kind].describe(state)) for state in states],
        "proposal": standing.proposal,
        "online": read_online(record, standing),
        "adaptive": read_adaptive(record, standing),
        "deliveries": latest_deliveries(store, record),
        "events": standings.events(PageRequest(_EVENTS, None)).items,
    }


def read_charts(visit: Visit, reader: MonitorReader, shown: MonitorShown, key: str | None = None) -> ChartData:
    """What the charts show; only what the chart ``key`` needs, if given."""
    moment = now().timestamp()
    points = [] if key == "groups" else read_timeline(visit.here, reader, shown.measure, moment)
    groups = {}
    if key in (None, "groups") and reader.record.max_groups:
        groups = reader.groups(reader.gathered(window_of(reader.record, shown.window), moment), _GROUPS)
    return ChartData(reader.record, shown.measure, points, groups, raised_alarms(reader))


def _reader(visit: Visit, name: str) -> MonitorReader:
    return reader_of(visit.here, visit.here.process.monitors, name)


def _values(reader: MonitorReader, shown: MonitorShown) -> dict[str, Any]:
    """Values that all parts of the page of a monitor use."""
    record = reader.record
    return {
        "monitor": answer_of(record),
        "base": f"/ui/monitors/{record.name}",
        "shown": shown,
        "titles": chart_titles(record, shown.measure),
        "chart_width": WIDTH,
    }


# --- The pages

calls = page_calls(reads="monitors:read", writes="monitors:write")


@calls.add(Call("GET", "/ui/monitors"))
async def monitors(request: Request, visit: Visiting) -> Response:
    """The list of monitors, newest first."""
    query = page_request(read_query(request, MonitorsQuery))
    listed, following = await run_in_thread(_listed, visit, query)
    return visit.page("monitors.html", listed=listed, next=following)


def _listed(visit: Visit, query: PageRequest) -> tuple[list[tuple[MonitorRecord, list[RuleState], Counts]], str | None]:
    page = visit.here.store.monitors.page(query)
    store, cache = visit.here.store, visit.here.process.monitors
    readers = [MonitorReader(store.redis, store.keys, record, cache) for record in page.items]
    return [(reader.record, reader.rules(), reader.counts()) for reader in readers], page.next


@calls.add(Call("GET", "/ui/monitors/{name}"))
async def monitor(name: str, request: Request, visit: Visiting) -> Response:
    """One monitor; its figures and alarms are updated while the page is open."""
    return await _monitor_page(visit, name, request.query_params)


async def _monitor_page(
    visit: Visit, name: str, query: Mapping[str, str], *, message: str | None = None, problem: Problem | None = None
) -> Response:
    """The page of a monitor with a message; for htmx only the message and the actions."""

    def read() -> dict[str, Any]:
        reader = _reader(visit, name)
        shown = read_shown(reader, query)
        # Read before everything else, so that a change in between is sent as an update.
        state = state_of(visit.here.store, reader.record)
        values = _values(reader, shown) | read_actions(visit, reader.record) | {"state": state}
        if visit.wants_part:
            return values
        figures = read_figures(reader, shown, read_weighted(visit, reader, shown))
        others = {"measures": measure_keys(reader.record), "pictures": {}}
        others["prediction"] = kind_of_monitor(reader.record).example(_SHOWN_CLASSES)
        return values | figures | others

    values = await run_in_thread(read)
    return visit.page(
        "monitor_part.html" if visit.wants_part else "monitor.html",
        status=200 if problem is None else problem.status,
        message=message,
        problem=problem,
        origin=str(visit.request.base_url).rstrip("/"),
        **values,
    )


@calls.add(Call("GET", "/ui/monitors/{name}/charts/{key}.svg"))
async def chart(name: str, key: str, request: Request, visit: Visiting) -> Response:
    """One chart of a monitor."""

    def read() -> Callable[[], Drawn]:
        reader = _reader(visit, name)
        shown = read_shown(reader, request.query_params)
        if key == _DIAGRAM:
            return _diagram(visit, name, shown)
        if key not in chart_titles(reader.record, shown.measure):
            raise NotFound("the monitor has no such chart")
        return chart_of(read_charts(visit, reader, shown, key), key)

    return await picture(visit.here, await run_in_thread(read), {"Cache-Control": "no-store"})


def _diagram(visit: Visit, name: str, shown: MonitorShown) -> Callable[[], Drawn]:
    """The function that draws the reliability diagram of the window; raises ``NothingToDraw``."""
    return window_drawing(visit.here, name, WindowPictureQuery(window=shown.window), "svg")


# --- Updates of the page while it is open

#: Seconds between two looks at the state of a monitor.
_LOOK_SECONDS = 1.0
#: Seconds after which a stream ends; the browser reconnects, and its session is checked again.
_STREAM_SECONDS = 60.0
_RECONNECT = b"retry: 1000\n\n"


@calls.add(Call("GET", "/ui/monitors/{name}/events"))
async def monitor_events(name: str, request: Request, visit: Visiting) -> Response:
    """The updated parts of a monitor's page as events; ``Last-Event-ID`` is the state that the page shows."""
    reader = await run_in_thread(_reader, visit, name)
    shown = read_shown(reader, request.query_params)
    last = request.headers.get("last-event-id") or request.query_params.get("state")
    return EventStream(_updates(visit, name, shown, last), visit.here)


async def _updates(visit: Visit, name: str, shown: MonitorShown, last: str | None) -> AsyncGenerator[bytes, None]:
    """Yield the parts of the page at each change, until the monitor, the store or the service is gone."""
    loop, watcher = asyncio.get_running_loop(), visit.here.watcher
    until = loop.time() + _STREAM_SECONDS
    yield _RECONNECT
    weighted: Weighted | None = None
    with watcher.waiting(f"monitor {name}") as never:
        while not watcher.closed and loop.time() < until:
            try:
                reader = await run_in_thread(_reader, visit, name)
                state = await run_in_thread(state_of, visit.here.store, reader.record)
                if state != last:
                    if weighted is None:  # fitted once for a stream
                        weighted = await run_in_thread(read_weighted, visit, reader, shown)
                    yield await _update(visit, reader, shown, state, weighted)
                    last = state
            except Busy:  # the next look tries again
                pass
            except (*UNAVAILABLE, StorageError, CalibrationError, NothingToDraw):
                return
            await watcher.pause(never, _LOOK_SECONDS)


async def _update(
    visit: Visit, reader: MonitorReader, shown: MonitorShown, state: str, weighted: Weighted | None
) -> bytes:
    """The figures with their charts, and the actions, as two events; the last one has the id of the state."""
    try:
        data = await run_in_thread(read_charts, visit, reader, shown)
        figures = await run_in_thread(read_figures, reader, shown, weighted)
        works = {key: chart_of(data, key) for key in chart_titles(reader.record, shown.measure)}
        if figures["window"].rows:
            works[_DIAGRAM] = await run_in_thread(_diagram, visit, reader.record.name, shown)
        drawn = await visit.here.draw(lambda: {key: work() for key, work in works.items()})
    finally:
        visit.here.pause()
    pictures = {key: (_data_url(drawing), drawing.alt) for key, drawing in drawn.items()}
    values = _values(reader, shown)
    actions = await run_in_thread(read_actions, visit, reader.record)
    parts = {
        "figures": visit.page("monitor_figures.html", pictures=pictures, **figures, **values),
        "actions": visit.page("monitor_actions.html", **actions, **values),
    }
    return b"".join(_event(kind, response, state) for kind, response in parts.items())


def _data_url(drawn: Drawn) -> str:
    return f"data:{drawn.media_type};base64,{base64.b64encode(drawn.content).decode()}"


def _event(kind: str, response: Response, state: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in bytes(response.body).decode().splitlines())
    return f"id: {state}\nevent: {kind}\n{lines}\n".encode()


# --- Forms: each names what the visitor saw, so that nothing else is changed


@calls.add(Call("POST", "/ui/monitors/{name}/alarms/{rule}/acknowledge"))
async def acknowledge_alarm(name: str, rule: str, visit: Visiting, form: Form) -> Response:
    """Acknowledge the alarm that the visitor saw."""

    def act(here: Context, record: MonitorRecord) -> str:
        state = Standings(here.store.redis, here.store.keys, record).read().rules.get(rule)
        if state is not None and str(state.alarms) != text_of(form, "alarm"):
            raise NoAlarm("the rule has raised another alarm since this page was loaded")
        acknowledge(here.store, record, rule, here.who, now().timestamp())
        return f"Acknowledged the alarm of {rule}."

    return await _acted(visit, name, form, act)


@calls.add(Call("POST", "/ui/monitors/{name}/proposal/accept", access="maps:promote"))
async def accept_challenger(name: str, visit: Visiting, form: Form) -> Response:
    """Promote the challenger that the visitor saw."""

    def act(here: Context, record: MonitorRecord) -> str:
        proposal = accept(here.store, record, here.who, now().timestamp(), _seen(form))
        return f"{proposal.alias} of {proposal.name} now points at version {proposal.version}."

    return await _acted(visit, name, form, act)


@calls.add(Call("POST", "/ui/monitors/{name}/proposal/reject", access="maps:promote"))
async def reject_challenger(name: str, visit: Visiting, form: Form) -> Response:
    """Reject the challenger that the visitor saw."""

    def act(here: Context, record: MonitorRecord) -> str:
        proposal = reject(here.store, record, here.who, now().timestamp(), _seen(form))
        return f"Rejected the challenger for {proposal.name}."

    return await _acted(visit, name, form, act)


@calls.add(Call("POST", "/ui/monitors/{name}/deliveries/{delivery_id}/resend"))
async def resend(name: str, delivery_id: str, visit: Visiting, form: Form) -> Response:
    """Send a delivery again."""

    def act(here: Context, record: MonitorRecord) -> str:
        Deliveries(here.store.redis, here.store.keys, record.id).resend(delivery_id)
        return "The delivery will be sent again."

    return await _acted(visit, name, form, act)


async def _acted(visit: Visit, name: str, form: Form, act: Callable[[Context, MonitorRecord], str]) -> Response:
    """Act on a monitor, and show its page with what was done, or why not."""
    shown = {field: text_of(form, field) for field in ("window", "measure", "reference")}
    record = await run_in_thread(visit.here.store.monitors.get, name)
    try:
        here = visit.here.noted(text_of(form, "note"))
        message = await run_in_thread(act, here, record)
    except (CalibrationError, StorageError) as error:
        return await _monitor_page(visit, name, shown, problem=problem_of(error))
    if not visit.wants_part:
        return redirect_to(visit, f"/ui/monitors/{name}")
    return await _monitor_page(visit, name, shown, message=message)


def _seen(form: Form) -> RequireSeen:
    """Raises ``UnknownProposal`` if another challenger is waiting than the one that the visitor saw."""

    def require(proposal: Proposal) -> None:
        if proposal.id != text_of(form, "proposal"):
            raise UnknownProposal("another challenger has replaced the one on the page")

    return require
