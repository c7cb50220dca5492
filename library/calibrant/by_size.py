"""Measures as a function of the number of rows: how much of a value is due to the sample size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from calibrant.core.arguments import explained
from calibrant.core.batch import Batch, InputScale, refuse_clusters
from calibrant.core.cells import Floats, WeightsKind
from calibrant.core.errors import InvalidOption, UnknownReduction
from calibrant.core.inputs import read_rows, reduction_by_name, reduction_with_name
from calibrant.core.options import plain
from calibrant.core.progress import Progress, muted, report, reporting
from calibrant.core.reductions import Subject
from calibrant.core.results import Framed, Plotted, Table
from calibrant.evaluation import CheckedBatch, Evaluation
from calibrant.maps.calibration_map import CalibrationMap, check_class_names, check_map
from calibrant.measures.catalogue import read_requests
from calibrant.measures.cross_fitting import UNKNOWN, Training, training_of
from calibrant.measures.intervals import PLAIN, Resampling
from calibrant.measures.measure import MeasureRequest, MeasureResult, answers, extent_of

Repetitions = Literal["paper"]

#: Number of sizes, from the smallest to all rows.
STEPS = 10
MAX_REPETITIONS = 100_000
#: Sets of subsamples that Gruber & Buettner (2022) drew, and their value of ``start_repetitions``.
_PAPER = (2, 10_000)
#: Number of columns of a matrix that rows are sorted by.
_COLUMNS = 8
#: Rows that frequency weights may count, since subsets are drawn of a row for each.
_MOST_COPIES = 1_000_000
#: Estimated seconds for a subsample, for each of its rows, and for each measure (plus the estimate of the measure).
_SAMPLE, _ROW, _MEASURE = 5e-5, 1e-7, 2e-4
_IN_SAMPLE = "in-sample: the map was fitted to these rows, which it improves more than new rows"
#: The key of a measure, and the reduction.
Key = tuple[str, str]


@dataclass(frozen=True)
class SizeCurve:
    """One measure as a function of the number of rows.

    Attributes
    ----------
    mean : tuple of (float or None)
        Mean over the subsamples of each size; None if no subsample has a value.
    standard_deviation : tuple of (float or None)
        Standard deviation over the subsamples of each size; None if fewer than two have a value.
    lost : tuple of int
        Number of subsamples of each size without a value; they are left out.
    full : MeasureResult
        Result for all rows.

    See Also
    --------
    measure_by_size : Computes these curves.

    Examples
    --------
    >>> import numpy as np, calibrant
    >>> p, y = np.linspace(0.01, 0.99, 400), np.arange(400) % 2
    >>> curve = calibrant.measure_by_size(p, y, measures=["ece"]).curves["ece"]
    >>> len(curve.mean), curve.mean[-1] == curve.full.value
    (10, True)
    """

    mean: tuple[float | None, ...]
    standard_deviation: tuple[float | None, ...]
    lost: tuple[int, ...]
    full: MeasureResult


@dataclass(frozen=True, repr=False)
class MeasuresBySize(Framed, Plotted):
    """Result of ``measure_by_size``.

    Attributes
    ----------
    reduction : str
        Reduction under which rows were measured; several are joined by commas.
    sizes : tuple of int
        Subsample sizes, ascending; the last is the number of rows with weight.
    repetitions : tuple of int
        Number of subsamples of each size.
    curves : mapping of str to SizeCurve
        Curves by the key of the measure; with several reductions by ``KEY (REDUCTION)``, of those that the measure has
        a value for. With a map they are of its improvements: the measure before the map minus that after it, negated
        if larger is better.
    improvement : bool
        Whether the curves are of the improvements by a map.
    squared : bool
        Whether the measures are squared.
    in_sample : bool or None
        As in ``Report``: whether the map was fitted to these rows or some of them.
    class_names : tuple of str or None
        Names of the classes, if they are known; the printed table names them in reductions such as ``class:2``.

    See Also
    --------
    measure_by_size : Returns this result.
    SizeCurve : Curve of one measure.

    Examples
    --------
    >>> import numpy as np, calibrant
    >>> p, y = np.linspace(0.01, 0.99, 400), np.arange(400) % 2
    >>> found = calibrant.measure_by_size(p, y, measures=["ece", "ks"], start=200, start_repetitions=4)
    >>> found.reduction, list(found.curves), found.sizes[0], found.sizes[-1]
    ('binary', ['ece', 'ks'], 200, 400)
    >>> len(found.to_frame()), found.plot().get_xlabel()
    (20, 'rows (log scale)')
    """

    reduction: str
    sizes: tuple[int, ...]
    repetitions: tuple[int, ...]
    curves: Mapping[str, SizeCurve]
    improvement: bool = False
    squared: bool = False
    in_sample: bool | None = None
    class_names: tuple[str, ...] | None = None

    _plot = "plots.results.plot_by_size"

    def _records(self) -> list[dict[str, Any]]:
        names = ("size", "repetitions", "mean", "standard_deviation", "lost")
        return [
            {"measure": key, **dict(zip(names, numbers, strict=True))}
            for key, curve in self.curves.items()
            for numbers in zip(
                self.sizes, self.repetitions, curve.mean, curve.standard_deviation, curve.lost, strict=True
            )
        ]

    def _table(self) -> Table:
        curves = list(self.curves.values())
        rows = [(f"{size:,}", *(curve.mean[i] for curve in curves)) for i, size in enumerate(self.sizes)]
        what = "Improvement" if self.improvement else "Measures"
        what = f"{what}, squared," if self.squared else what
        named = {
            reduction: reduction_with_name(reduction, self.class_names) for reduction in self.reduction.split(", ")
        }
        title = f"{what} by number of rows, reduction {', '.join(named.values())}: means over random subsets"
        keys = [self._heading(key, named) for key in self.curves]
        return Table(title, ("rows", *keys), rows, [_IN_SAMPLE] if self.in_sample else [])

    def _heading(self, key: str, named: Mapping[str, str]) -> str:
        """Return ``KEY (REDUCTION)`` with the name of the class."""
        measure, mark, reduction = key.removesuffix(")").rpartition(" (")
        return f"{measure}{mark}{named[reduction]})" if reduction in named and mark else key


@dataclass(frozen=True)
class BySize:
    """Checked options of ``measure_by_size``, without the rows; of ``resampling`` only the seed is used."""

    measures: tuple[MeasureRequest, ...]
    reduction: str | tuple[str, ...] | None = None
    start: int = 100
    start_repetitions: int = 100
    resampling: Resampling = PLAIN
    repetitions: Repetitions | None = None
    map: CalibrationMap | None = None
    squared: bool = False
    training: Training = UNKNOWN

    @property
    def inline(self) -> bool:
        """Whether no measure needs a long fit."""
        return all(request.measure.runs == "inline" for request in self.measures)

    def check(self, batch: Batch) -> CheckedBatch:
        """Return the checked rows, with all reductions; raise what ``run`` would raise, without measuring."""
        refuse_clusters(batch, "measures of subsets of rows, which would split clusters")
        names = self._names(batch)
        self._plan(_count(batch))
        return CheckedBatch(batch, ", ".join(names))

    def seconds(self, rows: CheckedBatch) -> float:
        """Estimate the seconds of ``run``."""
        sizes, repetitions = self._plan(_count(rows.batch))
        total = 0.0
        for name in rows.reduction.split(", "):
            extent = extent_of(rows.batch, name)
            parts = [extent._replace(rows=extent.rows * size // len(rows)) for size in sizes]
            total += sum(
                repeats
                * (_SAMPLE + _ROW * part.rows + sum(_MEASURE + m.seconds(part, self.resampling) for m in self.measures))
                for part, repeats in zip(parts, repetitions, strict=True)
            )
        return total * (1 if self.map is None else 2)

    def run(self, rows: CheckedBatch, progress: Progress | None = None) -> MeasuresBySize:
        """Measure checked rows; ``progress`` is called at each subsample, and its exceptions end the work."""
        with reporting(progress):
            return self._run(rows.batch, rows.reduction)

    def _run(self, batch: Batch, names: str) -> MeasuresBySize:
        copies = _copies(batch)
        rows = _order(copies)
        sizes, repetitions = self._plan(len(rows))
        evaluation = self._evaluation(None)
        subjects = {name: evaluation.subjects(CheckedBatch(copies, name)) for name in names.split(", ")}
        total, done = int(np.dot(sizes, repetitions)), 0
        report(done, total, "all rows")
        whole = _with_values(self._measured(subjects, None))
        random = np.random.default_rng(self.resampling.seed)
        by_key: dict[Key, list[Floats]] = {key: [] for key in whole}
        for size, repeats in zip(sizes, repetitions, strict=True):
            values = np.full((len(whole), repeats), np.nan)
            for i in range(repeats):
                report(done, total, f"{size} rows")
                done += size
                if size == len(rows):
                    answered = whole
                else:
                    answered = self._measured(subjects, rows[random.choice(len(rows), size, replace=False)])
                values[:, i] = [_value(answered[key]) for key in whole]
            for key, line in zip(whole, values, strict=True):
                by_key[key].append(line[np.isfinite(line)])
        curves = {
            key if len(subjects) == 1 else f"{key} ({name})": _curve(lines, repetitions, whole[key, name])
            for (key, name), lines in by_key.items()
        }
        in_sample = None if self.map is None else self.training.is_in_sample(batch)
        return MeasuresBySize(names, sizes, repetitions, curves, self.map is not None, self.squared, in_sample)

    def _evaluation(self, reduction: str | None) -> Evaluation:
        return Evaluation(self.measures, reduction, self.map)

    def _names(self, batch: Batch) -> list[str]:
        if not isinstance(self.reduction, tuple):
            return [self._evaluation(self.reduction).check(batch).reduction]
        names = list[str]()
        for i, reduction in enumerate(self.reduction):
            try:
                name = self._evaluation(reduction).check(batch).reduction
            except UnknownReduction as error:
                raise UnknownReduction.at(f"/reduction/{i}", error.offences[0].detail) from None
            if name in names:
                raise InvalidOption.at(f"/reduction/{i}", "must differ from the reductions before it")
            names.append(name)
        if not names:
            raise InvalidOption.at("/reduction", "must name at least one reduction")
        return names

    def _plan(self, n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if self.repetitions not in (None, "paper"):
            raise InvalidOption.at("/repetitions", "must be paper or null")
        if not isinstance(self.squared, bool | np.bool_):
            raise InvalidOption.at("/squared", "must be true or false")
        return _plan(n, self.start, self.start_repetitions, paper=self.repetitions == "paper")

    def _measured(
        self, subjects: Mapping[str, tuple[Subject, Subject | None]], chosen: npt.NDArray[np.int64] | None
    ) -> dict[Key, MeasureResult]:
        """Return the results for the chosen rows, or all, under every reduction: improvements if there is a map."""
        larger = {request.key for request in self.measures if request.measure.better == "larger"}
        by_key = {}
        for name, (before, after) in subjects.items():
            with muted():
                results, later = (
                    None
                    if side is None
                    else answers(self.measures, side if chosen is None else side.rows(chosen), self.resampling)
                    for side in (before, after)
                )
            for key, result in (results or {}).items():
                by_key[key, name] = self._gained(result, None if later is None else later[key], key in larger)
        return by_key

    def _gained(self, before: MeasureResult, after: MeasureResult | None, larger_is_better: bool) -> MeasureResult:
        if after is None and not self.squared:
            return before
        power = 2 if self.squared else 1
        values = [None if result is None or result.value is None else result.value**power for result in (before, after)]
        if after is None:
            return MeasureResult(values[0], definition=before.definition)
        worse, better = reversed(values) if larger_is_better else values
        gain = None if worse is None or better is None else worse - better
        parts = {"before": before.value, "after": after.value}
        return MeasureResult(gain, parts=parts, definition=before.definition, problem=before.problem or after.problem)


@explained
def measure_by_size(
    predictions: Any,
    labels: Any,
    *,
    measures: Sequence[str | Mapping[str, Any]] | None = None,
    reduction: str | Sequence[str] | None = None,
    class_names: Sequence[Any] | Mapping[Any, Any] | None = None,
    pos_label: Any = None,
    map: CalibrationMap | None = None,
    squared: bool = False,
    start: int = 100,
    start_repetitions: int = 100,
    repetitions: Repetitions | None = None,
    weights: Any = None,
    sample_weight: Any = None,
    weights_kind: WeightsKind = "importance",
    scale: InputScale = "probability",
    seed: int = 0,
) -> MeasuresBySize:
    """Compute measures on random subsamples of increasing size.

    The mean of an unbiased measure does not depend on the size; plain binned errors fall as rows are added.

    Parameters
    ----------
    predictions : array_like, shape (n,) or (n, K)
        As for ``evaluate``.
    labels : array_like, shape (n,)
        As for ``evaluate``.
    measures : sequence of str or mapping, optional
        As for ``evaluate``.
    reduction : str or sequence of str, optional
        As for ``evaluate``; several are measured on the same subsamples.
    class_names, pos_label : optional
        As for ``evaluate``.
    map : CalibrationMap, optional
        Measure its improvement: each measure before the map minus that after it, negated if larger is better. Fit the
        map to other rows.
    squared : bool, default False
        Whether to square the measures (before subtracting).
    start : int, default 100
        Smallest size, at least 1 and less than the number of rows with weight.
    start_repetitions : int, default 100
        Number of subsamples of the smallest size, from 1 to 100,000.
    repetitions : {"paper"}, optional
        "paper" draws the 70,970 subsamples of the paper instead.
    weights, sample_weight, weights_kind : optional
        As for ``evaluate``. Frequency weights count rows, at most 1,000,000, and subsamples draw from these.
    scale : {"probability", "percent", "logit"}, default "probability"
        Scale of ``predictions``.
    seed : int, default 0
        Seed of the subsamples, and of measures that use random numbers.

    Returns
    -------
    MeasuresBySize
        The sizes, and for each measure the mean and standard deviation by size.

    Raises
    ------
    CalibrationError
        If an argument is invalid.

    See Also
    --------
    evaluate : Computes the measures once, on all rows.

    Notes
    -----
    The protocol is that of Gruber & Buettner (2022): ten sizes equally spaced in log2 from ``start`` to n, with
    ``linspace(sqrt(start_repetitions), 1, 10)**2`` subsamples each (rounded), drawn without replacement; the last size
    is all rows, once. The default draws 385 subsamples. The paper has twice those of ``start_repetitions=10_000``:
    2 (100 - 11 k)^2 for k = 0, ..., 9. The result does not depend on the order of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> p = np.linspace(0.01, 0.99, 400)
    >>> found = measure_by_size(p, np.arange(400) % 2, measures=["ece"], start=25, start_repetitions=9)
    >>> found.sizes
    (25, 34, 46, 63, 86, 117, 159, 216, 294, 400)
    >>> found.repetitions
    (9, 8, 7, 5, 4, 4, 3, 2, 1, 1)
    """
    resampling = Resampling.read(None, seed=seed)
    check_map(map)
    rows = read_rows(
        predictions,
        labels,
        weights=weights,
        sample_weight=sample_weight,
        weights_kind=weights_kind,
        class_names=class_names,
        pos_label=pos_label,
        scale=scale,
        known=None if map is None else map.class_names,
    )
    check_class_names(map, rows.class_names)
    rows.warn_of_kind()
    requested: Any = reduction
    reductions: str | tuple[Any, ...] | None = (
        tuple(reduction_by_name(name, rows.class_names) for name in requested)
        if isinstance(requested, list | tuple | np.ndarray)
        else reduction_by_name(requested, rows.class_names)
    )
    training = UNKNOWN if map is None else training_of(map)
    requests = read_requests(measures, reduction)
    smallest, most = plain(start), plain(start_repetitions)
    task = BySize(requests, reductions, smallest, most, resampling, repetitions, map, squared, training)
    return replace(task.run(task.check(rows.batch)), class_names=rows.class_names)


def _plan(n: int, start: object, start_repetitions: object, *, paper: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if type(start) is not int or not 1 <= start < n:
        raise InvalidOption.at("/start", "must be an integer from 1 to one below the number of rows")
    if type(start_repetitions) is not int or not 1 <= start_repetitions <= MAX_REPETITIONS:
        raise InvalidOption.at("/start_repetitions", f"must be an integer from 1 to {MAX_REPETITIONS}")
    sizes = np.round(np.exp2(np.linspace(np.log2(start), np.log2(n), STEPS))).astype(np.int64)
    times, first = _PAPER if paper else (1, start_repetitions)
    repetitions = times * np.round(np.linspace(np.sqrt(first), 1.0, STEPS) ** 2).astype(np.int64)
    return tuple(sizes.tolist()), tuple(repetitions.tolist())


def _with_values(results: Mapping[Key, MeasureResult]) -> dict[Key, MeasureResult]:
    """Leave out a measure's results without a value if it has one under another reduction."""
    known = {key for (key, _), result in results.items() if result.value is not None}
    return {both: result for both, result in results.items() if result.value is not None or both[0] not in known}


def _value(answered: MeasureResult) -> float:
    return np.nan if answered.value is None else answered.value


def _curve(lines: Sequence[Floats], repetitions: Sequence[int], full: MeasureResult) -> SizeCurve:
    return SizeCurve(
        tuple(float(line.mean()) if len(line) else None for line in lines),
        tuple(float(line.std(ddof=1)) if len(line) > 1 else None for line in lines),
        tuple(repeats - len(line) for repeats, line in zip(repetitions, lines, strict=True)),
        full,
    )


def _count(batch: Batch) -> int:
    """The number of rows of which subsets are drawn: all with weight, or as many as frequency weights count."""
    if batch.weights is None:
        return len(batch)
    if batch.weights_kind != "frequency":
        return int(np.count_nonzero(batch.weights))
    if (n := float(batch.weights.sum())) > _MOST_COPIES or (batch.weights % 1.0).any():
        text = f"count {n:,.0f} rows, and subsets are of whole rows, at most {_MOST_COPIES:,}; draw rows before"
        raise InvalidOption.at("/weights", text)
    return int(n)


def _copies(batch: Batch) -> Batch:
    """The batch with each row as often as its frequency weight counts it."""
    if batch.weights is None or batch.weights_kind != "frequency":
        return batch
    return replace(batch.rows(np.repeat(np.arange(len(batch)), batch.weights.astype(np.int64))), weights=None)


def _order(batch: Batch) -> npt.NDArray[np.int64]:
    """The rows of weight above 0, sorted by label and predictions."""
    predictions = batch.predictions.values if batch.predictions.logits is None else batch.predictions.logits
    columns: list[npt.NDArray[Any]] = [predictions]
    if predictions.ndim == 2:
        columns = [
            *predictions[:, :_COLUMNS].T,
            predictions.max(axis=1),
            predictions[np.arange(len(batch)), batch.labels],
        ]
    if batch.weights is None:
        return np.lexsort((*columns, batch.labels))
    order = np.lexsort((*columns, batch.labels, batch.weights))
    return order[batch.weights[order] > 0.0]
