"""Apply a calibration map to a file of predictions, or recalibrate forecasts in the order of time.

The suffix of --out determines the format: .csv, .csv.gz, .tsv, .jsonl, .parquet, .arrow, .feather or .npz. The
default is CSV, with the separator of the file.

The new columns are calibrated, or one per class, such as calibrated_bird. They follow the columns of a CSV
or JSON Lines file; in Parquet, Arrow and JSON Lines output, also those of a Parquet or Arrow file. In all other
cases, the output has only the new columns. NPZ output has only the array calibrated.

With --bounds, a Venn-Abers map of one event adds calibrated_p0 and calibrated_p1, the two probabilities that it merges.

For a map to prediction sets, the new columns are set_bird and so on: 1 if the set of the row has the class, else 0.

A folder, a pattern or a URL such as 's3://bucket/rows/*.parquet' is written to a new folder or prefix --out as Parquet
files, without holding all rows in memory; name the columns with --prediction.

For a map of predictive distributions, the new columns are calibrated_mean and calibrated_std, calibrated_q0.05 and
so on, or calibrated_lower and calibrated_upper. NPZ output has arrays such as quantiles and levels.
"""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, cast

import numpy as np
import typer

from calibrant.cli.engine import Engine, engine_of, read_map, say_map
from calibrant.cli.exits import Refused, errors_in_a_line, is_stated
from calibrant.cli.options import map_option, read_options
from calibrant.cli.output import STANDARD, Out, bar, counted, opened, say
from calibrant.cli.regression import SupportOf, map_for, read_support
from calibrant.cli.rows import (
    Columns,
    File,
    check_alone,
    columns_for,
    name_of,
    read_forecast_rows,
    read_rows,
    reads_a_file,
    source_of,
)
from calibrant.cli.server_url import Server
from calibrant.cli.sets import GROUPS_OF_SETS, SeedOfSets, say_sizes, sets_of
from calibrant.cli.sources import Where, scored_source, source_arguments
from calibrant.cli.sources import source_of as source_of_url
from calibrant.core.batch import Integers, read_predictions, with_features
from calibrant.core.cells import Floats
from calibrant.distributions.forecasts import FIELDS, Forecasts
from calibrant.io.calibrated import BLOCK, BOUNDS, calibrated_arrow, calibrated_lines, calibrated_text, forecast_columns
from calibrant.io.errors import TabularError, needed_pyarrow
from calibrant.io.limits import FileLimits
from calibrant.io.options import WRITTEN_SUFFIXES
from calibrant.io.table import ForecastSheet, Sheet

if TYPE_CHECKING:
    from calibrant.client.frames import ForecastArguments
    from calibrant.distributions.adaptive import AdaptiveForecasts
    from calibrant.distributions.maps.distribution_map import DistributionMap, Support


# --- Application of a map, in this process or on a server


def _calibrated(engine: Engine, rows: Sheet, applied: Any, *, bounds: bool) -> Floats:
    """Apply a map to the predictions; with ``bounds`` beside the two probabilities that each is merged from, (n, 3)."""
    if engine.client is not None and bounds:
        return np.column_stack(engine.client.bounds(applied, rows.predictions, scale=rows.scale))
    if engine.client is not None:
        features = {} if rows.features is None else {"features": rows.features}
        answer = engine.client.calibrate(applied, rows.predictions, scale=rows.scale, return_map=True, **features)
        say_map(answer)
        calibrated: Floats = answer.calibrated
        return calibrated
    from calibrant.maps.calibration_map import load

    fitted, predictions = load(applied), read_predictions(rows.predictions, scale=rows.scale)
    if rows.features is not None:
        predictions = with_features(predictions, rows.features)
        _say_fallbacks(fitted.fallbacks_checked(predictions.features), len(rows))
    calibrated = fitted.apply_checked(predictions)
    return np.column_stack([calibrated, *fitted.bounds_checked(predictions)]) if bounds else calibrated


def _say_fallbacks(counts: Mapping[str, Any], n: int) -> None:
    """Print how many rows have features that the fit has not seen."""
    if counts["rows"]:
        known = counts["features"].items()
        fallbacks = [f"{name} {count:,} {what}" for name, own in known for what, count in own.items() if count]
        say(f"features: {counts['rows']:,} of {counted(n)} have missing or unknown values: {', '.join(fallbacks)}")


def _calibrated_forecasts(engine: Engine, rows: ForecastSheet, applied: Any) -> Forecasts:
    """Apply a map to the forecasts."""
    if engine.client is not None:
        forecasts = cast("ForecastArguments", {**rows.forecasts, "by": rows.by})
        answer = engine.client.calibrate_distribution(applied, return_map=True, **forecasts)
        say_map(answer)
        calibrated: Forecasts = answer.calibrated
        return calibrated
    fitted: DistributionMap = applied
    return fitted.apply_checked(rows.forecasts, by=rows.by)


# --- Writing the calibrated probabilities; for a text file, next to its own columns


def write_calibrated(
    source: BinaryIO,
    file: Path,
    calibrated: Floats | Integers,
    classes: Sequence[str] | None,
    out: Path,
    decimal: str = ".",
    encoding: str | None = None,
) -> None:
    """Write ``calibrated`` (n,) or (n, K), after the columns of ``source`` if it is a text file or both have types.

    ``file`` is the path of the source, ``classes`` are the names of the classes, and ``decimal`` and ``encoding`` are
    those of text. Raises ``Refused`` if the source already has a column of that name, or one cannot be encoded.
    """
    suffix = out.suffix.lower()
    if suffix == ".npz":
        _write_arrays(out, {"calibrated": calibrated})
        return
    from calibrant.io.detection import open_table
    from calibrant.io.texts import TextCells

    with open_table(source, name_of(file), FileLimits(), TextCells(encoding=encoding)) as table:
        try:
            if suffix in (".parquet", ".arrow", ".feather"):
                _write_table(calibrated_arrow(table, calibrated, classes, decimal=decimal), out)
                return
            separator = "\t" if suffix == ".tsv" else None
            pieces = (
                calibrated_lines(table, calibrated, classes, decimal=decimal)
                if suffix == ".jsonl"
                else calibrated_text(table, calibrated, classes, separator=separator, decimal=decimal)
            )
        except TabularError as error:
            raise Refused(error.detail) from error
        with opened(out) as written, bar() as shown, _packed(written, suffix) as target:
            for i, piece in enumerate(pieces):
                target.write(piece)
                shown(min(i * BLOCK, len(calibrated)), len(calibrated), "writing")


@contextlib.contextmanager
def _packed(written: BinaryIO, suffix: str) -> Iterator[BinaryIO]:
    if suffix != ".gz":
        yield written
        return
    with gzip.open(written, "wb") as packed:
        yield cast(BinaryIO, packed)


def _write_table(table: Any, out: Path) -> None:
    """Write a pyarrow table as Parquet, or as an Arrow file, which Feather is too."""
    with opened(out) as written:
        if out.suffix.lower() == ".parquet":
            needed_pyarrow("parquet", "a Parquet file").parquet.write_table(table, written)
            return
        with needed_pyarrow("ipc", "an Arrow file").ipc.new_file(written, table.schema) as writer:
            writer.write_table(table)


def _write_arrays(out: Path, arrays: Mapping[str, Any]) -> None:

    with opened(out) as npz:
        np.savez(npz, allow_pickle=False, **arrays)


def _write_forecasts(source: BinaryIO, file: Path, forecasts: Forecasts, out: Path, columns: Columns) -> None:
    """Write predictive distributions, to NPZ as the arrays of their kind."""
    if out.suffix.lower() == ".npz":
        _write_arrays(out, {name: getattr(forecasts, name) for name in FIELDS[forecasts.kind]})
        return

    calibrated, names = forecast_columns(forecasts)
    write_calibrated(source, file, calibrated, names, out, columns["decimal"], columns["encoding"])


# --- The command

MapOf = Annotated[str | None, map_option()]
HalfLife = Annotated[
    float | None,
    typer.Option(
        "--half-life",
        help="Instead of --map: recalibrate forecasts of a number in the order of time, each from the outcomes that "
        "were known when it was made. An outcome counts half after this time: in days for dates. Needs --time and "
        "--known; --by is the horizon.",
    ),
]
OrderOptions = Annotated[
    list[str] | None,
    typer.Option("--option", help="With --half-life: shift, widen or narrow, such as widen=1; repeatable."),
]
AlphaOfSets = Annotated[
    float | None,
    typer.Option("--alpha", help="Error level of the sets, for a map that was fitted with adjustable."),
]
BoundsOf = Annotated[
    bool,
    typer.Option("--bounds", help="For a Venn-Abers map: add calibrated_p0 and calibrated_p1, which it merges."),
]


@reads_a_file(
    *("weights", "weights_kind", "mapping", "class_names", "pos_label", "clusters", "reduction"),
    *("ids", "labels_from", "inner", "drop_missing", "features"),
    groups=GROUPS_OF_SETS,
    times="With --half-life: column of the times at which forecasts were made.",
    scale="Scale of the predictions: probability, percent (from 0 to 100) or logit. Never inferred. With --half-life: "
    "identity (the default there), or log1p for counts.",
)
def calibrate(
    file: File,
    columns: Columns,
    map_of: MapOf = None,
    half_life: HalfLife = None,
    support: SupportOf = None,
    option: OrderOptions = None,
    seed: SeedOfSets = None,
    bounds: BoundsOf = False,
    alpha: AlphaOfSets = None,
    where: Where = None,
    out: Out = STANDARD,
    server: Server = None,
) -> None:
    of_maps = {"--group": columns["groups"], "--seed": seed, "--alpha": alpha, "--bounds": bounds or None}
    source_of_files = source_of_url(file, server, where)
    if source_of_files is not None:
        if half_life is not None or map_of is None:
            raise typer.BadParameter("is needed for a folder, pattern or URL", param_hint="--map")
        others = {"--label": columns["labels"], "--support": support, "--option": option}
        _refuse("cannot be combined with a folder, pattern or URL", **others, **of_maps)
        with errors_in_a_line():
            document: Any = read_map(map_of, server)
            from calibrant.kinds import is_of_distributions, is_of_sets

            if is_of_sets(document) or is_of_distributions(document):
                text = "must give probabilities of classes: a folder, pattern or URL takes no other map"
                raise typer.BadParameter(text, param_hint="--map")
            arguments = source_arguments(columns, where, "predictions")
            scale = columns["scale"] if is_stated("scale") else None  # by default that of the map
            named = {name: arguments[name] for name in ("prediction", "where")}
            scored_source(source_of_files, out, document, {**named, "scale": scale})
        return
    if out != STANDARD and not out.name.lower().endswith(WRITTEN_SUFFIXES):
        raise typer.BadParameter(f"must end in one of {', '.join(WRITTEN_SUFFIXES)}", param_hint="--out")
    if half_life is not None:
        if (other := _first_stated(**{"--map": map_of}, **of_maps)) is not None:
            raise typer.BadParameter(f"cannot be combined with {other}", param_hint="--half-life")
        ends = read_support(support)
        _in_order(file, columns, out, server, half_life=half_life, support=ends, options=read_options(option))
        return
    in_order = {"--label": columns["labels"], "--time": columns["times"], "--known": columns["known"]}
    _refuse("needs --half-life", **in_order, **{"--support": support, "--option": option})
    if map_of is None:
        raise typer.BadParameter("name a map, or for forecasts in the order of time --half-life", param_hint="--map")
    _with_map(file, columns, map_of, out, server, seed=seed, bounds=bounds, alpha=alpha)


def _refuse(why: str, **stated: Any) -> None:
    """Raise ``BadParameter`` for the first of these options that has a value."""
    if (flag := _first_stated(**stated)) is not None:
        raise typer.BadParameter(why, param_hint=flag)


def _first_stated(**stated: Any) -> str | None:
    return next((flag for flag, value in stated.items() if value not in (None, [])), None)


def _with_map(
    file: Path,
    columns: Columns,
    map_of: str,
    out: Path,
    server: str | None,
    *,
    seed: int | None,
    bounds: bool,
    alpha: float | None,
) -> None:
    """Apply a map to the rows of a file, and write them."""
    with engine_of(server) as engine:
        applied: Any = read_map(map_of, server)
        from calibrant.kinds import is_of_distributions, is_of_sets

        document = engine.document(applied)
        regression, of_sets = is_of_distributions(document), is_of_sets(document)
        if not of_sets:
            of_maps = {"--group": columns["groups"], "--seed": seed, "--alpha": alpha}
            _refuse("is for maps to prediction sets", **of_maps)
        if bounds and document.get("family") != "venn-abers":
            raise typer.BadParameter("is for maps of venn-abers of one event", param_hint="--bounds")
        check_alone(regression=regression, columns=columns)
        with source_of(file) as source:
            if regression:
                sheet = read_forecast_rows(file, columns, labelled=False, unused=("groups",), source=source)
                _write_forecasts(source, file, _calibrated_forecasts(engine, sheet, map_for(applied)), out, columns)
                return
            unused = () if of_sets else ("groups",)
            rows = read_rows(file, columns_for(columns, document), labelled=False, unused=unused, source=source)
            values: Floats | Integers
            names: Sequence[str] | None
            if of_sets:
                sets = sets_of(engine, rows, applied, document, seed, alpha)
                say_sizes(sets)
                values, names = sets.members.astype(np.int64), [str(name) for name in sets.classes]
            else:
                values = _calibrated(engine, rows, applied, bounds=bounds)
                names = BOUNDS if bounds else document.get("class_names") or rows.classes
            write_calibrated(source, file, values, names, out, columns["decimal"], columns["encoding"])


def _in_order(
    file: Path,
    columns: Columns,
    out: Path,
    server: str | None,
    *,
    half_life: float,
    support: Support,
    options: Mapping[str, Any],
) -> None:
    """Recalibrate forecasts in the order of time, and write them like those of a map."""
    for flag, column in (("--time", columns["times"]), ("--known", columns["known"])):
        if column is None:
            raise typer.BadParameter("is needed with --half-life", param_hint=flag)
    if unknown := [name for name in options if name not in ("shift", "widen", "narrow")]:
        raise typer.BadParameter(f"{unknown[0]} must be shift, widen or narrow", param_hint="--option")
    with engine_of(server) as engine, source_of(file) as source:
        sheet = read_forecast_rows(file, columns, unused=("groups",), source=source)
        recalibrated: AdaptiveForecasts = engine.function("recalibrate_in_order")(
            sheet.observed,
            sheet.times,
            sheet.known,
            half_life=half_life,
            horizon=sheet.by,
            scale="identity" if columns["scale"] == "probability" else columns["scale"],
            support=support,
            **sheet.forecasts,
            **options,
        )
        changed = int((recalibrated.n_known > 0).sum())
        say(f"recalibrated {changed:,} of {counted(len(sheet))}; before the others no outcome was known")
        _write_forecasts(source, file, recalibrated.forecasts, out, columns)
