"""``calibrant monitors``: the monitors of a server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from calibrant.cli.exits import ABOVE, Refused
from calibrant.cli.options import read_json, read_measures
from calibrant.cli.output import Json, plain, say, table, write_json, write_lines
from calibrant.cli.rows import Columns, File, Group, Label, MapLabel, Prediction
from calibrant.cli.server_url import NeededServer, client_of

if TYPE_CHECKING:
    from calibrant.cli.monitor_rows import What
    from calibrant.client.answers import MonitorEvent, WindowReading

monitors = typer.Typer(
    help="Make, list, show and delete the monitors of a server; send them rows; watch their alarms.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="Name of the monitor.")]
_WHOSE = "monitors"
_RAISED = "monitor.alarm.raised"


@monitors.command()
def create(
    name: Name,
    definition: Annotated[
        Path | None, typer.Option("--definition", help="JSON file with the body of POST /monitors; flags come first.")
    ] = None,
    window: Annotated[
        list[str] | None,
        typer.Option("--window", help="Name and length, such as day=24h, month=30d or last=10000 for rows."),
    ] = None,
    measure: Annotated[
        list[str] | None, typer.Option("--measure", help="Measure, by name or as a JSON object; once for each.")
    ] = None,
    map_of: Annotated[
        str | None, typer.Option("--map", help="Map to apply first: id, name, name:3, name@alias.")
    ] = None,
    classes: Annotated[
        int | None, typer.Option("--classes", min=2, help="Number of classes, of predictions of several columns.")
    ] = None,
    reduction: Annotated[str | None, typer.Option("--reduction", help="binary, confidence, class:3 or top:2.")] = None,
    scale: Annotated[
        str | None, typer.Option("--scale", help="What the predictions are: probability or logit.")
    ] = None,
    bucket: Annotated[int | None, typer.Option("--bucket", min=1, help="Seconds that are counted together.")] = None,
    retention: Annotated[int | None, typer.Option("--retention", min=1, help="Seconds that counts are kept.")] = None,
    as_json: Json = False,
    server: NeededServer = None,
) -> None:
    """Begin to watch a model, and print the monitor's name."""
    fields = {} if definition is None else _definition(definition)
    options: dict[str, Any] = {"map": map_of, "n_classes": classes, "reduction": reduction, "scale": scale}
    options |= {"bucket": bucket, "retention": retention}
    fields |= {field: value for field, value in options.items() if value is not None}
    if window:
        fields["windows"] = [_window(text) for text in window]
    if measure:
        fields["measures"] = read_measures(measure)
    with client_of(server, _WHOSE) as client:
        try:
            made = client.create_monitor(name, **fields)
        except TypeError as error:
            raise Refused(f"{definition}: {error}") from error
    if as_json:
        write_json(made.to_dict())
        return
    for hook in made.hooks:
        if hook.secret is not None:
            say(f"keep the secret of the hook {hook.name}, which cannot be shown again: {hook.secret}")
    typer.echo(made.name)


@monitors.command(name="list")
def list_monitors(as_json: Json = False, server: NeededServer = None) -> None:
    """List the monitors, newest first."""
    with client_of(server, _WHOSE) as client:
        found = list(client.monitors())
    if as_json:
        write_json([monitor.to_dict() for monitor in found])
        return
    shown = table("monitor", "reduction", "windows", "measures", "map", "created", left=6)
    for each in found:
        windows = ", ".join(window.name for window in each.windows)
        measures = ", ".join(one if isinstance(one, str) else str(one.get("as", one["name"])) for one in each.measures)
        shown.add_row(each.name, each.reduction or "-", windows, measures, each.map or "-", each.created_at)
    write_lines(shown)


@monitors.command()
def show(name: Name, as_json: Json = False, server: NeededServer = None) -> None:
    """Show a monitor's counts, and of each window the coverage and the measures with their intervals."""
    with client_of(server, _WHOSE) as client:
        reading = client.monitor(name)
    if as_json:
        write_json(reading.to_dict())
        return
    counts = table("count", name, left=1)
    for field, count in reading.counts.to_dict().items():
        counts.add_row(field, f"{count:,}")
    keys = list(reading.windows[0].measures) if reading.windows else []
    windows = table("window", "labelled", "coverage", *keys, left=1)
    for window in reading.windows:
        windows.add_row(window.name, f"{window.rows:,}", _share(window.coverage), *_cells(window, keys))
    write_lines(counts, windows)


@monitors.command()
def delete(name: Name, server: NeededServer = None) -> None:
    """Forget a monitor and all that it has counted."""
    with client_of(server, _WHOSE) as client:
        client.delete_monitor(name)
    say(f"{name} is deleted")


@monitors.command()
def send(
    name: Name,
    file: File,
    what: Annotated[str, typer.Option("--what", help="What the file holds: rows, predictions or labels.")] = "rows",
    id_of: Annotated[
        str | None, typer.Option("--id", help="Column of the ids; needed of predictions and of labels.")
    ] = None,
    time_of: Annotated[
        str | None,
        typer.Option("--time", help="Column of times, in seconds since 1970 or RFC 3339; now, where left out."),
    ] = None,
    label: Label = None,
    prediction: Prediction = None,
    group: Group = None,
    map_label: MapLabel = None,
    scale: Annotated[str, typer.Option("--scale", help="That of the monitor: probability or logit.")] = "probability",
    as_json: Json = False,
    server: NeededServer = None,
) -> None:
    """Send a file's labelled rows, its predictions, or its labels, and say what became of them.

    Rows with ids count once however often they are sent. Exits with 1 where rows were refused, or contradict a label
    that is known.
    """
    from calibrant.cli.monitor_rows import Beside, send_file

    if what not in ("rows", "predictions", "labels"):
        raise typer.BadParameter("must be rows, predictions or labels", param_hint="--what")
    if what != "rows" and id_of is None:
        raise typer.BadParameter(f"is needed: {what} are joined by ids", param_hint="--id")
    columns = Columns(prediction, label, None, group, scale, map_label)
    with client_of(server, _WHOSE) as client:
        taken = send_file(client, name, file, cast("What", what), columns, Beside(id_of, time_of))
    if as_json:
        write_json(taken.to_dict())
    else:
        counts = [f"{count:,} {field.replace('_', ' ')}" for field, count in _counts(taken.to_dict()) if count]
        typer.echo(", ".join(counts) or "nothing")
    for refusal in taken.refusals:
        say(f"row {refusal.row + 1}: {refusal.detail}")
    if taken.refused or taken.contradicted:
        raise typer.Exit(1)


@monitors.command()
def alarms(name: Name, as_json: Json = False, server: NeededServer = None) -> None:
    """Show what each rule of a monitor says now; exits with 4 where an alarm is up."""
    with client_of(server, _WHOSE) as client:
        rules = client.alarms(name)
    if as_json:
        write_json([rule.to_dict() for rule in rules])
    else:
        shown = table("rule", "kind", "says", "since", "alarms", "rows", left=4)
        for rule in rules:
            says = "alarm" if rule.status == "alarm" else rule.status
            shown.add_row(rule.rule, rule.kind, says, rule.since or "-", str(rule.alarms), f"{rule.rows:,}")
        write_lines(shown)
    if any(rule.status == "alarm" for rule in rules):
        raise typer.Exit(ABOVE)


@monitors.command()
def watch(
    name: Name,
    every: Annotated[float, typer.Option("--every", min=0.1, help="Seconds between two looks.")] = 10.0,
    first: Annotated[bool, typer.Option("--first", help="End with 4 at the first alarm, or if one is up.")] = False,
    as_json: Json = False,
    server: NeededServer = None,
) -> None:
    """Write a monitor's alarms as they are raised, cleared and acknowledged, until Ctrl-C."""
    with client_of(server, _WHOSE) as client:
        known = {event.id for event in client.alarm_events(name)}
        up = [rule.rule for rule in client.alarms(name) if rule.status == "alarm"]
        say(f"watching {name}" + (f", with alarms up of {', '.join(map(plain, up))}" if up else ""))
        if first and up:
            raise typer.Exit(ABOVE)
        while True:
            fresh = []
            for event in client.alarm_events(name):
                if event.id in known:
                    break
                fresh.append(event)
            for event in reversed(fresh):
                known.add(event.id)
                _tell(event, as_json)
                if first and event.type == _RAISED:
                    raise typer.Exit(ABOVE)
            time.sleep(every)


def _tell(event: MonitorEvent, as_json: bool) -> None:
    if as_json:
        write_json(event.to_dict())
        return
    about = {field: value for field, value in event.data.to_dict().items() if field != "monitor" and value is not None}
    facts = " ".join(f"{field}={plain(str(value))}" for field, value in about.items())
    write_lines(f"{event.timestamp} {event.type} {facts}")


def _definition(file: Path) -> dict[str, Any]:
    """The fields of a definition but the name, which the command has."""
    try:
        found = read_json(file.read_bytes())
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"cannot be read as JSON: {error}", param_hint="--definition") from error
    if not isinstance(found, dict):
        raise typer.BadParameter("must hold an object", param_hint="--definition")
    return {field: value for field, value in found.items() if field != "name"}


def _window(text: str) -> dict[str, Any]:
    """A window of its name and its length: a number of rows, or of a unit of time."""
    units = {"m": 60, "h": 3600, "d": 86_400}
    name, _, length = text.partition("=")
    number, unit = (length[:-1], length[-1:]) if length[-1:] in units else (length, "")
    if not name or not number.isascii() or not number.isdigit():
        raise typer.BadParameter("must be a name, = and a length, such as day=24h or last=10000", param_hint="--window")
    return {"name": name, "rows": int(number)} if not unit else {"name": name, "seconds": int(number) * units[unit]}


def _counts(taken: dict[str, Any]) -> list[tuple[str, int]]:
    return [(field, count) for field, count in taken.items() if isinstance(count, int)]


def _share(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:.1f} %"


def _cells(window: WindowReading, keys: list[str]) -> list[str]:
    cells = []
    for key in keys:
        found = window.measures[key]
        ends = "" if found.interval is None else f" [{found.interval[0]:.4f}, {found.interval[1]:.4f}]"
        cells.append("-" if found.value is None else f"{found.value:.4f}{ends}")
    return cells
