"""Evaluation of several maps or several stored batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

from calibrant.client.answers import BatchRecord, MapSummary, ReportAnswer, ReportsAnswer
from calibrant.client.answers.evaluations import Correction
from calibrant.client.calls.jobs import Progress
from calibrant.client.frames import ArrayLike, RowArguments
from calibrant.client.retries import Patience
from calibrant.client.rows import Requested, report, with_class_rows
from calibrant.client.steps import Steps


def compare(
    patience: Patience,
    batch: str | BatchRecord | ArrayLike | None = None,
    *others: Any,
    maps: str | MapSummary | Sequence[str | MapSummary] = (),
    measures: Requested | None = None,
    reduction: str | None = None,
    correction: Correction = "max-t",
    of: Literal["debiased", "plain"] = "debiased",
    interval: float = 0.95,
    resamples: int | None = None,
    seed: int | None = None,
    timeout: float | None = None,
    progress: Progress | None = None,
    **rows: Unpack[RowArguments],
) -> Steps[ReportAnswer]:
    """Compare stored maps with each other and with the uncalibrated predictions, on the same rows.

    Parameters
    ----------
    batch : str, BatchRecord or array_like, optional
        A stored batch or its id, or predictions.
    *others : array_like, and sequence of str
        Labels of predictions that are given as the first argument; then the maps.
    maps : sequence of str
        The maps: ids, names, ``name:version`` or ``name@alias``.
    correction : {"max-t", "holm"}
        Correction for multiple comparisons.
    of : {"debiased", "plain"}
        Values that are ranked, and of the Pareto fronts: debiased ones if every contestant has one, or plain ones.
    interval : float
        Level of the confidence intervals, in (0, 1).
    measures, reduction, resamples, seed, timeout, progress, **rows
        As for ``evaluate``.

    Returns
    -------
    ReportAnswer
        The report of the uncalibrated predictions; ``comparison`` has the comparison.

    Raises
    ------
    JobFailed, JobTimeout
        As for ``evaluate``.

    Examples
    --------
    >>> report = client.compare(maps=["spam:1"], predictions=p, labels=y, measures=["brier"])
    >>> [contestant.name for contestant in report.comparison.contestants]
    ['uncalibrated', 'spam:1']
    """
    own_labels = list(others)
    if own_labels and not maps and (isinstance(batch, str | BatchRecord) or len(own_labels) > 1):
        maps = own_labels.pop()
    if isinstance(maps, Mapping):
        raise TypeError("maps must be a list of ids or names; the comparison has these names")
    refs = [maps] if isinstance(maps, str | MapSummary) else list(maps)
    fields: dict[str, Any] = {"maps": refs, "measures": measures, "reduction": reduction, "correction": correction}
    fields |= {"of": of, "interval": interval, "resamples": resamples, "seed": seed}
    sent = with_class_rows(patience, "/evaluate", rows, fields, batch, own_labels)
    return (yield from report(patience, sent, ReportAnswer, timeout, progress))


def power_law(
    patience: Patience,
    batches: Sequence[str | BatchRecord],
    *,
    maps: str | MapSummary | Sequence[str | MapSummary] | None = None,
    measures: Requested | None = None,
    reduction: str | None = None,
    interval: float = 0.95,
    timeout: float | None = None,
    progress: Progress | None = None,
) -> Steps[ReportsAnswer]:
    """Measure several stored batches and fit the power law between calibration error and classification error.

    Parameters
    ----------
    batches : sequence of str
        Ids of stored batches.
    maps : sequence of str, optional
        Maps to include.
    interval : float
        Level of the confidence intervals, in (0, 1).
    measures, reduction, timeout, progress
        As for ``evaluate``.

    Returns
    -------
    ReportsAnswer
        The report of each batch, and the power laws, None for fewer than five batches.

    Raises
    ------
    JobFailed, JobTimeout
        As for ``evaluate``.

    Examples
    --------
    >>> stored = [client.upload(p, y).id for _ in range(2)]
    >>> [each.report.n for each in client.power_law(stored, measures=["ece"]).batches]
    [200, 200]
    """
    refs = [maps] if isinstance(maps, str | MapSummary) else maps
    ids = [batches] if isinstance(batches, str | BatchRecord) else list(batches)
    fields = {"batches": ids, "measures": measures, "reduction": reduction, "interval": interval}
    sent = with_class_rows(patience, "/evaluate", {}, fields | {"maps": refs and list(refs)})
    return (yield from report(patience, sent, ReportsAnswer, timeout, progress))
