"""Write a report as one HTML file: the verdict, the diagrams, and the measures with explanations.

If each --prediction is the column of P(Y=1) of a model, the report compares the models. Columns that sum to 1 in every
row are the probabilities of classes.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli.commands.evaluate import EvaluateFlags, as_answered, as_sent, evaluated
from calibrant.cli.engine import Engine, engine_of, read_map
from calibrant.cli.exits import Refused
from calibrant.cli.options import SEED, Capacity, CostsOfErrors, Precision, Recall, Seed, map_option, read_flags
from calibrant.cli.output import STANDARD, in_a_folder, opened, say, working
from calibrant.cli.regression import FAN_TIME, SupportOf, read_distribution_map, read_support
from calibrant.cli.rows import (
    Columns,
    File,
    Regression,
    batch_of,
    columns_for,
    command_line,
    name_of,
    note_reduction,
    options_of,
    read_forecast_rows,
    read_model_rows,
    read_rows,
    reads_a_file,
    reduction_of,
    refuse_undecided,
    source_of,
)
from calibrant.cli.server_url import Server
from calibrant.core.version import __version__
from calibrant.io.errors import UnclearColumns
from calibrant.io.options import FileOptions

if TYPE_CHECKING:
    from calibrant.decisions.thresholds import ThresholdCriterion
    from calibrant.io.table import ForecastSheet, Sheet
    from calibrant.reports.panel import ReportSubject


# --- Reproducing a report: its command line, and Python that reads the same file

#: File name in the generated Python if the data came from a pipe.
_PIPED = "predictions.csv"


def loading(file: Path, options: FileOptions, read: str = "read_sheet") -> tuple[str, ...]:
    """Return lines of Python that read ``rows`` as the command did, with the function ``read``."""
    path = _PIPED if file == STANDARD else str(file)
    return (
        *(["import json"] if read == "read_sheet" else []),
        "from pathlib import Path",
        "",
        "import calibrant",
        f"from calibrant.io.files import FileOptions, {read}",
        "",
        *(["# A copy of the standard input."] if file == STANDARD else []),
        f"file = Path({path!r})",
        f"{'models' if read == 'read_models' else 'rows'} = {read}(file, name=file.name, options={options!r}, "
        f"max_rows=None){'.sheets' if read == 'read_models' else ''}",
    )


def applying(map_of: str | None, applied: str | dict[str, Any] | None) -> str | None:
    """Return a Python expression that loads the map from its file; None without a map or for a map on a server."""
    return f"calibrant.load(json.loads(Path({map_of!r}).read_text('utf-8')))" if isinstance(applied, dict) else None


# --- The command

MapOf = Annotated[str | None, map_option("the report shows the predictions before and after it")]

SetsOf = Annotated[
    str | None,
    typer.Option(
        "--sets",
        help="Map to prediction sets; the report then shows their coverage and sizes. A JSON file, or with --server a "
        "reference.",
    ),
]


Grades = Annotated[
    bool, typer.Option("--grades", help="Test the PDs of the groups, which are rating grades; needs --group.")
]


def _html_file(out: Path) -> Path:
    """Check the name of the output file; raises ``BadParameter``."""
    if out != STANDARD and out.suffix.lower() not in ("", ".html", ".htm"):
        raise typer.BadParameter(f"must end in .html or .htm, not {out.suffix}")
    return in_a_folder(out) or out


ReportOut = Annotated[Path, typer.Option("--out", callback=_html_file, help="Output file; - for standard output.")]


@reads_a_file("known", fits_maps=True, times=FAN_TIME)
def report(
    context: typer.Context,
    file: File,
    columns: Columns,
    regression: Regression = False,
    support: SupportOf = None,
    seed: Seed = SEED,
    map_of: MapOf = None,
    sets_of: SetsOf = None,
    grades: Grades = False,
    costs: CostsOfErrors = None,
    capacity: Capacity = None,
    precision: Precision = None,
    recall: Recall = None,
    out: ReportOut = Path("report.html"),
    server: Server = None,
) -> None:
    time, reduction = columns["times"], columns["reduction"]
    if not regression and (time is not None or support is not None):
        raise typer.BadParameter("needs --regression", param_hint="--time" if support is None else "--support")
    if grades and (regression or not columns["groups"]):
        raise typer.BadParameter("needs --group, without --regression", param_hint="--grades")
    if regression and sets_of is not None:
        raise typer.BadParameter("cannot be combined with --regression", param_hint="--sets")
    with engine_of(server) as engine:
        criterion = read_flags(costs, capacity, precision, recall)
        if criterion is not None and (regression or map_of is not None):
            other = "--regression" if regression else "--map"
            raise typer.BadParameter(f"cannot be combined with {other}", param_hint=f"--{criterion.name}")
        applied: Any = read_map(map_of, server)
        if regression:
            page = _forecast_page(context, engine, file, columns, seed, map_of, applied, support)
        else:
            columns = columns_for(columns, engine.document(applied), needs_map=False)
            rows, models = _rows_or_models(file, columns)
            if models is None:
                from calibrant.evaluation import Evaluation
                from calibrant.reports.operations import ClassEvaluation, ClassReport, section_options
                from calibrant.sets.set_map import load_sets

                if criterion is not None:
                    refuse_undecided(rows, reduction, file, columns)
                rows = note_reduction(rows, reduction)
                reduction = reduction_of(rows, reduction)
                document, options = _measured(engine, rows, reduction, seed, applied)
                sets = None if sets_of is None else load_sets(engine.document(read_map(sets_of, server)))
                evaluation = ClassEvaluation(Evaluation((), reduction), sets=sets, grades=grades, criterion=criterion)
                with working("comparing maps"):
                    checked = evaluation.evaluation.check(batch_of(rows), rows.groups)
                    document |= ClassReport(evaluation, recommends=applied is None, seed=seed).sections(checked)
                options |= section_options(reduction, grades=grades, criterion=criterion)
            else:
                of_one = {"--grades": grades, "--sets": sets_of, "--map": map_of, "--feature": rows.features}
                if flags := [name for name, value in of_one.items() if value not in (None, False)]:
                    raise typer.BadParameter("cannot be combined with several models", param_hint=flags[0])
                columns = {**columns, "predictions": list(models)}
                document, options = _compared(engine, models, reduction_of(rows, reduction), criterion, seed)
            subject = replace(
                _subject(context, file, rows, map_of, options),
                classes=rows.classes,
                scale=rows.scale,
                loading=loading(file, options_of(columns), "read_sheet" if models is None else "read_models"),
                applying=applying(map_of, applied),
            )
            page = _page(document, subject)
        with opened(out) as written:
            written.write(page)
    if out != STANDARD:
        say(f"wrote {out}")


def _forecast_page(
    context: typer.Context,
    engine: Engine,
    file: Path,
    columns: Columns,
    seed: int,
    map_of: str | None,
    applied: Any,
    support: str | None,
) -> bytes:
    """Return the report of predictive distributions; a server makes all of it."""
    if engine.client is not None:
        if support is not None or columns["scale"] != "probability":
            flag = "--scale" if support is None else "--support"
            raise typer.BadParameter("cannot be combined with --regression and --server", param_hint=flag)
        html: str = engine.call("distribution_report_html", read_forecast_rows(file, columns), map=applied, seed=seed)
        return html.encode()
    from calibrant.kinds.distributions import ForecastReport, report_options

    fitted, ends = None if applied is None else read_distribution_map(applied), read_support(support)
    rows = read_forecast_rows(file, columns)
    scale: Any = "identity" if columns["scale"] == "probability" else columns["scale"]
    with working("evaluating the forecasts and comparing maps"):
        document = ForecastReport(fitted, seed, scale, ends).document(rows)
    subject = replace(
        _subject(context, file, rows, map_of, report_options(rows.forecasts.kind, rows.columns, seed)),
        loading=loading(file, options_of(columns, "numbers"), "read_forecast_sheet"),
        applying=None if map_of is None else f"calibrant.load_distribution({map_of!r})",
    )
    return _page(document, subject)


def _measured(
    engine: Engine, rows: Sheet, reduction: str | None, seed: int, applied: str | dict[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Evaluate the rows, and each group if there are groups; return the report and the options of the evaluation."""
    from calibrant.reports.panel import by_group, full, joined

    n_classes = None if rows.predictions.ndim == 1 else rows.predictions.shape[1]
    options = full(len(rows), n_classes, reduction, seed=seed)
    document = evaluated(engine, replace(rows, groups=None), EvaluateFlags(reduction=reduction, map=applied, **options))
    if rows.groups is not None:
        grouped = by_group(len(rows), n_classes, reduction, weighted=rows.weights is not None, seed=seed)
        document = joined(document, evaluated(engine, rows, EvaluateFlags(reduction=reduction, map=applied, **grouped)))
    return document, options


def _rows_or_models(file: Path, columns: Columns) -> tuple[Sheet, dict[str, Sheet] | None]:
    """Read the rows, or those of each model with the rows of the first, if the named columns cannot be classes."""
    with source_of(file) as source:
        try:
            return read_rows(file, columns, source=source), None
        except Refused as refusal:
            error = refusal.__cause__
            if not columns["predictions"] or not isinstance(error, UnclearColumns) or not error.models:
                raise
        named = {**columns, "predictions": list(error.models)}
        models = dict(read_model_rows(file, named, source).sheets)
    note = f"predictions: {len(models)} columns, each P(Y=1) of a model; their rows do not sum to 1, as classes do"
    say(note)
    models = {name: replace(sheet, notes=(*sheet.notes, note)) for name, sheet in models.items()}
    return next(iter(models.values())), models


def _compared(
    engine: Engine,
    models: dict[str, Sheet],
    reduction: str | None,
    criterion: ThresholdCriterion | None,
    seed: int,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Compare models; return the report, with the diagrams of each model, and the options of the comparison."""
    from calibrant.reports.operations import model_sections, options_of_models

    options = options_of_models(list(models), reduction, criterion, seed=seed)
    shared = {name: value for name, value in options.items() if criterion is None or name != criterion.name}
    answer = engine.call("compare", next(iter(models.values())), **{**shared, "models": models})
    comparison = as_answered(answer.to_dict()) if engine.client is None else as_sent(answer)
    with working("drawing diagrams"):
        batches = {name: batch_of(sheet) for name, sheet in models.items()}
        comparison |= model_sections(batches, comparison["reduction"], criterion, None, seed)
    return comparison, options


def _page(document: dict[str, Any], subject: ReportSubject) -> bytes:
    from calibrant.reports.html import standalone

    with working("drawing diagrams"):
        return standalone(document, subject).encode()


def _subject(
    context: typer.Context, file: Path, rows: Sheet | ForecastSheet, map_of: str | None, options: dict[str, Any]
) -> ReportSubject:
    """Return the facts about the rows that a report shows, for both kinds of predictions."""
    from datetime import UTC, datetime

    from calibrant.core.batch import counted_kind
    from calibrant.reports.panel import ReportSubject

    return ReportSubject(
        name=name_of(file) if file == STANDARD else file.name,
        version=__version__,
        when=datetime.now(UTC),
        inferred=rows.notes,
        options=options,
        weights=None if rows.weights is None else counted_kind(rows.weights_kind),
        map=map_of,
        command=command_line(context),
    )
