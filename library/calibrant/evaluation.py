"""Evaluation of a batch: its measures before and after a map, overall and by group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.core.applied import warn_of_training
from calibrant.core.arguments import explained
from calibrant.core.batch import Batch, InputScale, read_classes, restrict
from calibrant.core.cells import WeightsKind
from calibrant.core.clusters import ClusterVariance, count_clusters
from calibrant.core.errors import InvalidOption, UnknownReduction, WrongShape
from calibrant.core.groups import Members, group_members, members_among, with_weight
from calibrant.core.inputs import classes_by_name, read_rows, reduction_by_name, reduction_with_name
from calibrant.core.options import known_name
from calibrant.core.progress import Progress, report, reporting, step
from calibrant.core.reductions import Subject, resolve, resolve_event, subject
from calibrant.core.results import (
    Basis,
    ByMeasure,
    ByName,
    PlainResult,
    Shown,
    Table,
    WithRows,
    above,
    counted,
    frame_of,
    interval_of,
    n_rows,
    text_of,
)
from calibrant.core.validation import divided_members
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.diagrams.diagram import DiagramRequest, diagrams_of
from calibrant.maps.calibration_map import VECTORS, CalibrationMap, check_class_names, check_map, scored
from calibrant.measures.catalogue import FAMILIAR, MEASURES, applicable, level_of, read_requests
from calibrant.measures.cross_fitting import UNKNOWN, Training, calibrated, cross_fitted, training_of, unproven
from calibrant.measures.gaps import Gap, grouped_seconds, largest_gaps
from calibrant.measures.improvement import improvements
from calibrant.measures.intervals import PLAIN, Resampling
from calibrant.measures.measure import (
    PROPER,
    MeasureRequest,
    MeasureResult,
    answers,
    extent_of,
    plain_result,
    plain_results,
)
from calibrant.measures.pooling import Pooled, pooled_groups

if TYPE_CHECKING:
    from calibrant.plots.axes import Plotter

_IN_SAMPLE = (
    "in-sample: the map was fitted to these rows or some of them, so the results after it look better than on new rows"
)

#: The reductions of (n,) predictions, unless a map names their event.
_OF_ONE_COLUMN = ("binary", "confidence", "pooled", "classwise", "canonical")


@dataclass(frozen=True, repr=False)
class Report(WithRows, PlainResult, Shown, ByMeasure[MeasureResult]):
    """Result of ``evaluate``; ``report["ece"]`` is the result of a measure.

    Attributes
    ----------
    n : int
        Number of rows measured.
    reduction : str
        Reduction under which they were measured.
    clipped : int
        Rows with probabilities slightly outside [0, 1] that were clipped.
    renormalised : int
        Rows whose probabilities were divided by their sum, 1 within rounding.
    measures : mapping of str to MeasureResult
        Results by key, for the predictions as given.
    after : mapping of str to MeasureResult or None
        Results after the map; None without a map.
    groups : mapping of str to GroupReport or None
        Results by group name; None without groups.
    gaps, gaps_after : mapping of str to Gap or None
        Largest difference of each measure between two groups, before and after the map.
    pooled : mapping of str to Pooled or None
        Slopes, intercepts, O/E and AUROC before the map, pooled over the groups; None without intervals.
    left_out : int
        Rows left out because their label is not among ``classes``.
    diagrams, after_diagrams : mapping of str to dict
        Diagrams by key, before and after the map, as plain JSON with ``data``, ``definition`` and ``problem``.
    improvement : mapping of str to MeasureResult or None
        ``brier`` and ``log-loss`` before the map minus after it; above 0 the map improves the score. Scores of a map of
        the whole vector are of the whole vector; if ``reduction`` is another, their definition names it.
    in_sample : bool or None
        Whether the map was fitted to these rows, or a quarter of them or more; None if unknown or without a map. If
        True, results after it have no p-value, but ``cross_fitted`` and ``cross_fitted_debiased`` parts, from maps
        fitted without the fold of each row, as ``improvement`` is.
    warning : str or None
        Warning of the map's fit, such as that its cross-fitted gain was not positive.
    class_names : tuple of str or None
        Names of the classes, if they are known.
    reduction_name : str or None
        ``reduction`` as it is shown: ``class:bird`` for ``class:0`` if the classes have names.
    weights_kind : str or None
        ``importance`` or ``frequency``; None without weights.
    clusters : int or None
        Number of clusters, for whose dependent rows intervals allow; None without clusters.
    basis : Basis or None
        What the results were computed from, if the rows were read from a source; None for rows in memory.
    source : Source or None
        Options and rows of the evaluation, from which ``plot`` computes diagrams; not part of documents and pickles.

    See Also
    --------
    evaluate : Evaluates rows.
    evaluate_tally : Evaluates a tally.

    Examples
    --------
    >>> import calibrant
    >>> report = calibrant.evaluate([0.1, 0.4, 0.6, 0.9], [0, 1, 1, 1])
    >>> report.n, report.reduction, list(report.measures)
    (4, 'binary', ['ece', 'squared-ece', 'log-loss', 'brier', 'auroc', 'smooth-test'])
    >>> calibrant.evaluate([0.1, 0.4, 0.6, 0.9], [0, 1, 1, 1], measures=["brier", "ks"])
    Report: 4 rows, reduction binary
    measure  value  p-value
    brier    0.135
    ks       0.250    0.436
    """

    n: int
    reduction: str
    clipped: int
    renormalised: int
    measures: Mapping[str, MeasureResult]
    after: Mapping[str, MeasureResult] | None = None
    groups: Mapping[str, GroupReport] | None = None
    gaps: Mapping[str, Gap] | None = None
    gaps_after: Mapping[str, Gap] | None = None
    pooled: Mapping[str, Pooled] | None = None
    left_out: int = 0
    diagrams: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    after_diagrams: Mapping[str, dict[str, Any]] | None = None
    improvement: Mapping[str, MeasureResult] | None = None
    in_sample: bool | None = None
    warning: str | None = None
    class_names: tuple[str, ...] | None = None
    reduction_name: str | None = field(default=None, compare=False)
    weights_kind: WeightsKind | None = None
    clusters: int | None = None
    basis: Basis | None = None
    source: Source | None = field(default=None, compare=False)

    _what = "measure in this report"
    _aliases = FAMILIAR
    _familiar = MappingProxyType(
        {
            **dict.fromkeys(("to_df", "to_pandas", "to_polars"), "to_frame()"),
            **{f"to_{kind}": f"to_frame().to_{kind}(...)" for kind in ("csv", "excel", "latex", "markdown", "parquet")},
            **dict.fromkeys(("to_json", "as_dict"), "to_dict()"),
            **dict.fromkeys(("save", "to_html"), "calibrant.report(predictions, labels).save(path)"),
            **dict.fromkeys(("draw", "show"), "plot()"),
            **dict.fromkeys(("score", "summary"), "measures, or print the report"),
            **dict.fromkeys(
                ("calibration_curve", "plot_calibration_curve", "reliability", "reliability_diagram"),
                "plot.reliability()",
            ),
        }
    )

    def _elsewhere(self, key: str) -> str:
        name = known_name(key, MEASURES, FAMILIAR)
        return f'evaluate with measures=["{name}"]' if name in MEASURES else ""

    @property
    def plot(self) -> Plotter:
        """Draw diagrams on matplotlib axes.

        Returns
        -------
        Plotter
            ``report.plot()`` draws a reliability diagram, and ``report.plot.corp()`` and so on the other diagrams.

        See Also
        --------
        plot : Draws several reports side by side.

        Examples
        --------
        >>> import calibrant
        >>> ax = calibrant.evaluate([0.1, 0.4, 0.6, 0.9], [0, 1, 1, 1]).plot()
        >>> ax.get_xlabel()
        'predicted probability'
        """
        plotter: Plotter = above("plots.axes.Plotter")(self)
        return plotter

    def to_frame(self, *, groups: bool = False) -> Any:
        """Return the results as a frame, one row for each measure.

        Parameters
        ----------
        groups : bool, default False
            Whether to return one row for each group and measure instead.

        Returns
        -------
        DataFrame
            Of pandas or polars, whichever is imported or else installed, with the columns ``measure``, ``value``,
            ``debiased``, ``low`` and ``high`` (the interval), ``p_value`` and ``problem``; with a map also those of the
            results ``after`` it, and with ``groups`` also ``group`` and ``n``.

        Raises
        ------
        MissingExtra
            If neither library is installed.

        See Also
        --------
        evaluate : Returns reports.

        Examples
        --------
        >>> import calibrant
        >>> frame = calibrant.evaluate([0.1, 0.4, 0.6, 0.9], [0, 1, 1, 1], measures=["brier", "ks"]).to_frame()
        >>> list(frame["measure"])
        ['brier', 'ks']
        """
        if not groups:
            return frame_of(_records(self.measures, self.after))
        if self.groups is None:
            raise InvalidOption.at("/groups", "cannot be shown: the report has none")
        return frame_of(
            [
                {"group": name, "n": group.n, **record}
                for name, group in self.groups.items()
                for record in _records(group.measures, group.after)
            ]
        )

    def _document(self) -> dict[str, Any]:
        return report_document(self, None)

    def _table(self) -> Table:
        title = f"Report: {n_rows(self.n)}, reduction {self.reduction_name or self.reduction}"
        of_groups = f"{counted(len(self.groups or ()), 'group')}: to_frame(groups=True) has their results"
        notes = [of_groups] if self.groups else []
        gains = [f"{score} {text_of(gain.value)}" for score, gain in (self.improvement or {}).items()]
        of = next((gain.definition.get("reduction") for gain in (self.improvement or {}).values()), None)
        what = "improvement" if of is None else f"improvement of {scored(of)}"
        what += ", cross-fitted" if self.in_sample else ""
        if self.in_sample:
            notes.append(_IN_SAMPLE)
        notes += [f"{what}: {', '.join(gains)}"] if gains else []
        notes += [f"fit of the map: {self.warning}"] if self.warning else []
        notes += [f"weights: {self.weights_kind}"] if self.weights_kind else []
        notes += [f"clusters: {self.clusters:,}, whose rows may depend on each other"] if self.clusters else []
        notes += self._event_note() + self._basis_note()
        return _measures_table(title, self.measures, self.after, notes)

    def _basis_note(self) -> list[str]:
        if self.basis is None or self.basis.tolerance is None:
            return []
        return [f"from a tally: a prediction differs by at most {self.basis.tolerance:.1g} from its mean in a cell"]

    def _event_note(self) -> list[str]:
        """Return notes if measures of several classes are those of the confidence, and no reduction was given."""
        source = self.source
        if source is None or source.evaluation.reduction is not None or self.reduction != "confidence":
            return []
        of_event = source.evaluation.map is not None and not source.evaluation.map.of_vector
        if of_event or source.batch.predictions.n_classes is None:
            return []
        event = "the event that the predicted class is the label"
        notes = []
        if source.batch.predictions.n_classes == 2:
            notes.append('for P(Y=1) of two columns, pass predictions[:, 1] or reduction="binary"')
        for reduction, what in (("canonical", "scores of all classes"), ("classwise", "the mean over the classes")):
            keys = [key for key, result in self.measures.items() if _reduction_of_all(result) == reduction]
            notes += [f'{", ".join(keys)}: of {event}; pass reduction="{reduction}" for {what}'] if keys else []
        return notes


def _reduction_of_all(result: MeasureResult) -> str | None:
    """Return the reduction under which a score or class-wise measure is of all classes; None for other measures."""
    entry = MEASURES.get(str(result.definition.get("name")))
    if entry is None:
        return None
    return "canonical" if entry.family == PROPER else "classwise" if entry.of_classes else None


def _measures_table(
    title: str,
    measures: Mapping[str, MeasureResult],
    after: Mapping[str, MeasureResult] | None,
    notes: Sequence[str] = (),
) -> Table:
    """Return the table of measures, before and after a map if there is one, and cross-fitted if it is in-sample."""
    problems = {key: result.problem for key, result in measures.items() if result.problem}
    problems_after = {f"{key} after the map": result.problem for key, result in (after or {}).items() if result.problem}
    notes = [*notes, *(f"{name}: {problem}" for name, problem in (problems | problems_after).items())]
    if after is None:
        return Table.of_measures(title, measures, notes)
    again = any("cross_fitted" in result.parts for result in after.values())
    columns = ("measure", "before", "interval", "after", "interval", "cross-fitted" if again else "p-value")
    rows = []
    for key, result in measures.items():
        later = after[key]
        ends, ends_after = interval_of(result.interval), interval_of(later.interval)
        last = later.parts.get("cross_fitted") if again else later.p_value
        rows.append((key, result.value, ends, later.value, ends_after, last))
    return Table(title, columns, rows, notes)


def _records(measures: Mapping[str, MeasureResult], after: Mapping[str, MeasureResult] | None) -> list[dict[str, Any]]:
    """Return the results of measures as flat records, for a frame."""

    def record(result: MeasureResult, end: str = "") -> dict[str, Any]:
        low, high = result.interval or (None, None)
        numbers = {
            "value": result.value,
            "debiased": result.debiased,
            "low": low,
            "high": high,
            "p_value": result.p_value,
        }
        return {f"{name}{end}": value for name, value in numbers.items()} | {f"problem{end}": result.problem}

    afterwards = {
        key: record(result, "_after") | {k: v for k, v in result.parts.items() if k.startswith("cross_fitted")}
        for key, result in (after or {}).items()
    }
    return [{"measure": key, **record(result), **afterwards.get(key, {})} for key, result in measures.items()]


@dataclass(frozen=True, repr=False)
class GroupReport(Shown, ByMeasure[MeasureResult]):
    """Measures of the rows of one group; ``group["ece"]`` is the result of a measure.

    Attributes
    ----------
    n : int
        Number of rows in the group.
    measures : mapping of str to MeasureResult
        Results by key, for the predictions as given.
    after : mapping of str to MeasureResult or None
        Results after the map; None without a map.
    in_sample : bool or None
        As in the report.

    See Also
    --------
    Report : Holds one of these for each group.
    Gap : Largest difference of a measure between two groups.

    Examples
    --------
    >>> import calibrant
    >>> groups = ["a", "a", "b", "b"]
    >>> report = calibrant.evaluate([0.1, 0.4, 0.6, 0.9], [0, 1, 1, 1], measures=["brier"], groups=groups)
    >>> report.groups["b"].n, round(report.groups["b"]["brier"].value, 3)
    (2, 0.085)
    """

    n: int
    measures: Mapping[str, MeasureResult]
    after: Mapping[str, MeasureResult] | None = None
    in_sample: bool | None = None

    _what = "measure in this group"
    _aliases = FAMILIAR

    def _table(self) -> Table:
        notes = [_IN_SAMPLE] if self.in_sample else []
        return _measures_table(f"Group: {n_rows(self.n)}", self.measures, self.after, notes)


@dataclass(frozen=True)
class Source:
    """An evaluation and its rows, kept by reference."""

    evaluation: Evaluation
    batch: Batch

    def diagram(self, request: DiagramRequest) -> list[dict[str, Any]]:
        """Return a diagram of the rows, or those before and after the map."""
        drawn = self.evaluation.subjects(self.evaluation.check(self.batch))
        return [request.drawn(rows, self.evaluation.resampling) for rows in drawn if rows is not None]


@dataclass(frozen=True)
class CheckedBatch:
    """A batch that the options of an operation fit: the full name of the reduction, and the rows of each group."""

    batch: Batch
    reduction: str
    members: Members | None = None

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def names(self) -> list[str] | None:
        """The name of each row's group; None without groups."""
        if self.members is None:
            return None
        names = np.empty(len(self), np.object_)
        for name, places in self.members.items():
            names[places] = name
        return list(names)

    @property
    def without_groups(self) -> CheckedBatch:
        """The same rows without their groups."""
        return replace(self, members=None)


@dataclass(frozen=True)
class Evaluation:
    """The checked options of ``evaluate``, without the rows; ``check`` returns the rows that the other methods take.

    ``of_groups`` is the resampling of groups, if it differs: default intervals of many groups would take minutes.
    """

    measures: tuple[MeasureRequest, ...]
    reduction: str | None = None
    map: CalibrationMap | None = None
    resampling: Resampling = PLAIN
    classes: Sequence[int] | None = None
    diagrams: tuple[DiagramRequest, ...] = ()
    training: Training = UNKNOWN
    of_groups: Resampling | None = None

    @property
    def by_group(self) -> Evaluation:
        """The evaluation of the groups."""
        return replace(self, resampling=self.of_groups or self.resampling)

    @property
    def inline(self) -> bool:
        """Whether no measure and no diagram needs a long fit."""
        runs = [request.measure.runs for request in self.measures] + [request.runs for request in self.diagrams]
        return all(run == "inline" for run in runs)

    def check(self, batch: Batch, groups: Sequence[str] | None = None) -> CheckedBatch:
        """Return the checked rows, with group names ``groups (n,)``; raise what ``run`` would raise."""
        n_classes = batch.predictions.n_classes
        reduction = self.reduction
        fitting = self.map is not None and (n_classes is None or n_classes == self.map.n_classes)
        if reduction is None and self.map is not None and fitting and not self.map.of_vector:
            reduction = self.map.reduction
        name = resolve(reduction, n_classes)
        if n_classes is None and self.map is None and name not in _OF_ONE_COLUMN:
            raise UnknownReduction.at(
                "/reduction", f"must be one of {', '.join(_OF_ONE_COLUMN)} for predictions of shape (n,)"
            )
        if self.classes is not None:
            if self.map is not None:
                raise InvalidOption.at("/classes", "cannot be combined with a map, which needs all classes")
            chosen = len(read_classes(self.classes, n_classes))
            resolve(reduction, chosen)
        if self.map is not None:
            self.map.check(batch.predictions)
        if self.map is not None and not self.map.of_vector:
            resolve_event(name, n_classes)
            if n_classes is not None and name != self.map.reduction:
                raise WrongShape.at("/reduction", f"must be {self.map.reduction}, the reduction of the map")
        return CheckedBatch(batch, name, None if groups is None else group_members(groups, len(batch)))

    def run(self, rows: CheckedBatch, *, device: str = "cpu", progress: Progress | None = None) -> Report:
        """Evaluate checked rows; ``device`` is used if the map is fitted again.

        ``progress`` is called between and within the steps; an exception that it raises ends the work.
        """
        with reporting(progress):
            return self._run(rows, device)

    def subjects(self, rows: CheckedBatch) -> tuple[Subject, Subject | None]:
        """Return what is measured, before and after the map."""
        batch, name = rows.batch, rows.reduction
        if self.classes is not None:
            batch, _ = restrict(batch, read_classes(self.classes, batch.predictions.n_classes))
        raw = subject(batch, name)
        return raw, None if self.map is None else calibrated(raw, batch, name, self.map)[0]

    def _run(self, rows: CheckedBatch, device: str) -> Report:
        batch, name, members = rows.batch, rows.reduction, rows.members
        begin = self._steps(members)
        n_rows = len(batch)
        if self.classes is not None:
            batch, chosen = restrict(batch, read_classes(self.classes, batch.predictions.n_classes))
            members = None if members is None else members_among(members, chosen)
        members = None if members is None else with_weight(members, batch.weights)
        raw = subject(batch, name)
        with begin("measures"):
            measures = self._answers(raw)
        with begin("diagrams"):
            diagrams = diagrams_of(self.diagrams, raw, self.resampling) if self.diagrams else {}
        whole = Report(
            len(batch),
            name,
            batch.predictions.clipped,
            batch.predictions.renormalised,
            measures,
            left_out=n_rows - len(batch),
            weights_kind=None if batch.weights is None else batch.weights_kind,
            clusters=None if batch.clusters is None else count_clusters(batch.clusters),
            diagrams=diagrams,
        )
        applied: Subject | None = None
        held_out: Subject | None = None
        if self.map is not None:
            in_sample = self.training.is_in_sample(batch)
            with begin("map"):
                applied, before, after = calibrated(raw, batch, name, self.map)
            again: dict[str, MeasureResult] = {}
            with begin("improvement"):
                if in_sample:
                    improved, held_out = cross_fitted(batch, name, self.map, self.training, self.resampling, device)
                    if held_out is not None:
                        again = answers(self.measures, held_out, replace(self.resampling, level=None))
                else:
                    improved = improvements(before, after, self.resampling)
            if self.map.of_vector and name not in VECTORS:
                of = {"reduction": self.map.reduction}
                improved = {key: replace(gain, definition={**gain.definition, **of}) for key, gain in improved.items()}
            with begin("measures after the map"):
                measures = self._answers(applied)
                measures = unproven(measures, again) if in_sample else measures
            with begin("diagrams after the map"):
                diagrams = diagrams_of(self.diagrams, applied, self.resampling)
            whole = replace(whole, after=measures, after_diagrams=diagrams, improvement=improved)
            whole = replace(whole, in_sample=in_sample, warning=self.map.warning)
        if members is not None:
            parts = divided_members(members, batch) if held_out is not None else members
            whole = self.by_group._with_groups(whole, raw, applied, held_out, members, parts, begin)
        report(1, 1, "done")
        return whole

    def _steps(self, members: Members | None) -> Callable[[str], AbstractContextManager[None]]:
        """Return a function that starts a step by its name, with its share of the progress."""
        with_map = self.map is not None
        needed = {
            "measures": True,
            "diagrams": True,
            "map": with_map,
            "improvement": with_map,
            "measures after the map": with_map,
            "diagrams after the map": with_map,
            "groups": members is not None,
            "groups after the map": members is not None and with_map,
            "gaps": members is not None,
            "gaps after the map": members is not None and with_map,
        }
        names = [name for name, used in needed.items() if used]
        return lambda name: step(names.index(name), len(names), name)

    def seconds(self, rows: CheckedBatch) -> float:
        """Estimated seconds of ``run``."""
        batch, name, members = rows.batch, rows.reduction, rows.members
        extent = extent_of(batch, name)
        once = sum(request.seconds(extent, self.resampling) for request in self.measures)
        if members is not None:
            together = batch.weights is None and name != "pooled"
            once += sum(
                grouped_seconds(request, extent, len(members), self.by_group.resampling, together=together)
                for request in self.measures
            )
        drawn = sum(request.seconds(extent, self.resampling) for request in self.diagrams)
        again = self.training.seconds(batch) if self.map is not None and self.training.is_in_sample(batch) else 0.0
        if again:
            plain = replace(self.resampling, level=None)
            times = 1 if members is None else 2
            again += times * sum(request.seconds(extent, plain) for request in self.measures)
        return (once + drawn) * (1 if self.map is None else 2) + again

    def _answers(self, of: Subject) -> dict[str, MeasureResult]:
        return answers(self.measures, of, self.resampling)

    def _with_groups(
        self,
        report: Report,
        raw: Subject,
        applied: Subject | None,
        held_out: Subject | None,
        members: Members,
        held_out_members: Members,
        begin: Callable[[str], AbstractContextManager[None]],
    ) -> Report:
        with begin("groups"):
            before = self._by_group(raw, members)
        results = [np.unique(clusters) for own in members.values() if (clusters := raw.rows(own).clusters) is not None]
        shared = len(results) > 0 and sum(map(len, results)) > len(np.unique(np.concatenate(results)))
        report = replace(report, pooled=pooled_groups(self.measures, before, self.resampling.level, shared=shared))
        with begin("gaps"):
            gaps = self._gaps(raw, members, before)
        if applied is None:
            groups = {name: GroupReport(len(members[name]), results) for name, results in before.items()}
            return replace(report, groups=ByName("group", groups), gaps=gaps)
        with begin("groups after the map"):
            after = self._by_group(applied, members)
            if report.in_sample:
                plain = replace(self, resampling=replace(self.resampling, level=None))
                again = {} if held_out is None else plain._by_group(held_out, held_out_members)
                after = {name: unproven(results, again.get(name)) for name, results in after.items()}
        groups = {
            name: GroupReport(len(members[name]), before[name], after[name], report.in_sample) for name in members
        }
        with begin("gaps after the map"):
            gaps_after = self._gaps(applied, members, after)
        if report.in_sample:
            gaps_after = {key: replace(gap, p_value=None) for key, gap in gaps_after.items()}
        return replace(report, groups=ByName("group", groups), gaps=gaps, gaps_after=gaps_after)

    def _by_group(self, of: Subject, members: Members) -> dict[str, dict[str, MeasureResult]]:
        results = {}
        for i, (name, chosen) in enumerate(members.items()):
            with step(i, len(members), f"group {i + 1}"):
                results[name] = self._answers(of.rows(chosen))
        return results

    def _gaps(
        self, of: Subject, members: Members, by_group: Mapping[str, Mapping[str, MeasureResult]]
    ) -> dict[str, Gap]:
        return largest_gaps(self.measures, of, members, by_group, self.resampling)


def report_document(report: Report, map_id: str | None) -> dict[str, Any]:
    """Convert a report to JSON; ``map_id`` is the id of the map of ``after``."""
    body: dict[str, Any] = {
        "n": report.n,
        "reduction": report.reduction,
        "left_out": report.left_out,
        "clipped": report.clipped,
        "renormalised": report.renormalised,
        "measures": plain_results(report.measures),
    }
    basis = None if report.basis is None else asdict(report.basis)
    of_rows = {"weights_kind": report.weights_kind, "clusters": report.clusters, "basis": basis}
    body |= {name: value for name, value in of_rows.items() if value is not None}
    if report.after is not None:
        body |= {"map": map_id, "in_sample": report.in_sample, "after": {"measures": plain_results(report.after)}}
    if report.warning is not None:
        body["warning"] = report.warning
    if report.improvement is not None:
        body["improvement"] = plain_results(report.improvement)
    if report.gaps is not None:
        body["gaps"] = {key: plain_result(gap) for key, gap in report.gaps.items()}
    if report.gaps_after is not None:
        body["after"]["gaps"] = {key: plain_result(gap) for key, gap in report.gaps_after.items()}
    if report.pooled is not None:
        body["pooled"] = {key: plain_result(pooled) for key, pooled in report.pooled.items()}
    if report.diagrams:
        body["diagrams"] = dict(report.diagrams)
    if report.after_diagrams:
        body["after"]["diagrams"] = dict(report.after_diagrams)
    if report.groups is not None:
        body["groups"] = {
            name: {"n": group.n, "measures": plain_results(group.measures)}
            | ({} if group.after is None else {"after": {"measures": plain_results(group.after)}})
            for name, group in report.groups.items()
        }
    return body


@explained
def evaluate(
    predictions: Any,
    labels: Any,
    *,
    measures: str | Sequence[str | Mapping[str, Any]] | None = None,
    diagrams: str | Sequence[str | Mapping[str, Any]] | None = None,
    reduction: str | None = None,
    classes: Sequence[int | str] | None = None,
    class_names: Sequence[Any] | Mapping[Any, Any] | None = None,
    pos_label: Any = None,
    weights: Any = None,
    sample_weight: Any = None,
    weights_kind: WeightsKind = "importance",
    groups: Any = None,
    clusters: Any = None,
    features: Any = None,
    map: CalibrationMap | None = None,
    scale: InputScale = "probability",
    interval: float | None = None,
    resamples: int = 1000,
    seed: int = 0,
    cluster_variance: ClusterVariance = "cr2",
) -> Report:
    """Measure how well predictions are calibrated.

    Parameters
    ----------
    predictions : array_like, shape (n,) or (n, K)
        P(Y = 1), or one column per class: an array, list, tensor, Series, frame or dictionaries.
    labels : array_like, shape (n,)
        0 or 1, or 0 to K - 1. Other values need ``class_names``, ``pos_label`` or a frame with labels as column names.
    measures, diagrams : str, or sequence of str or mapping, optional
        Names in ``MEASURES`` and ``DIAGRAMS``, or mappings of ``name``, options and the key ``as``; ``"all"``: if fast.
    reduction : str, optional
        ``binary`` (default for (n,)), ``confidence`` (default for (n, K)), ``class:k``, ``top:r``, ``within-top:r``,
        ``pooled``, ``classwise`` or ``canonical`` (the whole vector). A map fitted to one event sets the default.
    classes : sequence of int or str, optional
        Classes to keep, for (n, K). Rows with other labels are left out, remaining probabilities are renormalised
        (logits are selected before the softmax), and k of ``class:k`` is the position in ``classes``.
    class_names : sequence, optional
        Labels of the classes in the order of the columns; for (n,), of the negative and the positive class.
    pos_label : str, int or bool, optional
        Label of class 1, for two classes. Unnamed columns ``(n, 2)`` are in the order of the sorted labels in any case.
    weights, sample_weight : array_like, shape (n,), optional
        Non-negative weights, not all 0. ``sample_weight`` is an alias of ``weights``.
    weights_kind : {"importance", "frequency"}, default "importance"
        Only the ratios of importance weights matter; frequency weights are whole numbers of equal rows.
    groups : array_like, shape (n,), or frame, optional
        Group of each row, or a column per grouping. The report has the measures of each group and their largest gap.
    clusters : array_like, shape (n,), or frame, optional
        Cluster of each row, such as its patient: rows of a cluster may depend on each other.
    features, map : frame or mapping of str to array_like, and CalibrationMap, optional
        Map to apply, and the features that a map of ``segments`` needs. The report has results before and after it.
    scale : {"probability", "percent", "logit"}, default "probability"
        Scale of ``predictions``.
    interval : float, optional
        Level of confidence intervals, in (0, 1). By default 0.95 for the default measures of all rows, otherwise none.
    resamples, seed : int, default 1000 and 0
        Number of resamples, from 100 to 100,000, and seed of resamples, folds and simulated labels.
    cluster_variance : {"cr2", "cr1", "cr0"}, default "cr2"
        Variance of clusters: bias-reduced, with Satterthwaite's degrees of freedom; as in statsmodels; or uncorrected.

    Returns
    -------
    Report
        Results by key; by default of ``ece``, ``log-loss``, ``brier``, ``auroc`` and ``smooth-test``.

    Raises
    ------
    CalibrationError
        If an argument is invalid; the error names the argument and the first invalid rows.

    See Also
    --------
    compare : Compares several maps on the same rows.
    evaluate_tally : Evaluates data that does not fit in memory.

    Notes
    -----
    Importance weights give Hajek estimates with sandwich variances. The cost is the sum of ``MEASURES[name].cost``.

    Examples
    --------
    >>> import calibrant
    >>> report = calibrant.evaluate([0.1, 0.4, 0.6, 0.9], [0, 1, 1, 1], measures=["ks"])
    >>> round(report.measures["ks"].value, 3)
    0.25
    """
    resampling = Resampling.read(level_of(interval, measures), resamples, seed, cluster_variance)
    rows = read_rows(
        predictions,
        labels,
        weights=weights,
        sample_weight=sample_weight,
        weights_kind=weights_kind,
        groups=groups,
        clusters=clusters,
        features=features,
        class_names=class_names,
        pos_label=pos_label,
        scale=scale,
        known=map.class_names if isinstance(map, CalibrationMap) else None,
    )
    check_map(map)
    if features is not None and not (isinstance(map, CalibrationMap) and map.function.family == "segments"):
        raise InvalidOption.at("/features", "are for a map of segments; find_segments and report take them without one")
    check_class_names(map, rows.class_names)
    rows.warn_of_kind()
    warn_of_training(predictions, rows.batch)
    chosen = classes_by_name(classes, rows.class_names)
    evaluation = Evaluation(
        read_requests(applicable(measures, reduction), reduction),
        reduction_by_name(reduction, rows.class_names, chosen),
        map,
        resampling,
        chosen,
        read_diagrams(diagrams),
        training_of(map) if isinstance(map, CalibrationMap) else UNKNOWN,
        replace(resampling, level=interval),
    )
    whole = evaluation.run(evaluation.check(rows.batch, rows.groups))
    named = reduction_with_name(whole.reduction, rows.class_names, chosen)
    return replace(whole, class_names=rows.class_names, reduction_name=named, source=Source(evaluation, rows.batch))
