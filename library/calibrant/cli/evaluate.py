"""``calibrant evaluate``: measure the calibration of the predictions in a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, cast

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
    RemoteForecasts,
    ScoreOf,
    check_alone,
    evaluate_forecasts,
    read_distribution_map,
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
from calibrant.cli.server_url import Server, client_of

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
        request = EvaluateForecasts(interval=interval, seed=seed, score=score, lags=lags)
        _evaluate_forecasts(
            file, columns, measure, request, map_of, against, fail_above, fail_by, as_json, grouped_by, server
        )
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
        applied = None if map_of is None else read_map(map_of, server)
        rows = note_reduction(read_rows(file, columns_for(columns, applied)), reduction)
        if rows.times is not None:
            from calibrant.io.periods import periods

            rows = replace(rows, groups=periods(rows.times, f"{name_of(file)}: column '{time}'"))
        reduction = reduction_of(rows, reduction)
        report = engine.evaluate(rows, EvaluateFlags(measures, None, reduction, applied, interval, resamples, seed))
    with errors_in_a_line():
        if as_json:
            write_json(report)
        else:
            from calibrant.cli.report_tables import report_tables

            write_lines(*report_tables(report, by=grouped_by, level=interval, classes=rows.classes))
        gate.check(report)


def _evaluate_forecasts(
    file: Path,
    columns: Columns,
    measure: list[str] | None,
    request: EvaluateForecasts,
    map_of: str | None,
    against: list[Path] | None,
    fail_above: list[str] | None,
    fail_by: str,
    as_json: bool,
    grouped_by: str,
    server: str | None,
) -> None:
    """Evaluate predictive distributions."""
    with errors_in_a_line():
        from calibrant.distributions.measures import read_measure_requests

        measures = read_measures(measure)
        if measures is not None:
            read_measure_requests(measures)  # before a long file is read
        applied = None if map_of is None else read_map(map_of, server)
        fitted = None if applied is None or server else read_distribution_map(applied)
        rows = read_forecast_rows(file, columns)
        if rows.times is not None:
            from calibrant.io.periods import periods

            rows = replace(rows, groups=periods(rows.times, f"{name_of(file)}: column '{columns['times']}'"))
        rows = with_others(rows, against, columns, score=request.score, lags=request.lags)
        request = replace(request, measures=measures, map=fitted)
        if server:
            with client_of(server, "maps") as client:
                report = RemoteForecasts(client).evaluate(rows, request, cast("str | None", applied))
        else:
            report = evaluate_forecasts(rows, request)
        gate = Gate.read(fail_above, fail_by, keys=list(report["measures"]), interval=request.interval)
        if as_json:
            write_json(report)
        else:
            from calibrant.cli.report_tables import report_tables

            write_lines(*report_tables(report, by=grouped_by, level=request.interval))
        gate.check(report)
