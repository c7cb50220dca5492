"""Compare several models on the same rows, or calibration maps with each other and with no map.

The models are several columns of one file, each named with --prediction, or one file for each model, joined on the
column of --id. With --map, the maps are compared on the predictions of the file. Instead of a file, there may be a
folder, a pattern such as 'rows/*.parquet' or a URL such as 's3://bucket/rows/*.parquet', if its rows fit in memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli.commands.evaluate import Variance, as_answered, as_sent
from calibrant.cli.engine import engine_of, read_map
from calibrant.cli.exits import Refused, errors_in_a_line
from calibrant.cli.options import RESAMPLES, SEED, Resamples, Seed, read_measures
from calibrant.cli.output import Json, say, write_json, write_lines
from calibrant.cli.rows import (
    Columns,
    columns_for,
    name_of,
    read_model_rows,
    read_rows,
    reads_a_file,
    reduction_of,
)
from calibrant.cli.server_url import Server
from calibrant.cli.sources import Where, compared_source, source_arguments, source_of
from calibrant.core.choices import Correction as Correction
from calibrant.core.choices import RankingScore as RankingScore
from calibrant.io.errors import TabularError

if TYPE_CHECKING:
    from calibrant.io.table import Sheet

Files = Annotated[list[Path], typer.Argument(help="Files as for evaluate; several files have a model each.")]
Measures = Annotated[
    list[str] | None,
    typer.Option(
        "--measure",
        help="Measure, as for evaluate; repeatable. Default for models: log-loss, brier, auroc and ece; of several "
        "classes log-loss, brier, accuracy and ks-by-predicted-class.",
    ),
]
Maps = Annotated[
    list[str] | None,
    typer.Option("--map", help="Map to compare: a JSON file, or with --server a reference; repeatable."),
]
RankBy = Annotated[
    RankingScore | None,
    typer.Option(
        "--rank-by",
        help="Score that ranks the models. Default: log-loss, or brier if a model gives a label probability 0.",
    ),
]
CorrectionOf = Annotated[
    Correction | None,
    typer.Option("--correction", help="Correction for all pairs of a measure. Default: holm; with --map max-t."),
]
Level = Annotated[float, typer.Option("--interval", help="Level of all intervals.")]


@reads_a_file("times", "by", "known", "level", "levels")
def compare(
    files: Files,
    columns: Columns,
    map_of: Maps = None,
    measure: Measures = None,
    rank_by: RankBy = None,
    correction: CorrectionOf = None,
    interval: Level = 0.95,
    resamples: Resamples = RESAMPLES,
    cluster_variance: Variance = None,
    seed: Seed = SEED,
    where: Where = None,
    as_json: Json = False,
    server: Server = None,
) -> None:
    if cluster_variance is not None and columns["clusters"] is None:
        raise typer.BadParameter("needs --cluster", param_hint="--cluster-variance")
    source = source_of(files[0], server, where)
    if len(files) > 1 and any(source_of(file, server) is not None for file in files):
        raise typer.BadParameter("must be one folder, pattern or URL, with a column for each model", param_hint="FILES")
    with engine_of(server) as engine:
        from calibrant.measures.catalogue import read_requests
        from calibrant.measures.intervals import Resampling

        variance: Any = cluster_variance
        measures, reduction = read_measures(measure), columns["reduction"]
        read_requests(measures, reduction)  # before a long file is read
        Resampling.read(interval, resamples, seed, variance or "cr2")
        options: dict[str, Any] = {"rank_by": rank_by, "correction": correction}
        how: dict[str, Any] = {"interval": interval, "resamples": resamples, "seed": seed}
        if source is not None:
            maps = _loaded(map_of, [read_map(text, None) for text in map_of]) if map_of else None
            arguments = source_arguments(columns, where, "predictions", "labels")
            comparison: Any = compared_source(source, arguments, maps, measures=measures, **options, **how)
        elif map_of:
            if len(files) > 1:
                raise typer.BadParameter("is for the predictions of one file", param_hint="--map")
            documents = [read_map(text, server) for text in map_of]
            rows = read_rows(files[0], columns_for(columns, engine.document(documents[0])))
            options["maps"] = documents if server else _loaded(map_of, documents)
        else:
            options["models"] = models_of(files, columns_for(columns, None))
            rows = next(iter(options["models"].values()))
        if source is None:
            options |= {"measures": measures, "reduction": reduction_of(rows, reduction), "cluster_variance": variance}
            comparison = engine.call("compare", rows, **how, **options)
    with errors_in_a_line():
        report = as_sent(comparison) if server else as_answered(comparison.to_dict())
        if as_json:
            write_json(report)
        else:
            from calibrant.cli.report_tables import comparison_tables

            write_lines(*comparison_tables(report))


def _loaded(texts: list[str], documents: list[Any]) -> dict[str, Any]:
    """Return the maps in files by the names of the files without their endings."""
    from calibrant.maps.calibration_map import load

    names = [Path(text).stem for text in texts]
    if len(set(names)) < len(names):
        raise typer.BadParameter("must be files with different names", param_hint="--map")
    return {name: load(document) for name, document in zip(names, documents, strict=True)}


def models_of(files: list[Path], columns: Columns) -> dict[str, Sheet]:
    """Read the models of one file, or of several files that are joined on their ids, by name; raises ``Refused``."""
    if len(files) == 1 and len(columns["predictions"] or ()) < 2:
        raise typer.BadParameter("must be given once for each of 2 or more models", param_hint="--prediction")
    if len(files) == 1:
        return dict(read_model_rows(files[0], columns).sheets)
    if not columns["ids"]:
        raise typer.BadParameter("is needed to compare several files", param_hint="--id")
    predictions = columns["predictions"] or ()
    if len(predictions) not in (0, 1, len(files)):
        raise typer.BadParameter("must be one column, or one for each file in their order", param_hint="--prediction")
    from calibrant.io.cells import matching_rows

    names = [file.stem for file in files]
    names = names if len(set(names)) == len(names) else [str(file) for file in files]
    if len(set(names)) < len(names):
        raise typer.BadParameter("must be different", param_hint="FILES")
    sheets = []
    for i, file in enumerate(files):
        own = columns if i == 0 else {**columns, "weights": None, "groups": None, "clusters": None}
        own = {**own, "predictions": [predictions[i]]} if len(predictions) > 1 else own
        sheets.append(read_rows(file, own, labelled=None if i else True))
    try:
        ids = {name_of(file): sheet.ids or [] for file, sheet in zip(files, sheets, strict=True)}
        rows, notes = matching_rows(ids, inner=bool(columns["inner"]))
    except TabularError as error:
        raise Refused(error.detail) from error
    for note in notes:
        say(note)
    joined = [sheet.taken(own) for sheet, own in zip(sheets, rows, strict=True)]
    for file, sheet in zip(files[1:], joined[1:], strict=True):
        _check_labels(joined[0], sheet, name_of(file), name_of(files[0]))
    return dict(zip(names, joined, strict=True))


def _check_labels(first: Sheet, other: Sheet, name: str, name_of_first: str) -> None:
    """Raise ``Refused`` unless the rows of a file have the labels and classes of the first one."""
    import numpy as np

    if other.labels is None or first.labels is None:
        if other.predictions.ndim > 1:
            raise Refused(f"{name}: needs labels, from which the order of its classes is known")
        return
    if other.classes != first.classes:
        raise Refused(f"{name}: has other classes than {name_of_first}")
    away = np.flatnonzero(first.labels != other.labels)
    if len(away):
        raise Refused(f"{name}: has another label than {name_of_first} for {len(away):,} of {len(first):,} ids")
