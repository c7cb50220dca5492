"""Measure the calibration of predictions; with --map, before and after the map.

With --regression, the predictions are distributions of a number, such as forecasts with quantiles.

A folder, a pattern such as 'rows/*.parquet' or a URL such as 's3://bucket/rows/*.parquet' is read without holding all
rows in memory; name the columns with --prediction and --label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from calibrant.cli.engine import Engine, engine_of, read_map
from calibrant.cli.exits import Refused, errors_in_a_line
from calibrant.cli.gate import FailAbove, FailBy, Gate
from calibrant.cli.options import RESAMPLES, SEED, Interval, Measure, Resamples, Seed, map_option, read_measures
from calibrant.cli.output import Json, bar, say, write_json, write_lines
from calibrant.cli.regression import map_for
from calibrant.cli.rows import (
    Columns,
    File,
    Regression,
    batch_of,
    columns_for,
    name_of,
    note_reduction,
    read_forecast_rows,
    read_rows,
    reads_a_file,
    reduction_of,
)
from calibrant.cli.server_url import Server
from calibrant.cli.sources import Where, evaluated_source, source_arguments, source_of

if TYPE_CHECKING:
    from calibrant.client.answers import ReportAnswer
    from calibrant.distributions.forecasts import Forecasts
    from calibrant.distributions.maps.distribution_map import DistributionMap
    from calibrant.io.table import ForecastSheet, Sheet

# --- Evaluations, in this process or on a server


@dataclass(frozen=True)
class EvaluateFlags:
    """Options of an evaluation; ``map`` is a reference on the server or a map document."""

    measures: list[str | dict[str, Any]] | None = None
    diagrams: list[str | dict[str, Any]] | None = None
    reduction: str | None = None
    map: Any = None
    interval: float | None = None
    resamples: int = RESAMPLES
    seed: int = SEED
    cluster_variance: Any = None


def evaluated(engine: Engine, rows: Sheet, request: EvaluateFlags) -> dict[str, Any]:
    """Evaluate the rows; returns the JSON of ``POST /evaluate``."""
    if engine.client is not None:
        return as_sent(engine.call("evaluate", rows, **vars(request)))
    from calibrant.diagrams.catalogue import read_diagrams
    from calibrant.evaluation import Evaluation, report_document
    from calibrant.maps.calibration_map import check_class_names, load
    from calibrant.measures.catalogue import level_of, read_requests
    from calibrant.measures.cross_fitting import UNKNOWN, training_of
    from calibrant.measures.intervals import Resampling

    fitted = None if request.map is None else load(request.map)
    level = level_of(request.interval, request.measures)
    resampling = Resampling.read(level, request.resamples, request.seed, request.cluster_variance or "cr2")
    evaluation = Evaluation(
        read_requests(request.measures, request.reduction),
        request.reduction,
        fitted,
        resampling,
        diagrams=read_diagrams(request.diagrams),
        training=UNKNOWN if fitted is None else training_of(fitted),
        of_groups=replace(resampling, level=request.interval),
    )
    check_class_names(fitted, rows.classes)
    batch = batch_of(rows)
    with bar() as shown:
        report = report_document(evaluation.run(evaluation.check(batch, rows.groups), progress=shown), None)
    return as_answered(report)


def as_answered(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report as a server sends it: plain JSON, with its fields in the order of the API."""
    import orjson

    from calibrant.client.answers import ReportAnswer, decode

    return as_sent(decode(ReportAnswer, orjson.loads(orjson.dumps(report, option=orjson.OPT_SERIALIZE_NUMPY))))


def as_sent(report: ReportAnswer) -> dict[str, Any]:
    """Return the JSON that the server sends: the report without the parts that were not requested."""
    of_the_map = () if report.after is None else ("map", "in_sample")
    sent = _present(report.to_dict(), *of_the_map)
    if "after" in sent:
        sent["after"] = _present(sent["after"])
    for name, group in sent.get("groups", {}).items():
        after = group["after"] and _present(group["after"])
        sent["groups"][name] = _present(group | {"after": after})
    return sent


def _present(part: dict[str, Any], *nullable: str) -> dict[str, Any]:
    return {field: value for field, value in part.items() if value is not None or field in nullable}


@dataclass(frozen=True)
class EvaluateForecasts:
    """Options of an evaluation of predictive distributions; a comparison is with the other forecasts of the rows.

    ``map`` is a reference on the server or a map.
    """

    measures: list[str | dict[str, Any]] | None = None
    map: DistributionMap | str | None = None
    interval: float | None = None
    seed: int = 0
    score: str | None = None
    lags: int = 0


def evaluated_forecasts(engine: Engine, rows: ForecastSheet, request: EvaluateForecasts) -> dict[str, Any]:
    """Evaluate the rows; with a map, also ``after`` it, and whether the map was fitted to these rows."""
    if engine.client is not None:
        upload = partial(engine.client.upload_distribution, rows.observed, ttl=_STORED_SECONDS)
        names = {upload(**forecasts).id: name for name, forecasts in rows.others.items()}
        report = engine.call("evaluate_distribution", rows, against=list(names) or None, **vars(request))
        document = _merged(report.to_dict())
        if "comparison" in document:
            document["comparison"] = _renamed(document["comparison"], names)
        return document
    from calibrant.core.progress import reporting
    from calibrant.kinds.distributions import DistributionEvaluation

    evaluation = DistributionEvaluation.read(**vars(request), comparable=True)
    with bar() as shown, reporting(shown):
        document = evaluation.document(rows)
    if document["kind"] != rows.forecasts.kind:
        say("before the map: quantiles at the levels of the map, so that the scores are comparable")
    return _merged(document)


#: How long the server keeps forecasts that are stored for a comparison.
_STORED_SECONDS = 3600


def _renamed(comparison: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Replace the ids of batches by the names of their files."""
    means = {names.get(name, name): value for name, value in comparison["means"].items()}
    ranking = [names.get(name, name) for name in comparison["ranking"]]
    pairs = [pair | {"between": [names.get(name, name) for name in pair["between"]]} for pair in comparison["pairs"]]
    return comparison | {"means": means, "ranking": ranking, "pairs": pairs}


def _merged(merged: dict[str, Any]) -> dict[str, Any]:
    """Return a report without missing parts, with the results after the map beside those of each group before it."""
    merged = {name: value for name, value in merged.items() if value is not None or name == "groups"}
    for name, group in ((merged.get("after") or {}).pop("groups", None) or {}).items():
        merged["groups"][name]["after"] = {"measures": group["measures"]}
    return merged


# --- The command

MapOf = Annotated[str | None, map_option("measures are given before and after it")]
Against = Annotated[
    list[Path] | None,
    typer.Option("--against", help="With --regression: file of other forecasts of the same rows, to compare."),
]
ScoreOf = Annotated[
    str | None,
    typer.Option(
        "--score",
        help="With --against: score of the comparison. Default: interval-score if either file has intervals, "
        "quantile-score if either has quantiles, otherwise crps.",
    ),
]
Variance = Annotated[
    str | None, typer.Option("--cluster-variance", help="With --cluster: cr2 (default), cr1 as in statsmodels, or cr0.")
]
Lags = Annotated[
    int,
    typer.Option(
        "--lags",
        min=0,
        help="With --against: number of earlier rows that a row may depend on; for forecasts h steps ahead, at least "
        "h - 1. Rows must be in the order of time.",
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
    cluster_variance: Variance = None,
    seed: Seed = SEED,
    map_of: MapOf = None,
    against: Against = None,
    score: ScoreOf = None,
    lags: Lags = 0,
    where: Where = None,
    fail_above: FailAbove = None,
    fail_by: FailBy = "value",
    as_json: Json = False,
    server: Server = None,
) -> None:
    time, reduction = columns["times"], columns["reduction"]
    if time is not None and columns["groups"]:
        raise typer.BadParameter("cannot be combined with --group", param_hint="--time")
    if cluster_variance is not None and (regression or columns["clusters"] is None):
        raise typer.BadParameter("needs --cluster, without --regression", param_hint="--cluster-variance")
    for flag, stated in (("--against", against), ("--score", score), ("--lags", lags or None)):
        if stated is not None and not regression:
            raise typer.BadParameter("needs --regression", param_hint=flag)
    if regression and resamples != RESAMPLES:
        raise typer.BadParameter("cannot be combined with --regression", param_hint="--resamples")
    source = source_of(file, server, where)
    with engine_of(server) as engine:
        measures, applied, classes = read_measures(measure), read_map(map_of, server), None
        if regression:
            from calibrant.distributions.measures import read_measure_requests

            requests = read_measure_requests(measures or [])  # before a long file is read
            if columns["by"] and applied is None and not any(how.get("by") == "column" for _, _, how in requests):
                raise typer.BadParameter("needs --map, or a measure by column", param_hint="--by")
            of_forecasts = EvaluateForecasts(measures, map_for(applied), interval, seed, score, lags)
            sheet = _with_others(
                _by_period(read_forecast_rows(file, columns), file, time), against, columns, of_forecasts
            )
            report = evaluated_forecasts(engine, sheet, of_forecasts)
            gate = Gate.read(fail_above, fail_by, keys=list(report["measures"]), interval=interval)
        else:
            from calibrant.measures.catalogue import applicable, level_of, read_requests
            from calibrant.measures.intervals import Resampling

            # Check the options before a long file is read or sent.
            level, variance = level_of(interval, measures), cast(Any, cluster_variance)
            Resampling.read(level, resamples, seed, variance or "cr2")
            if measures == ["all"]:
                measures = [*map(str, applicable("all", reduction) or ())]
            keys = [request.key for request in read_requests(measures, reduction)]
            gate = Gate.read(fail_above, fail_by, keys=keys, interval=level)
            if source is None:
                rows = read_rows(file, columns_for(columns, engine.document(applied)))
                rows = _by_period(note_reduction(rows, reduction), file, time)
                classes = rows.classes
                event = reduction_of(rows, reduction)
                how = EvaluateFlags(measures, None, event, applied, interval, resamples, seed, cluster_variance)
                report = evaluated(engine, rows, how)
            else:
                arguments = source_arguments(columns, where, "predictions", "labels")
                arguments |= {"measures": measures, "interval": interval, "resamples": resamples, "seed": seed}
                report = evaluated_source(source, arguments, applied)
    _finish(report, gate, classes, "group" if time is None else "period", interval, as_json=as_json)


def _with_others(
    rows: ForecastSheet, files: Sequence[Path] | None, columns: Columns, request: EvaluateForecasts
) -> ForecastSheet:
    """Return the rows with the forecasts in the files of ``--against``; raises ``Refused`` for other outcomes."""
    if not files:
        for flag, stated in (("--score", request.score), ("--lags", request.lags or None)):
            if stated is not None:
                raise typer.BadParameter("needs --against", param_hint=flag)
        return rows
    import numpy as np

    others: dict[str, Forecasts] = {}
    for file in files:
        name = file.name
        if name in (*others, "forecasts", "calibrated"):
            raise typer.BadParameter("must have different file names", param_hint="--against")
        sheet = read_forecast_rows(file, columns, unused=("weights", "groups"))
        if not np.array_equal(np.asarray(sheet.observed), np.asarray(rows.observed)):
            raise Refused(f"{name_of(file)}: has other outcomes than the first file; a comparison needs the same rows")
        others[name] = sheet.forecasts
    return replace(rows, others=others)


Rows = TypeVar("Rows", "Sheet", "ForecastSheet")


def _by_period(rows: Rows, file: Path, time: str | None) -> Rows:
    """Return the rows with the periods of their times as groups, if they have times."""
    if rows.times is None:
        return rows
    from calibrant.io.cells import periods

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
