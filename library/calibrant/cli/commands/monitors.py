"""Create, list, show and delete monitors on a server, send rows to them and watch their alarms."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from calibrant.cli.exits import ABOVE, Refused
from calibrant.cli.options import After, Before, read_json, read_measures
from calibrant.cli.output import Json, bar, facts_of, plain, say, table, write_json, write_lines
from calibrant.cli.rows import Columns, File, Regression, reads_a_file
from calibrant.cli.server_url import NeededServer, client_of
from calibrant.cli.sources import Where, conditions_of
from calibrant.core.choices import What

if TYPE_CHECKING:
    from rich.table import Table

    from calibrant.client.answers import (
        AdaptiveReading,
        BackfillAnswer,
        DriftReading,
        EstimatesReading,
        IngestionResult,
        LabelShiftReading,
        MonitorEvent,
        OnlineReading,
        PitReading,
        WindowReading,
    )

monitors = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the monitor.")]
_WHOSE = "monitors"
_RAISED = "monitor.alarm.raised"
#: Experts of an online map with a smaller weight are not shown.
_LEAST_WEIGHT = 0.01


@monitors.command()
def create(
    name: Name,
    definition: Annotated[
        Path | None,
        typer.Option("--definition", help="JSON file with the body of POST /monitors; other options override it."),
    ] = None,
    window: Annotated[
        list[str] | None,
        typer.Option(
            "--window", help="Window as name=length, such as day=24h, month=30d, or last=10000 for rows; repeatable."
        ),
    ] = None,
    measure: Annotated[
        list[str] | None, typer.Option("--measure", help="Measure, a name or a JSON object; repeatable.")
    ] = None,
    map_of: Annotated[
        str | None,
        typer.Option("--map", help="Calibration map to apply to every prediction: an id, name, name:3 or name@alias."),
    ] = None,
    classes: Annotated[
        int | None,
        typer.Option("--classes", min=2, help="Number of classes; required if predictions have several columns."),
    ] = None,
    reduction: Annotated[
        str | None, typer.Option("--reduction", help="Reduction: binary, confidence, class:3 or top:2.")
    ] = None,
    coverage: Annotated[
        float | None,
        typer.Option(
            "--coverage",
            help="Nominal coverage of prediction sets, such as 0.9; a class has a column with 1 if the set has it.",
        ),
    ] = None,
    scale: Annotated[
        str | None, typer.Option("--scale", help="Scale of the predictions: probability or logit.")
    ] = None,
    bucket: Annotated[int | None, typer.Option("--bucket", min=1, help="Length of a time bucket in seconds.")] = None,
    retention: Annotated[
        int | None, typer.Option("--retention", min=1, help="How long counts are kept, in seconds.")
    ] = None,
    as_json: Json = False,
    server: NeededServer = None,
) -> None:
    """Create a monitor and print its name."""
    fields = {} if definition is None else _definition(definition)
    options: dict[str, Any] = {"map": map_of, "n_classes": classes, "reduction": reduction, "scale": scale}
    options |= {"bucket": bucket, "retention": retention, "coverage": coverage, "measures": read_measures(measure)}
    options["windows"] = [_window(text) for text in window] if window else None
    fields |= {field: value for field, value in options.items() if value is not None}
    with client_of(server, _WHOSE) as client:
        try:
            created = client.create_monitor(name, **fields)
        except TypeError as error:
            raise Refused(f"{definition}: {error}") from error
    if as_json:
        write_json(created.to_dict())
        return
    for hook in created.hooks:
        if hook.secret is not None:
            say(f"store the secret of the webhook {hook.name} now; it is not shown again: {hook.secret}")
    typer.echo(created.name)


@monitors.command(name="list")
def list_monitors(
    after: After = None, before: Before = None, as_json: Json = False, server: NeededServer = None
) -> None:
    """List the monitors, newest first."""
    with client_of(server, _WHOSE) as client:
        all_monitors = list(client.monitors(created_after=after, created_before=before))
    if as_json:
        write_json([monitor.to_dict() for monitor in all_monitors])
        return
    shown = table("monitor", "reduction", "windows", "measures", "map", "created", left=6)
    for listed in all_monitors:
        windows = ", ".join(window.name for window in listed.windows)
        measures = ", ".join(
            measure if isinstance(measure, str) else str(measure.get("as", measure["name"]))
            for measure in listed.measures
        )
        shown.add_row(listed.name, listed.reduction or "-", windows, measures, listed.map or "-", listed.created_at)
    write_lines(shown)


@monitors.command()
def show(
    name: Name,
    threshold: Annotated[
        float,
        typer.Option("--threshold", help="Predictions of at least this value count as positive in the estimates."),
    ] = 0.5,
    window: Annotated[
        list[str] | None, typer.Option("--window", help="Window to show; repeatable. Default: all.")
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference",
            help="Id of a batch of labelled rows with covariate-shift weights for one window, which the estimates use.",
        ),
    ] = None,
    as_json: Json = False,
    server: NeededServer = None,
) -> None:
    """Show the definition of a monitor, its counts, the measures and estimates of each window, and its online map."""
    with client_of(server, _WHOSE) as client:
        reading = client.monitor(name, windows=window or (), threshold=threshold, reference=reference)
    if as_json:
        write_json(reading.to_dict())
        return
    definition = table("field", "value", left=2, rows=facts_of(reading.monitor.to_dict()).items())
    counts = table("count", name, rows=((field, f"{count:,}") for field, count in reading.counts.to_dict().items()))
    keys = list(reading.windows[0].measures) if reading.windows else []
    # Forecasts have a measure that is called coverage.
    labelled = "coverage" if reading.monitor.forecast is None else "with outcome"
    rows = ((read.name, f"{read.rows:,}", _share(read.coverage), *_cells(read, keys)) for read in reading.windows)
    write_lines(definition, counts, table("window", "labelled", labelled, *keys, rows=rows))
    for read in reading.windows:
        if read.estimates is not None and (reading.monitor.reference, reference) != (None, None):
            write_lines(*_estimates(read.name, read.estimates, read.drift))
            if read.label_shift is not None:
                write_lines(_label_shift(read.name, read.label_shift))
        if read.pit is not None:
            write_lines(_coverage(read.name, read.pit))
    if reading.online is not None:
        write_lines(_online(reading.online))
    if reading.adaptive is not None:
        write_lines(_adaptive(reading.adaptive))


def _coverage(window: str, pit: PitReading) -> Table:
    """The share of outcomes in central intervals."""
    rows = [
        (f"{100 * part.level:.4g} %", _share(part.share), " to ".join(map(_share, part.interval)))
        for part in pit.intervals
    ]
    return table(f"intervals of {window}", "outcomes inside", "95 % interval", rows=rows)


def _adaptive(reading: AdaptiveReading) -> Table:
    """The progress of an error level that follows the coverage."""
    facts = {"version": _version(reading.versions, reading.in_force), "level in force": f"{reading.level:.4g}"}
    facts |= {"next level": f"{reading.next_level:.4g}", "labelled rows": f"{reading.rows:,}"}
    if reading.error is not None and reading.bound is not None:
        facts["share of misses"] = f"{reading.error:.4g}, at most {reading.bound:.2g} from {reading.target:.4g}"
    return table("adaptive level", "value", rows=facts.items())


def _online(reading: OnlineReading) -> Table:
    """The progress of an online map, and its experts with a weight of at least 1 %, largest first."""
    facts = {
        "version": _version(reading.versions, reading.in_force),
        "time buckets": f"{reading.rounds:,}",
        "labelled rows": f"{reading.rows:,}",
    }
    facts["rows without a label in time"] = f"{reading.unlabelled:,}"
    facts["evidence for a new version"] = f"{reading.log_e:.2f} of {reading.bound:.2f}"
    for expert, weight in sorted(reading.weights.items(), key=lambda item: -item[1]):
        if weight >= _LEAST_WEIGHT:
            facts[f"weight of {plain(expert)}"] = _share(weight)
    return table("online map", "value", rows=facts.items())


def _version(versions: Sequence[Any], in_force: str | None) -> str:
    """The newest version of the map in force."""
    return next((str(stored.version or "-") for stored in reversed(versions) if stored.map == in_force), "-")


@monitors.command()
def delete(name: Name, server: NeededServer = None) -> None:
    """Delete a monitor and all its counts."""
    with client_of(server, _WHOSE) as client:
        client.delete_monitor(name)
    say(f"deleted {name}")


@monitors.command()
@reads_a_file(
    *("weights", "weights_kind", "class_names", "pos_label", "times", "clusters", "by", "known", "reduction"),
    *("ids", "labels_from", "inner", "drop_missing", "features"),
    scale="Scale of the predictions: that of the monitor, or percent for one of probabilities.",
)
def send(
    name: Name,
    file: File,
    columns: Columns,
    what: Annotated[
        str, typer.Option("--what", help="Content of the file: rows (labelled), predictions or labels.")
    ] = "rows",
    id_of: Annotated[
        str | None, typer.Option("--id", help="Column of row ids; required for predictions and labels.")
    ] = None,
    time_of: Annotated[
        str | None,
        typer.Option(
            "--time",
            help="Column of times: seconds since 1970, or RFC 3339, in UTC if without an offset. Default: now.",
        ),
    ] = None,
    regression: Regression = False,
    as_json: Json = False,
    server: NeededServer = None,
) -> None:
    """Send labelled rows, predictions or labels from a file to a monitor, and print the counts.

    Sending rows with ids is idempotent. The exit code is 1 if rows were refused or contradict an earlier label.
    """
    from calibrant.cli.monitor_rows import ExtraColumns, send_file

    if what not in get_args(What):
        raise typer.BadParameter("must be rows, predictions or labels", param_hint="--what")
    if what != "rows" and id_of is None:
        raise typer.BadParameter(f"is required: {what} are joined by id", param_hint="--id")
    with client_of(server, _WHOSE) as client:
        extra = ExtraColumns(id_of, time_of)
        outcome = send_file(client, name, file, cast(What, what), columns, extra, regression=regression)
    _report(outcome, as_json=as_json)


@monitors.command()
def backfill(
    name: Name,
    path: Annotated[str, typer.Argument(help="File, folder or pattern below the root, such as 2026-11/*.parquet.")],
    source: Annotated[str, typer.Option("--source", help="Name of a source that the server declares.")],
    predictions: Annotated[
        list[str] | None,
        typer.Option("--prediction", help="Column of numbers or lists; repeated, the column of each class."),
    ] = None,
    labels: Annotated[str | None, typer.Option("--label", help="Column of labels.")] = None,
    ids: Annotated[
        str | None, typer.Option("--id", help="Column of row ids; required without --prediction or --label.")
    ] = None,
    times: Annotated[
        str | None,
        typer.Option("--time", help="Column of timestamps, or of texts in RFC 3339 with an offset. Default: now."),
    ] = None,
    groups: Annotated[str | None, typer.Option("--group", help="Column of group names.")] = None,
    where: Where = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help="parquet, csv, ndjson, arrow or delta. Default: by the suffix of each file."),
    ] = None,
    as_json: Json = False,
    server: NeededServer = None,
) -> None:
    """Let a monitor ingest files of a source of the server, wait for the job, and print the counts.

    Nothing about the files is inferred. The exit code is 1 if rows were refused or contradict an earlier label.
    """
    named = predictions[0] if predictions and len(predictions) == 1 else predictions or None
    columns = {"ids": ids, "predictions": named, "labels": labels, "timestamps": times, "groups": groups}
    rows = {"source": source, "path": path, "columns": columns, "where": conditions_of(where), "format": form}
    if ids is None:
        say("ids: none; another backfill counts these rows again (--id)")
    with client_of(server, _WHOSE) as client, bar() as shown:
        outcome = client.backfill(name, rows, progress=shown.of_job)
    _report(outcome, as_json=as_json)


def _report(outcome: IngestionResult | BackfillAnswer, *, as_json: bool) -> None:
    """Print the counts of ingested rows and the first refused ones; exit with 1 if there are any."""
    counts = outcome.to_dict()
    if as_json:
        write_json(counts)
    else:
        sizes = ("rows", "files", "bytes")
        listed = [f"{n:,} {field.replace('_', ' ')}" for field, n in _counts(counts) if n and field not in sizes]
        typer.echo(", ".join(listed) or "no rows")
    for refusal in outcome.refusals:
        others = "" if refusal.rows == 1 else f" and {refusal.rows - 1:,} more rows"
        file = getattr(refusal, "file", None)
        say(f"{'' if file is None else f'{plain(file)}, '}row {refusal.row + 1}{others}: {refusal.detail}")
    if outcome.refused or outcome.contradicted:
        raise typer.Exit(1)


@monitors.command()
def alarms(name: Name, as_json: Json = False, server: NeededServer = None) -> None:
    """Show the status of each rule of a monitor; exit with 4 if an alarm is raised."""
    with client_of(server, _WHOSE) as client:
        rules = client.alarms(name)
    if as_json:
        write_json([rule.to_dict() for rule in rules])
    else:
        rows = (
            (rule.rule, rule.kind, rule.status, rule.since or "-", str(rule.alarms), f"{rule.rows:,}") for rule in rules
        )
        shown = table("rule", "kind", "status", "since", "alarms", "rows", left=4, rows=rows)
        lines = [f"{plain(rule.rule)}: {plain(text)}" for rule in rules if (text := rule.reason or rule.message)]
        write_lines(shown, *lines)
    if any(rule.status == "alarm" for rule in rules):
        raise typer.Exit(ABOVE)


@monitors.command()
def watch(
    name: Name,
    every: Annotated[float, typer.Option("--every", min=0.1, help="Polling interval in seconds.")] = 10.0,
    first: Annotated[
        bool, typer.Option("--first", help="Exit with 4 at the first alarm, or if one is already raised.")
    ] = False,
    as_json: Json = False,
    server: NeededServer = None,
) -> None:
    """Print the alarms of a monitor as they are raised, cleared and acknowledged, until Ctrl-C."""
    with client_of(server, _WHOSE) as client:
        known = {event.id for event in client.alarm_events(name)}
        up = [rule.rule for rule in client.alarms(name) if rule.status == "alarm"]
        say(f"watching {name}" + (f"; raised alarms: {', '.join(map(plain, up))}" if up else ""))
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
                _print_event(event, as_json)
                if first and event.type == _RAISED:
                    raise typer.Exit(ABOVE)
            time.sleep(every)


def _print_event(event: MonitorEvent, as_json: bool) -> None:
    if as_json:
        write_json(event.to_dict())
        return
    about = {field: value for field, value in event.data.to_dict().items() if field != "monitor" and value is not None}
    texts = {field: value.get("message", value) if isinstance(value, dict) else value for field, value in about.items()}
    facts = " ".join(f"{field}={plain(str(value))}" for field, value in texts.items())
    write_lines(f"{event.timestamp} {event.type} {facts}")


def _definition(file: Path) -> dict[str, Any]:
    """Read the fields of a definition, except the name, which is an argument of the command."""
    try:
        document = read_json(file.read_bytes())
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"cannot be read as JSON: {error}", param_hint="--definition") from error
    if not isinstance(document, dict):
        raise typer.BadParameter("must be a JSON object", param_hint="--definition")
    return {field: value for field, value in document.items() if field != "name"}


def _window(text: str) -> dict[str, Any]:
    """Parse a window, ``name=length``; the length is a number of rows, or a time with the unit m, h or d."""
    units = {"m": 60, "h": 3600, "d": 86_400}
    name, _, length = text.partition("=")
    number, unit = (length[:-1], length[-1:]) if length[-1:] in units else (length, "")
    if not name or not number.isascii() or not number.isdigit():
        raise typer.BadParameter("must be name=length, such as day=24h or last=10000", param_hint="--window")
    return {"name": name, "rows": int(number)} if not unit else {"name": name, "seconds": int(number) * units[unit]}


def _counts(outcome: dict[str, Any]) -> list[tuple[str, int]]:
    return [(field, count) for field, count in outcome.items() if isinstance(count, int)]


def _estimates(window: str, estimates: EstimatesReading, drift: DriftReading | None) -> list[Any]:
    """The table of estimated figures, why there are none, and the drift of the predictions."""
    shown = table(f"estimates of {window}", "estimated", "interval", "realised", left=1)
    for name, figure in estimates.figures.items():
        ends = "-" if figure.interval is None else f"{figure.interval[0]:.4f} to {figure.interval[1]:.4f}"
        values = ("-" if value is None else f"{value:.4f}" for value in (figure.estimated, figure.realised))
        estimated, realised = values
        shown.add_row(name, estimated, ends, realised)
    lines: list[Any] = [shown] if estimates.figures else []
    if estimates.reason is not None:
        lines.append(f"{window}: {estimates.status}: {estimates.reason}")
    if drift is not None and drift.level is not None:
        lines.append(f"{window}: prediction drift at level {drift.level:.3g}")
    return lines


def _label_shift(window: str, shift: LabelShiftReading) -> str | Table:
    """The estimated event rate, or the frequencies of the classes that changed most; or why there are none."""
    if shift.estimated is None or shift.low is None or shift.high is None or shift.reference is None:
        return f"{window}: label shift {shift.status}: {shift.reason}"
    if shift.sampled is not None:
        from calibrant.monitoring.label_shift import most_changed

        shown = table(f"classes of {window}", "reference", "estimated", "interval", "BBSE", left=1)
        for k in most_changed(shift.estimated, shift.reference):
            ends = f"{_share(shift.low[k])} to {_share(shift.high[k])}"
            check = None if shift.bbse is None else shift.bbse[k]
            shown.add_row(str(k), _share(shift.reference[k]), _share(shift.estimated[k]), ends, _share(check))
        return shown
    ends = f"{_share(shift.low[1])} to {_share(shift.high[1])}"
    rate, before = _share(shift.estimated[1]), _share(shift.reference[1])
    return f"{window}: event rate without labels {rate} ({ends}), reference {before}"


def _share(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:.1f} %"


def _cells(window: WindowReading, keys: list[str]) -> list[str]:
    cells = []
    for key in keys:
        measure = window.measures[key]
        ends = "" if measure.interval is None else f" [{measure.interval[0]:.4f}, {measure.interval[1]:.4f}]"
        cells.append("-" if measure.value is None else f"{measure.value:.4f}{ends}")
    return cells
