"""Results of comparisons: of each contestant, of each measure, and the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from calibrant.comparison.pairs import Correction, Pair
from calibrant.core.choices import Of as Of
from calibrant.core.choices import RankedValues as RankedValues
from calibrant.core.results import ByMeasure, Cell, Framed, Shown, Table, above, counted, interval_of, n_rows
from calibrant.evaluation import Report, Source
from calibrant.measures.measure import MeasureResult

#: Which values are compared -> the part of the value from maps fitted without the fold of each row.
_CROSS_FITTED: Mapping[Of, str] = {"value": "cross_fitted", "debiased": "cross_fitted_debiased"}


@dataclass(frozen=True, repr=False)
class ContestantReport(Shown, ByMeasure[MeasureResult]):
    """Results of one contestant.

    Attributes
    ----------
    name : str
        Name of the map, or ``uncalibrated``.
    measures : mapping of str to MeasureResult
        Results by key.
    classification_error : float or None
        Fraction of wrong predicted classes: 1 - accuracy.
    brier : float or None
        The Brier score; smaller is better.
    in_sample : bool or None
        Whether the map was fitted to these rows; None if unknown and for the uncalibrated predictions. If True there
        are no p-values, ``improvement`` is cross-fitted, and the parts of the measures have ``cross_fitted`` values.
    improvement : mapping of str to MeasureResult or None
        ``brier`` and ``log-loss`` of the uncalibrated predictions minus those of the map; above 0 the map is better.

    See Also
    --------
    calibrant.compare : Computes these results.

    Examples
    --------
    >>> import calibrant
    >>> maps = {"isotonic": calibrant.fit("isotonic", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])}
    >>> report = calibrant.compare([0.2, 0.3, 0.7, 0.8], [0, 0, 1, 1], maps, measures=["brier"])
    >>> [contestant.name for contestant in report.contestants]
    ['uncalibrated', 'isotonic']
    """

    name: str
    measures: Mapping[str, MeasureResult]
    classification_error: float | None
    brier: float | None
    in_sample: bool | None = None
    improvement: Mapping[str, MeasureResult] | None = None

    _what = "measure of this contestant"

    def _table(self) -> Table:
        return Table.of_measures(f"{self.name} (in-sample)" if self.in_sample else self.name, self.measures)


@dataclass(frozen=True, repr=False)
class MeasureComparison(Shown):
    """Comparison of all contestants by one measure.

    Attributes
    ----------
    of : {"value", "debiased"}
        Which values are compared: debiased ones if every contestant with a value has one and ``of`` is not ``plain``.
    ranking : tuple of str or None
        Names, best first, without maps fitted to these rows; None if neither small nor large values are better. Models
        are ranked by the log loss and the Brier score alone.
    indistinguishable : tuple of str or None
        The best contestant, and those that do not differ from it significantly.
    pairs : tuple of Pair
        Differences of all pairs, with simultaneous intervals and adjusted p-values.
    fronts : mapping of str to tuple of str
        Pareto fronts of the measure against ``classification-error`` and ``brier``.
    problem : str or None
        Why there are no intervals.
    ranks : mapping of str to tuple of int, or None
        Simultaneous interval of the rank of each contestant, 1 for the best; None without a ranking or intervals.

    See Also
    --------
    calibrant.compare : Computes these comparisons.

    Examples
    --------
    >>> import calibrant
    >>> maps = {"isotonic": calibrant.fit("isotonic", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])}
    >>> report = calibrant.compare([0.2, 0.3, 0.7, 0.8], [0, 0, 1, 1], maps, measures=["brier"])
    >>> report.measures["brier"].ranking
    ('uncalibrated', 'isotonic')
    """

    of: Of
    ranking: tuple[str, ...] | None
    indistinguishable: tuple[str, ...] | None
    pairs: tuple[Pair, ...]
    fronts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problem: str | None = None
    ranks: Mapping[str, tuple[int, int]] | None = None

    def _table(self) -> Table:
        columns = ("pair", "difference", "interval", "p-value")
        rows = [
            (" - ".join(pair.between), pair.difference, interval_of(pair.interval), pair.p_value) for pair in self.pairs
        ]
        notes = [f"best first: {', '.join(self.ranking)}"] if self.ranking and len(self.ranking) > 1 else []
        title = "Differences of debiased values" if self.of == "debiased" else "Differences"
        return Table(title, columns, rows, [*notes, self.problem] if self.problem else notes)


@dataclass(frozen=True, repr=False)
class ComparisonReport(Framed, ByMeasure[MeasureComparison]):
    """Result of ``compare``.

    ``to_frame`` has a row for each contestant and measure, with the columns ``contestant``, ``in_sample``, ``measure``,
    ``value``, ``debiased``, ``low`` and ``high`` (the interval), ``p_value``, ``rank`` (from 1; missing if it is not
    ranked), and ``rank_low`` and ``rank_high``, the interval of the rank. If a map was fitted to these rows, also
    ``cross_fitted`` and ``cross_fitted_debiased``.

    Attributes
    ----------
    report : Report
        Evaluation of the uncalibrated predictions, or of the first model.
    contestants : tuple of ContestantReport
        Results of each contestant; with maps, the first is ``uncalibrated``.
    measures : mapping of str to MeasureComparison
        Ranking, pairs and Pareto fronts by the key of the measure.
    correction : {"max-t", "holm"}
        Correction for multiple comparisons.
    level : float
        Level of the intervals.
    rank_by : str or None
        Key of the score that ranks the contestants.
    groups : mapping of str to ComparisonReport or None
        The comparison on the rows of each group; None without groups.
    sources : mapping of str to Source
        Options and rows of each contestant, from which ``plot`` draws diagrams; not part of documents and pickles.

    See Also
    --------
    compare : Returns this result.
    plot : Draws a diagram of every contestant, side by side.

    Examples
    --------
    >>> import calibrant
    >>> maps = {"isotonic": calibrant.fit("isotonic", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])}
    >>> report = calibrant.compare([0.2, 0.3, 0.7, 0.8], [0, 0, 1, 1], maps, measures=["brier"])
    >>> report.contestants[1].name, report.level
    ('isotonic', 0.95)
    """

    report: Report
    contestants: tuple[ContestantReport, ...]
    measures: Mapping[str, MeasureComparison]
    correction: Correction
    level: float
    rank_by: str | None = None
    groups: Mapping[str, ComparisonReport] | None = None
    sources: Mapping[str, Source] = field(default_factory=dict, compare=False)

    _what = "measure in this comparison"

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"sources": {}}

    @property
    def ranking(self) -> tuple[str, ...] | None:
        """The names by the score ``rank_by``, best first; None without one.

        See Also
        --------
        compare : Returns comparisons.

        Examples
        --------
        >>> import calibrant
        >>> models = {"coin": [0.5] * 4, "sharp": [0.2, 0.3, 0.7, 0.8]}
        >>> calibrant.compare(models, [0, 0, 1, 1]).ranking
        ('sharp', 'coin')
        """
        return None if self.rank_by is None else self.measures[self.rank_by].ranking

    @property
    def ranks(self) -> Mapping[str, tuple[int, int]] | None:
        """The simultaneous interval of the rank of each name by the score ``rank_by``; None without one.

        See Also
        --------
        compare : Returns comparisons.

        Examples
        --------
        >>> import calibrant
        >>> models = {"coin": [0.5] * 4, "sharp": [0.2, 0.3, 0.7, 0.8]}
        >>> calibrant.compare(models, [0, 0, 1, 1]).ranks
        {'coin': (2, 2), 'sharp': (1, 1)}
        """
        return None if self.rank_by is None else self.measures[self.rank_by].ranks

    @property
    def reports(self) -> dict[str, Report]:
        """The evaluation of each contestant, without groups.

        See Also
        --------
        plot : Draws these reports side by side.

        Examples
        --------
        >>> import calibrant
        >>> models = {"coin": [0.5] * 4, "sharp": [0.2, 0.3, 0.7, 0.8]}
        >>> list(calibrant.compare(models, [0, 0, 1, 1]).reports)
        ['coin', 'sharp']
        """
        plain = replace(self.report, groups=None, gaps=None)
        return {
            contestant.name: replace(
                plain,
                measures=contestant.measures,
                in_sample=contestant.in_sample,
                source=self.sources.get(contestant.name),
            )
            for contestant in self.contestants
        }

    def _document(self) -> dict[str, Any]:
        document: dict[str, Any] = above("reports.operations.comparison_document")(self, {})
        return document

    def _records(self) -> list[dict[str, Any]]:
        records = []
        again = (
            ("cross_fitted", "cross_fitted_debiased") if any(entrant.in_sample for entrant in self.contestants) else ()
        )
        for contestant in self.contestants:
            for key, result in contestant.measures.items():
                low, high = result.interval or (None, None)
                ranking = list(self.measures[key].ranking or ())
                rank = ranking.index(contestant.name) + 1 if contestant.name in ranking else None
                first, last = (self.measures[key].ranks or {}).get(contestant.name, (None, None))
                numbers: dict[str, Any] = {"value": result.value, "debiased": result.debiased, "low": low, "high": high}
                whose: dict[str, Any] = {
                    "contestant": contestant.name,
                    "in_sample": contestant.in_sample,
                    "measure": key,
                }
                numbers |= {name: result.parts.get(name) for name in again}
                ranked = {"p_value": result.p_value, "rank": rank, "rank_low": first, "rank_high": last}
                records.append(whose | numbers | ranked)
        return records

    def plot(self, measure: str | None = None, ax: Any = None) -> Any:
        """Draw a measure of every contestant with its interval.

        Parameters
        ----------
        measure : str, optional
            Key of a measure; by default the first.
        ax : Axes, optional
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        Axes
            The axes; contestants in the order of the comparison, in-sample ones hollow.

        Raises
        ------
        CalibrationError
            If ``ax`` is not axes, or ``measure`` is unknown.
        MissingExtra
            If matplotlib is not installed.

        See Also
        --------
        compare : Returns comparisons.

        Examples
        --------
        >>> import calibrant
        >>> maps = {"isotonic": calibrant.fit("isotonic", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])}
        >>> report = calibrant.compare([0.2, 0.3, 0.7, 0.8], [0, 0, 1, 1], maps, measures=["brier"])
        >>> report.plot().get_xlabel()
        'brier'
        """
        return above("plots.results.plot_comparison")(self, measure, ax)

    def _table(self) -> Table:
        rows: list[tuple[Cell, ...]] = []
        for contestant in self.contestants:
            cells: list[Cell] = []
            for key, compared in self.measures.items():
                result = contestant.measures[key]
                cells += [getattr(result, compared.of), result.parts.get(_CROSS_FITTED[compared.of])]
            name = f"{contestant.name} (in-sample)" if contestant.in_sample else contestant.name
            low, high = (self.ranks or {}).get(contestant.name, (None, None))
            rows.append((name, *cells, contestant.classification_error, None if low is None else _span(low, high)))
        columns = ["contestant"]
        for key, compared in self.measures.items():
            columns += [f"{key} (debiased)" if compared.of == "debiased" else key, "cross-fitted"]
        ranked = {
            key: contestant.ranking
            for key, contestant in self.measures.items()
            if contestant.ranking and len(contestant.ranking) > 1
        }
        notes = [f"{key}: {', '.join(ranking)} (best first)" for key, ranking in ranked.items()]
        if any(contestant.in_sample for contestant in self.contestants):
            notes.append("in-sample: fitted to these rows, too good and therefore not ranked")
        if self.ranks:
            notes.append(f"rank by {self.rank_by}: simultaneous {100.0 * self.level:g} % intervals")
        notes += (
            [f"{counted(len(self.groups), 'group')}: groups[name] is the comparison on its rows"] if self.groups else []
        )
        title = f"Comparison: {n_rows(self.report.n)}, reduction {self.report.reduction_name or self.report.reduction}"
        return Table(title, (*columns, "error", "rank"), rows, notes)


def _span(low: int, high: int | None) -> str:
    return str(low) if low == high else f"{low} to {high}"
