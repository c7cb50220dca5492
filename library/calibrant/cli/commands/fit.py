"""Fit a calibration map.

A folder, a pattern such as 'rows/*.parquet' or a URL such as 's3://bucket/rows/*.parquet' is read without holding all
rows in memory; name the columns with --prediction and --label.

Methods lac, aps, raps and crc fit a map to prediction sets, such as with --option alpha=0.05.

Without a server, the command writes the map as JSON: to --out, or to standard output. If that is a terminal, it
writes a file in the working directory instead, such as preds.json for preds.csv. With --server, the server stores
the map and the command prints its name and version, or its id.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from calibrant.cli.commands.evaluate import EvaluateFlags, EvaluateForecasts, evaluated, evaluated_forecasts
from calibrant.cli.engine import Engine, engine_of
from calibrant.cli.exits import Refused, errors_in_a_line
from calibrant.cli.options import SEED, AllowShapeChange, Seed, read_options
from calibrant.cli.output import STANDARD, bar, counted, in_a_folder, say, weighted, write_json, write_lines
from calibrant.cli.regression import SupportOf, map_for, read_support
from calibrant.cli.rows import (
    Columns,
    File,
    Regression,
    batch_of,
    read_forecast_rows,
    read_rows,
    reads_a_file,
    reduction_of,
)
from calibrant.cli.server_url import Server
from calibrant.cli.sets import GROUPS_OF_SETS, gives_sets, rows_of_sets, say_coverage, sets_of
from calibrant.cli.sources import Where, fitted_source, source_arguments, source_of

if TYPE_CHECKING:
    from calibrant.client.answers import MapRecord
    from calibrant.core.batch import Integers
    from calibrant.distributions.maps.distribution_map import Support
    from calibrant.io.table import ForecastSheet, Sheet

Split = TypeVar("Split", "Sheet", "ForecastSheet")

# --- Fits, in this process or on a server


class Fitted(NamedTuple):
    """A fitted map: its document, its in-sample scores, and its reference on the server."""

    document: dict[str, Any]
    in_sample: dict[str, Any] | None = None
    ref: str | None = None


@dataclass(frozen=True)
class FitFlags:
    """Options of a fit; ``scale`` and ``support`` are those of predictive distributions."""

    method: str
    options: dict[str, Any]
    name: str | None
    seed: int
    allow_shape_change: bool
    reduction: str | None = None
    scale: str | None = None
    support: Support | None = None


def _fitted(engine: Engine, rows: Sheet | ForecastSheet, request: FitFlags) -> Fitted:
    """Fit a map to the rows, which only a server stores."""
    from calibrant.io.table import ForecastSheet

    of_forecasts = isinstance(rows, ForecastSheet)
    if engine.client is not None:
        record: MapRecord = engine.call("fit_distribution" if of_forecasts else "fit", rows, **vars(request))
        scores = None if record.in_sample is None else record.in_sample.to_dict()
        return Fitted(record.document, scores, record.id if record.name is None else f"{record.name}:{record.version}")
    from calibrant.core.options import read_seed
    from calibrant.core.progress import reporting

    read_seed(request.seed)
    with bar() as shown, reporting(shown):
        if isinstance(rows, ForecastSheet):
            return _fitted_forecasts(rows, request)
        return _fitted_sets(rows, request) if gives_sets(request.method) else _fitted_classes(rows, request)


def _fitted_classes(rows: Sheet, request: FitFlags) -> Fitted:
    from calibrant.calibrators import FitContext, Fitting
    from calibrant.calibrators.fitting import with_training
    from calibrant.diagrams.in_sample import in_sample

    fitting = Fitting.read(request.method, request.options, request.reduction, where="/options")
    batch = batch_of(rows)
    if rows.features is not None and fitting.method.featured is None:
        raise typer.BadParameter("is for --method segments", param_hint="--feature")
    for feature in batch.predictions.features or ():
        several = counted(len(feature.categories), "category", "categories")
        say(f"features: {feature.name} has {'numbers' if feature.codes is None else several}")
    fitting.check(batch)
    fitted = fitting.run(batch, FitContext(request.seed, "cpu", None))
    change = in_sample(batch, fitted)
    document = with_training(fitted, batch, request.options, request.seed, rows.classes).to_document()
    return Fitted(document, {"before": change.before.scores, "after": change.after.scores})


def _fitted_forecasts(rows: ForecastSheet, request: FitFlags) -> Fitted:
    from calibrant.distributions.calibrators import DistributionFitting

    own: dict[str, Any] = {"scale": request.scale, "support": request.support, "seed": request.seed}
    fitting = DistributionFitting.read(request.method, request.options, **own)
    return Fitted(fitting.run(fitting.check(rows)).to_document())


def _fitted_sets(rows: Sheet, request: FitFlags) -> Fitted:
    from calibrant.sets.fitting import SetFitting

    fitting = SetFitting.read(request.method, request.options, where="/options")
    return Fitted(fitting.run(batch_of(rows), rows.groups, request.seed, rows.classes).to_document())


# --- The command

Method = Annotated[
    str,
    typer.Option("--method", help="Calibration method, such as averaged, isotonic or temperature; or lac for sets."),
]
Options = Annotated[
    list[str] | None, typer.Option("--option", help="Option of the method, such as folds=5; repeatable.")
]
Holdout = Annotated[
    float | None,
    typer.Option(
        "--holdout",
        help="Fraction of the rows to hold out from the fit, such as 0.3; the map is evaluated on these rows.",
    ),
]
Name = Annotated[
    str | None,
    typer.Option("--name", help="Name of the map on the server; an existing name gets a new version."),
]
FitJson = Annotated[bool, typer.Option("--json", help="Print the map as JSON, also with --out or --server.")]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        callback=in_a_folder,
        help="JSON file for the map; - for standard output. Without --server, the default is standard output, "
        "or if that is a terminal, a file such as preds.json for preds.csv.",
    ),
]


@reads_a_file(
    *("known", "times"),
    fits_maps=True,
    groups=GROUPS_OF_SETS,
    clusters="Column of clusters, such as patients; every cross-validation keeps the rows of a cluster in the same "
    "fold, and --holdout holds out whole clusters.",
    reduction="Reduction: the event whose probability the map calibrates, such as binary, confidence, class:3, "
    "classwise, ranks or canonical. For several classes, the default calibrates all columns: canonical if the "
    "method maps vectors, otherwise classwise.",
)
def fit(
    file: File,
    columns: Columns,
    method: Method = "averaged",
    regression: Regression = False,
    support: SupportOf = None,
    option: Options = None,
    seed: Seed = SEED,
    holdout: Holdout = None,
    name: Name = None,
    allow_shape_change: AllowShapeChange = False,
    where: Where = None,
    out: Out = None,
    as_json: FitJson = False,
    server: Server = None,
) -> None:
    source = source_of(file, server, where)
    if not server and name is not None:
        raise typer.BadParameter("needs --server; to write the map to a file, use --out", param_hint="--name")
    if not server and allow_shape_change:
        raise typer.BadParameter("needs --server, where maps have names", param_hint="--allow-shape-change")
    if holdout is not None and not 0 < holdout < 1:
        raise typer.BadParameter("must be between 0 and 1, such as 0.3", param_hint="--holdout")
    if support is not None and not regression:
        raise typer.BadParameter("needs --regression", param_hint="--support")
    if source is not None:
        refused: dict[str, Any] = {"--regression": regression, "--holdout": holdout, "--method": gives_sets(method)}
        refused |= {"--allow-shape-change": allow_shape_change}
        for flag in [flag for flag, value in refused.items() if value]:
            raise typer.BadParameter("cannot be combined with a folder, pattern or URL", param_hint=flag)
        with errors_in_a_line():
            arguments = source_arguments(columns, where, "predictions", "labels")
            document = fitted_source(source, method, arguments, seed, read_options(option))
            _write(Fitted(document), Path(re.sub(r"[*?[\]]", "", file.name) or "map"), out, as_json=as_json)
        return
    with engine_of(server) as engine:
        request = FitFlags(method, read_options(option), name, seed, allow_shape_change, columns["reduction"])
        if regression:
            if columns["groups"] is not None:
                raise typer.BadParameter("is for methods of prediction sets", param_hint="--group")
            scale = "identity" if columns["scale"] == "probability" else columns["scale"]
            request = replace(request, reduction=None, scale=scale, support=read_support(support))
            fitted = _fit(engine, read_forecast_rows(file, columns), request, holdout)
        elif gives_sets(method):
            by_group = request.options.get("conditional") == "group"
            fitted = _fit(engine, rows_of_sets(read_rows(file, columns), by_group=by_group), request, holdout)
        else:
            fitted = _fit_classes(engine, file, columns, request, holdout)
        _write(fitted, file, out, as_json=as_json)


def _fit_classes(engine: Engine, file: Path, columns: Columns, request: FitFlags, holdout: float | None) -> Fitted:
    """Fit a map of probabilities of classes."""
    from calibrant.calibrators import Fitting

    if columns["groups"] is not None:
        raise typer.BadParameter("is for methods of prediction sets; see --cluster", param_hint="--group")
    method = Fitting.read(request.method, request.options, request.reduction, where="/options").method
    rows = read_rows(file, columns, unused=("groups",))
    reduction = reduction_of(rows, request.reduction)
    if reduction is None and rows.predictions.ndim == 2 and method.vector is None and method.event:
        reduction = "classwise"
        say("reduction: classwise, one curve per class; for the predicted class alone use --reduction confidence")
    return _fit(engine, rows, replace(request, reduction=reduction), holdout, rows.labels)


def _fit(
    engine: Engine, rows: Split, request: FitFlags, holdout: float | None, labels: Integers | None = None
) -> Fitted:
    """Fit a map to the rows that are not held out, and print its summary; ``labels`` are as for ``_split``."""
    rows, held = _split(rows, holdout, request.seed, labels)
    fitted = _fitted(engine, rows, request)
    _summarize(fitted, len(rows))
    if held is not None:
        _summarize_held_out(engine, held, fitted, request)
    return fitted


def _write(fitted: Fitted, file: Path, out: Path | None, *, as_json: bool) -> None:
    """Write the map, or its reference on the server."""
    if out is None and fitted.ref is None and not as_json and sys.stdout.isatty():
        out = _beside(file)
        say(f"wrote {out}")
    if out is not None and out != STANDARD:
        write_json(fitted.document, out)
    if as_json or out == STANDARD or (out is None and fitted.ref is None):
        write_json(fitted.document)
    elif fitted.ref is not None:
        write_lines(fitted.ref)


def _split(rows: Split, holdout: float | None, seed: int, labels: Integers | None = None) -> tuple[Split, Split | None]:
    """Split the rows at random into those of the fit and those held out.

    Whole clusters are held out if there are any; else the proportion of each of the ``labels`` is the same.
    """
    if holdout is None:
        return rows, None
    import numpy as np

    random, n = np.random.default_rng(seed), len(rows)
    is_held = np.zeros(n, dtype=bool)
    if rows.clusters is not None:
        _, cluster, size = np.unique(rows.clusters, return_inverse=True, return_counts=True)
        is_held = np.isin(cluster, _held_clusters(size, random.permutation(len(size)), holdout))
    elif labels is None:
        is_held[random.permutation(n)[: math.ceil(holdout * n)]] = True
    else:
        shuffled = random.permutation(n)
        step = np.floor(np.arange(n + 1) * holdout)
        is_held[shuffled[np.argsort(labels[shuffled], kind="stable")]] = step[1:] > step[:-1]
    if is_held.all() or not is_held.any():
        raise Refused(f"--holdout {holdout:g} leaves no rows on one side; the file has {counted(n)}")
    return rows.taken(~is_held), rows.taken(is_held)


def _held_clusters(size: Integers, order: Integers, holdout: float) -> Integers:
    """Return the clusters to hold out: in this order, each that brings their rows closer to the fraction ``holdout``.

    If none does, it is the smallest cluster.
    """
    import numpy as np

    wanted, held, chosen = holdout * int(size.sum()), 0, []
    for cluster, rows in zip(order.tolist(), size[order].tolist(), strict=True):
        if held + rows / 2.0 <= wanted:
            held += rows
            chosen.append(cluster)
    return np.array(chosen or [int(size.argmin())])


def _beside(file: Path) -> Path:
    """Return the name of the map of a file in the working directory, ``pets.json`` for ``pets.csv``."""
    if file == STANDARD:
        return Path("map.json")
    stem = file.name.split(".")[0] or "map"
    return Path(f"{stem}.map.json" if file.suffix == ".json" else f"{stem}.json")


def _named(document: Mapping[str, Any]) -> str:
    """Return the reduction of a map, with the name of its class if there is one."""
    from calibrant.core.inputs import reduction_with_name

    return reduction_with_name(document["reduction"], document.get("class_names"))


def _summarize(fitted: Fitted, n: int) -> None:
    """Print the method, the number of rows, the in-sample scores or the cross-fitted gain, and warnings."""
    from calibrant.kinds import is_of_distributions

    document, scores = fitted.document, fitted.in_sample
    diagnostics = document.get("diagnostics", {})
    of_forecasts = is_of_distributions(document)
    what = document["kind"] if of_forecasts else _named(document)
    say(f"fitted {document['method']} ({what}) to {counted(n)}{weighted(diagnostics)}")
    if "update" in diagnostics:
        say(f"update: {diagnostics['update']}")
    if scores is not None:
        from calibrant.maps.calibration_map import binned, scored

        log_loss, brier, ece = (
            f"{scores['before'][name]:.4f} -> {scores['after'][name]:.4f}" for name in ("log-loss", "brier", "ece")
        )
        of, of_ece = scored(what), binned(what)
        between = "," if of == of_ece else f"; of {of_ece}:"
        say(f"in-sample scores (optimistic) of {of}: log loss {log_loss}, brier {brier}{between} plain ece {ece}")
    if of_forecasts and (gain := diagnostics.get("held_out_gain")) is not None:
        relative = "" if gain.get("relative") is None else f", {100 * gain['relative']:.1f} %"
        error = f"standard error {gain['standard_error']:.3g}"
        say(f"cross-fitted gain of the {gain['score']}: {gain['gain']:.4g}{relative} ({error})")
    if warning := diagnostics.get("warning"):
        say(str(warning))


def _summarize_held_out(engine: Engine, held: Sheet | ForecastSheet, fitted: Fitted, request: FitFlags) -> None:
    """Print the coverage of sets, or scores before and after the map, of the same reductions as those of the fit."""
    from calibrant.io.table import ForecastSheet
    from calibrant.maps.calibration_map import VECTORS, binned, scored

    if isinstance(held, ForecastSheet):
        names = ["interval-score" if held.forecasts.kind == "interval" else "crps", "coverage"]
        of_forecasts = EvaluateForecasts([*names], map_for(fitted.ref or fitted.document), seed=request.seed)
        changes = _changes(evaluated_forecasts(engine, held, of_forecasts), dict(zip(names, names, strict=True)), ".4g")
        say(f"held-out ({counted(len(held))}): {changes}")
        return
    if gives_sets(request.method):
        seed = request.seed if request.options.get("randomised") else None
        say_coverage(sets_of(engine, held, fitted.ref, fitted.document, seed), held)
        return

    def changes_of(reduction: str, titles: dict[str, str]) -> str:
        flags = EvaluateFlags([*titles], None, reduction, fitted.ref or fitted.document, seed=request.seed)
        return _changes(evaluated(engine, held, flags), titles)

    reduction = fitted.document["reduction"]
    scores, ece = {"log-loss": "log loss", "brier": "brier"}, {"ece": "plain ece"}
    if reduction in VECTORS:
        summary = f"{changes_of('canonical', scores)}; of {binned(reduction)}: {changes_of('confidence', ece)}"
    else:
        summary = changes_of(reduction, scores | ece)
    say(f"held-out scores ({counted(len(held))}) of {scored(_named(fitted.document))}: {summary}")


def _changes(report: Mapping[str, Any], titles: Mapping[str, str], form: str = ".4f") -> str:
    """Return the values of measures before and after the map, with their titles, of those that have both."""
    sides = report["measures"], report["after"]["measures"]
    pairs = [(title, *(side[name]["value"] for side in sides)) for name, title in titles.items()]
    return ", ".join(f"{title} {was:{form}} -> {now:{form}}" for title, was, now in pairs if None not in (was, now))
