"""``calibrant evaluate``: measure the calibration of the predictions in a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from calibrant.cli.engine import engine_of, read_map
from calibrant.cli.exits import errors_in_a_line
from calibrant.cli.gate import FailAbove, FailBy, Gate
from calibrant.cli.options import (
    RESAMPLES,
    SEED,
    EvaluateFlags,
    Interval,
    Measure,
    Resamples,
    Seed,
    read_measures,
)
from calibrant.cli.output import Json, write_json, write_lines
from calibrant.cli.regression import (
    Against,
    EvaluateForecasts,
    Lags,
    ScoreOf,
    check_alone,
    forecasts_of,
    with_others,
)
from calibrant.cli.rows import (
    Columns,
    File,
    Regression,
    columns_for,
    name_of,
    note_reduction,
    read_forecast_rows,
    read_rows,
    reads_a_file,
    reduction_of,
)
from calibrant.cli.server_url import Server

if TYPE_CHECKING:
    from calibrant.io.table import ForecastSheet, Sheet

MapOf = Annotated[
    str | None,
    typer.Option(
        "--map",
        help="Calibration map; measures are given before and after it. A JSON file, or with --server an id, name, "
        "name:3 or name@alias.",
    ),
]


@reads_a_file("known")
def evaluate(
    file: File,
    columns: Columns,
    regression: Regression = False,
    measure: Measure = None,
    interval: Interval = None,
    resamples: Resamples = RESAMPLES,
    seed: Seed = SEED,
    map_of: MapOf = None,
    against: Against = None,
    score: ScoreOf = None,
    lags: Lags = 0,
    fail_above: FailAbove = None,
    fail_by: FailBy = "value",
    as_json: Json = False,
    server: Server = None,
) -> None:
    """Measure the calibration of predictions; with --map, before and after the map.

    With --regression, the predictions are distributions of a number, such as forecasts with quantiles.
    """
    time, reduction = columns["times"], columns["reduction"]
    if time is not None and columns["groups"]:
        raise typer.BadParameter("cannot be combined with --group", param_hint="--time")
    check_alone(regression=regression, columns=columns)
    grouped_by = "group" if time is None else "period"
    if regression:
        with forecasts_of(server) as forecasts:
            from calibrant.distributions.measures import read_measure_requests

            chosen = read_measures(measure)
            if chosen is not None:
                read_measure_requests(chosen)  # before a long file is read
            request = EvaluateForecasts(chosen, forecasts.map(read_map(map_of, server)), interval, seed, score, lags)
            sheet = _by_period(read_forecast_rows(file, columns), file, time)
            sheet = with_others(sheet, against, columns, score=score, lags=lags)
            report = forecasts.evaluate(sheet, request)
            gate = Gate.read(fail_above, fail_by, keys=list(report["measures"]), interval=interval)
        _finish(report, gate, None, grouped_by, interval, as_json=as_json)
        return
    for flag, given in (("--against", against), ("--score", score), ("--lags", lags or None)):
        if given is not None:
            raise typer.BadParameter("needs --regression", param_hint=flag)
    with engine_of(server) as engine:
        from calibrant.measures.catalogue import applicable, read_requests
        from calibrant.measures.intervals import Resampling

        # Check the options before a long file is read or sent.
        Resampling.read(interval, resamples, seed)
        measures = read_measures(measure)
        measures = [str(each) for each in applicable("all", reduction) or ()] if measures == ["all"] else measures
        keys = [request.key for request in read_requests(measures, reduction)]
        gate = Gate.read(fail_above, fail_by, keys=keys, interval=interval)
        applied = read_map(map_of, server)
        rows = _by_period(note_reduction(read_rows(file, columns_for(columns, applied)), reduction), file, time)
        reduction = reduction_of(rows, reduction)
        report = engine.evaluate(rows, EvaluateFlags(measures, None, reduction, applied, interval, resamples, seed))
    _finish(report, gate, rows.classes, grouped_by, interval, as_json=as_json)


Rows = TypeVar("Rows", "Sheet", "ForecastSheet")


def _by_period(rows: Rows, file: Path, time: str | None) -> Rows:
    """Return the rows with the periods of their times as groups, if they have times."""
    if rows.times is None:
        return rows
    from calibrant.io.periods import periods

    return replace(rows, groups=periods(rows.times, f"{name_of(file)}: column '{time}'"))


def _finish(
    report: dict[str, Any],
    gate: Gate,
    classes: tuple[str, ...] | None,
    grouped_by: str,
    interval: float | None,
    *,
    as_json: bool,
) -> None:
    """Print the report, and fail if a measure is above its bound."""
    with errors_in_a_line():
        if as_json:
            write_json(report)
        else:
            from calibrant.cli.report_tables import report_tables

            write_lines(*report_tables(report, by=grouped_by, level=interval, classes=classes))
        gate.check(report)
