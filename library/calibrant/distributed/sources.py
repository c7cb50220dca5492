"""Evaluation, fits and batch scoring of files in folders and object stores, in memory that does not grow with them."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from calibrant.calibrators import FitContext, Fitting
from calibrant.calibrators.fitting import fit
from calibrant.comparison import compare
from calibrant.comparison.pairs import Correction
from calibrant.comparison.results import ComparisonReport
from calibrant.core.arguments import explained, refuse_misspelt
from calibrant.core.batch import InputScale
from calibrant.core.cells import WeightsKind
from calibrant.core.device import read_device
from calibrant.core.errors import CalibrationError, InvalidOption
from calibrant.core.options import read_seed
from calibrant.core.progress import Progress, reporting, step
from calibrant.core.results import Basis
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.distributed.accumulation import MEMORY, TOLERANCE, Accumulation, DistinctCounts, GatheredRows
from calibrant.distributed.arrow import Columns, RowCounter, check_order, placed
from calibrant.distributed.scan import BytesRead, FilePiece, Scan, ahead
from calibrant.distributed.storage import opened_target, opened_url
from calibrant.distributed.target import Scored, Scoring
from calibrant.evaluation import Report, evaluate
from calibrant.maps.calibration_map import CalibrationMap, check_map
from calibrant.measures.catalogue import level_of, read_requests
from calibrant.measures.intervals import Resampling
from calibrant.monitoring.evaluation import map_of, report_of
from calibrant.monitoring.event_tally import EventTally

# --- Rows of a scan, in a form that fits in memory


@dataclass(frozen=True)
class SourceContent:
    """The rows of a scan, or counts of them, and what they are."""

    value: GatheredRows | DistinctCounts | EventTally
    basis: Basis


def gather(
    scan: Scan,
    columns: Columns,
    *,
    kind: WeightsKind = "importance",
    scale: InputScale = "probability",
    memory: int = MEMORY,
) -> SourceContent:
    """Read a scan once; raises the errors of invalid rows with the file and the row there, from 0.

    With conditions, rows are counted among those that meet them.
    """
    held = Accumulation(columns, memory=memory, kind=kind, scale=scale)
    read_rows(scan, [(columns, held)])
    value = held.result()
    tolerance = TOLERANCE if held.form == "tally" else None
    return SourceContent(value, Basis(held.form, held.n, scan.total, len(scan.files), tolerance))


def read_rows(
    scan: Scan, forms: Sequence[tuple[Columns, Accumulation | RowCounter]], pieces: Iterable[FilePiece] | None = None
) -> None:
    """Read a scan once, or some pieces of it, and add the rows to each of the forms."""
    for columns, _ in forms:
        check_order(columns)
    progress, first_row = BytesRead(scan.total), 0
    names = list(dict.fromkeys(name for columns, _ in forms for name in columns.named.values()))
    groups = [columns.group for columns, _ in forms[:1] if columns.group is not None]
    with closing(ahead(scan.read(names, groups, pieces))) as rows:
        for piece, batch in rows:
            if batch is None:
                progress.end(piece.size)
                first_row = 0
                continue
            if batch.num_rows:
                try:
                    for _, held in forms:
                        held.add(batch, scan.keys_of(piece.file))
                except CalibrationError as error:
                    raise placed(error, piece.file.path, piece.first_row + first_row) from None
            first_row += batch.num_rows
            progress.add(batch.num_rows)


def gather_models(
    scan: Scan,
    models: Mapping[str, Columns],
    *,
    kind: WeightsKind = "importance",
    scale: InputScale = "probability",
    memory: int = MEMORY,
) -> tuple[dict[str, GatheredRows], Basis]:
    """Read the rows of several models once, by name; raises ``SourceTooLarge`` if not all fit in memory.

    Labels, weights and groups are the same for all.
    """
    how: Any = {"memory": memory // max(len(models), 1), "kind": kind, "scale": scale}
    forms = {name: Accumulation(columns, needing="comparisons", **how) for name, columns in models.items()}
    read_rows(scan, [(models[name], held) for name, held in forms.items()])
    rows: dict[str, Any] = {name: held.result() for name, held in forms.items()}
    n = next(iter(forms.values())).n
    return rows, Basis("rows", n, scan.total, len(scan.files))


def _scan(source: str, columns: Columns, where: object, format: str | None) -> Scan:
    if not isinstance(source, str):
        raise InvalidOption.at("/source", "must be a path or URL, with wildcards such as s3://bucket/x/*.parquet")
    storage, pattern = opened_url(source, "delta" if format == "delta" else "files")
    numbers = [name for argument, name in columns.named.items() if argument != "group"]
    return Scan.of(storage, pattern, format=format, where=where, numbers=numbers)


@explained
def evaluate_source(
    source: str,
    *,
    prediction: str | Sequence[str],
    label: str,
    group: str | None = None,
    weight: str | None = None,
    weights_kind: WeightsKind = "importance",
    reduction: str | None = None,
    scale: InputScale = "probability",
    where: Sequence[Sequence[Any]] | None = None,
    format: str | None = None,
    measures: Sequence[str | Mapping[str, Any]] | None = None,
    diagrams: Sequence[str | Mapping[str, Any]] | None = None,
    map: CalibrationMap | None = None,
    interval: float | None = None,
    resamples: int = 1000,
    seed: int = 0,
    memory: int = MEMORY,
    progress: Progress | None = None,
) -> Report:
    """Measure how well the predictions of files are calibrated, in folders or an object store.

    Parameters
    ----------
    source : str
        Path, folder or pattern such as ``s3://bucket/2026-11/*.parquet``: local, ``s3://``, ``gs://`` or ``abfs://``.
        Credentials are those of the environment. Folders such as ``country=no/`` are a column.
    prediction : str or sequence of str
        Column of the predictions (numbers, or lists of K numbers), or K columns.
    label : str
        Column of the labels: 0 and 1, booleans, or classes from 0 to K - 1.
    group, weight : str, optional
        Columns of group names and of weights.
    weights_kind, reduction, scale : optional
        As for ``evaluate``.
    where : sequence of conditions, optional
        Only rows that meet all, such as ``[["country", "=", "de"]]``; with ``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``,
        ``in`` and ``not in``.
    format : {"parquet", "csv", "ndjson", "arrow", "delta"}, optional
        By default that of the suffix of each file.
    measures, diagrams, map, interval, resamples, seed : optional
        As for ``evaluate``.
    memory : int, default 400 MiB
        Bound in bytes, beside the interpreter.
    progress : callable, optional
        Called as ``progress(done, total, stage)``; an exception that it raises ends the work.

    Returns
    -------
    Report
        As from ``evaluate``. If the rows do not fit in ``memory``, it is computed from counts of distinct predictions,
        which is exact for one event; if these do not fit, from a tally. ``basis`` says which.

    Raises
    ------
    CalibrationError
        If an argument or a row is invalid (the error has the file and the row there, from 0), or if the rows do not fit
        and are needed (``SourceTooLarge``): for measures of the whole vector and importance weights.

    See Also
    --------
    evaluate : Evaluates rows in memory.
    calibrate_source : Applies a map to files.

    Examples
    --------
    >>> import calibrant
    >>> report = calibrant.evaluate_source("data/*.parquet", prediction="p", label="y")  # doctest: +SKIP
    """
    columns = Columns.read(
        prediction=prediction, label=label, group=group, weight=weight, reduction=reduction, scale="probability"
    )
    resampling = Resampling.read(level_of(interval, measures), resamples, seed)
    requests, drawn = read_requests(measures, reduction), read_diagrams(diagrams)
    with reporting(progress):
        with step(0, 1, "reading"):
            content = gather(
                _scan(source, columns, where, format), columns, kind=weights_kind, scale=scale, memory=memory
            )
        if not isinstance(content.value, GatheredRows):
            return replace(report_of(content.value, requests, drawn, resampling, map), basis=content.basis)
        arrays: Any = content.value.arrays
        report = evaluate(
            **arrays,
            measures=measures,
            diagrams=diagrams,
            map=map,
            weights_kind=weights_kind,
            reduction=reduction,
            scale=scale,
            interval=interval,
            resamples=resamples,
            seed=seed,
        )
    return replace(report, basis=content.basis)


@explained
def compare_source(
    source: str,
    *,
    prediction: str | Sequence[str] | Mapping[str, str | Sequence[str]],
    label: str,
    group: str | None = None,
    weight: str | None = None,
    weights_kind: WeightsKind = "importance",
    reduction: str | None = None,
    scale: InputScale = "probability",
    where: Sequence[Sequence[Any]] | None = None,
    format: str | None = None,
    maps: Mapping[str, CalibrationMap] | None = None,
    measures: Sequence[str | Mapping[str, Any]] | None = None,
    rank_by: str | None = None,
    correction: Correction | None = None,
    interval: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    memory: int = MEMORY,
    progress: Progress | None = None,
) -> ComparisonReport:
    """Compare several models, or calibration maps, on the rows of files in folders or an object store.

    Parameters
    ----------
    source : str
        As for ``evaluate_source``.
    prediction : mapping, or str or sequence of str
        For each model by name, its column of numbers or of lists, or its K columns. With ``maps``, those of the one
        model.
    label, group, weight, weights_kind, reduction, scale, where, format : optional
        As for ``evaluate_source``.
    maps : mapping of str to CalibrationMap, optional
        Maps to compare with each other and with the uncalibrated predictions.
    measures, rank_by, correction, interval, resamples, seed : optional
        As for ``compare``.
    memory, progress : optional
        As for ``evaluate_source``.

    Returns
    -------
    ComparisonReport
        As from ``compare`` of the same rows.

    Raises
    ------
    CalibrationError
        As for ``evaluate_source`` and ``compare``. All rows are needed: those that do not fit in ``memory`` raise
        ``SourceTooLarge``.

    See Also
    --------
    compare : Compares models on rows in memory.

    Examples
    --------
    >>> import calibrant
    >>> models = {"forest": "p_forest", "boosting": "p_boosting"}
    >>> calibrant.compare_source("data/*.parquet", prediction=models, label="y")  # doctest: +SKIP
    """
    if isinstance(prediction, Mapping) == (maps is not None):
        raise InvalidOption.at("/prediction", "must have the columns of each model by name, or with maps of one model")
    named = dict(prediction) if isinstance(prediction, Mapping) else {"predictions": prediction}
    shared: Any = {"label": label, "group": group, "weight": weight, "reduction": reduction}
    models = {name: Columns.read(prediction=own, scale="probability", **shared) for name, own in named.items()}
    if not models:
        raise InvalidOption.at("/prediction", "must name at least two models")
    with reporting(progress):
        with step(0, 2, "reading"):
            columns = [column for own in models.values() for column in own.predictions]
            scan = _scan(source, replace(next(iter(models.values())), prediction=tuple(columns)), where, format)
            rows, _ = gather_models(scan, models, kind=weights_kind, scale=scale, memory=memory)
        first: dict[str, Any] = dict(next(iter(rows.values())).arrays)
        of_one, of_models = first.pop("predictions"), {name: own.arrays["predictions"] for name, own in rows.items()}
        with step(1, 2, "comparing"):
            return compare(
                of_models if maps is None else of_one,
                first.pop("labels"),
                maps,
                **first,
                weights_kind=weights_kind,
                reduction=reduction,
                scale=scale,
                measures=measures,
                rank_by=rank_by,
                correction=correction,
                interval=interval,
                resamples=resamples,
                seed=seed,
            )


@explained
def fit_source(
    source: str,
    method: str,
    *,
    prediction: str | Sequence[str],
    label: str,
    weight: str | None = None,
    weights_kind: WeightsKind = "importance",
    reduction: str | None = None,
    scale: InputScale = "probability",
    where: Sequence[Sequence[Any]] | None = None,
    format: str | None = None,
    seed: int = 0,
    device: str = "cpu",
    memory: int = MEMORY,
    progress: Progress | None = None,
    **options: Any,
) -> CalibrationMap:
    """Fit a calibration map to files in folders or an object store.

    Parameters
    ----------
    source : str
        As for ``evaluate_source``.
    method : str
        Name in ``calibrant.METHODS``.
    prediction, label, weight, weights_kind, reduction, scale, where, format : optional
        As for ``evaluate_source``.
    seed, device : optional
        As for ``fit``.
    memory, progress : optional
        As for ``evaluate_source``.
    **options : object
        Options of the method.

    Returns
    -------
    CalibrationMap
        As from ``fit``. If the rows do not fit in ``memory``, it is fitted to counts of distinct predictions or to a
        tally, as by ``fit_tally``, which needs a method of one event.

    Raises
    ------
    CalibrationError
        As for ``evaluate_source`` and ``fit``.

    See Also
    --------
    fit : Fits a map to rows in memory.
    evaluate_source : Evaluates files.

    Examples
    --------
    >>> import calibrant
    >>> fitted = calibrant.fit_source("data/*.parquet", "beta", prediction="p", label="y")  # doctest: +SKIP
    """
    columns = Columns.read(prediction=prediction, label=label, weight=weight, reduction=reduction, scale="probability")
    try:
        fitting = Fitting.read(method, options, reduction)
    except InvalidOption:
        refuse_misspelt("fit_source", options, ["source", "method", *columns.named])
        raise
    context = FitContext(read_seed(seed), read_device(device))
    with reporting(progress):
        content = gather(_scan(source, columns, where, format), columns, kind=weights_kind, scale=scale, memory=memory)
        if not isinstance(content.value, GatheredRows):
            return map_of(content.value, fitting, context)
        arrays = content.value.arrays
        arguments: Any = {
            "weights": arrays.get("weights"),
            "weights_kind": weights_kind,
            "reduction": reduction,
            **options,
        }
        return fit(method, arrays["predictions"], arrays["labels"], scale=scale, seed=seed, device=device, **arguments)


@explained
def calibrate_source(
    source: str,
    target: str,
    map: CalibrationMap,
    *,
    prediction: str | Sequence[str],
    where: Sequence[Sequence[Any]] | None = None,
    format: str | None = None,
    scale: InputScale | None = None,
    job: str | None = None,
    progress: Progress | None = None,
) -> Scored:
    """Write files with calibrated columns as a Parquet data set, in folders or an object store.

    Parameters
    ----------
    source : str
        As for ``evaluate_source``.
    target : str
        Folder or prefix that does not exist yet. All columns of the source are written, and ``calibrated``, or a column
        for each class such as ``calibrated_bird``. Of CSV, other columns are text.
    map : CalibrationMap
        Map to apply.
    prediction : str or sequence of str
        Column of the predictions (numbers, or lists of K numbers), or K columns.
    where, format : optional
        As for ``evaluate_source``.
    scale : {"probability", "percent", "logit"}, optional
        Scale of the predictions; by default that of the map.
    job : str, optional
        Name of the work, of letters, digits and underscores. If it was interrupted, a call with the same name continues
        it.
    progress : callable, optional
        As for ``evaluate_source``.

    Returns
    -------
    Scored
        Numbers of rows, files and bytes.

    Raises
    ------
    CalibrationError
        If something is at the target (``TargetExists``), the source changed since the work began (``SourceChanged``),
        or an argument or a row is invalid.

    See Also
    --------
    evaluate_source : Evaluates files.
    CalibrationMap.apply : Applies a map in memory.

    Notes
    -----
    Files are staged in a hidden folder beside the target. A local target appears at once; in an object store, its last
    file is ``_manifest.json``, and without it the target is not whole.

    Examples
    --------
    >>> import calibrant
    >>> calibrant.calibrate_source("data/*.parquet", "scored", fitted, prediction="p")  # doctest: +SKIP
    """
    check_map(map)
    if map is None:
        raise InvalidOption.at("/map", "is missing")
    columns = Columns.read(prediction=prediction, label="", scale="probability")
    if job is not None and not (isinstance(job, str) and job.isidentifier() and job.isascii()):
        raise InvalidOption.at("/job", "must be a name of letters, digits and underscores")
    storage, path = opened_target(target)
    with reporting(progress):
        scan = _scan(source, columns, where, format)
        return Scoring(storage, path, job or secrets.token_hex(8)).run(scan, columns, map, scale=scale)
