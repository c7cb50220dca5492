"""The client ``AsyncCalibrant``.

Generated from calibrant/client/calls and the calls of the service by `make reference`.
"""
# ruff: noqa: E501 - docstrings are indented by one level more than those that they are from

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from calibrant.client.answers import (
    About,
    AlarmsAnswer,
    Aliases,
    AliasRecord,
    AuditAnswer,
    AuditEntry,
    AuditHookAnswer,
    AuditHooksAnswer,
    AuditPage,
    BackfillAnswer,
    BatchesAnswer,
    BatchRecord,
    ChangeRecord,
    CoverageAnswer,
    DecisionCurveAnswer,
    DecisionThresholdAnswer,
    DeliveriesAnswer,
    DeliveryRecord,
    DeliverySummary,
    DiagramEntry,
    DiagramsAnswer,
    DistributionMeasureEntries,
    DistributionMeasureEntry,
    DistributionMethodEntries,
    DistributionMethodEntry,
    DistributionReportAnswer,
    GradesAnswer,
    Health,
    IngestionResult,
    JobAnswer,
    JobsAnswer,
    JobSummary,
    LimitsAnswer,
    ListedMap,
    MapChanges,
    MapPage,
    MapRecord,
    MapSummary,
    MeasureEntries,
    MeasureEntry,
    MethodEntries,
    MethodEntry,
    MonitorAnswer,
    MonitorEvent,
    MonitorPatch,
    MonitorReading,
    MonitorsAnswer,
    MulticalibrationAnswer,
    Proposal,
    RecalibrationRequested,
    RecommendationAnswer,
    ReportAnswer,
    ReportsAnswer,
    RuleState,
    SampleSizeAnswer,
    ScoredAnswer,
    SegmentsAnswer,
    SeriesAnswer,
    SetMethodEntries,
    SetMethodEntry,
)
from calibrant.client.async_connection import AsyncConnection
from calibrant.client.calls import aliases, coverage, jobs, maps, monitor_alarms, monitor_rows, monitors
from calibrant.client.calls.jobs import Progress
from calibrant.client.calls.maps import Applied, AppliedSets, Bounds, Documented, Floats
from calibrant.client.calls.monitor_rows import PIECE
from calibrant.client.declared import changed, pages, removal, result
from calibrant.client.events import JobEvent
from calibrant.client.frames import (
    ArrayLike,
    DistributionRows,
    ForecastArguments,
    FrameLike,
    RowArguments,
    RowColumns,
    Series,
    moment_of,
)
from calibrant.client.monitored import Encoding, RowFields
from calibrant.client.requests import path_of, with_fields
from calibrant.client.retries import send
from calibrant.client.rows import (
    Form,
    Requested,
    Theme,
    answered,
    fitted,
    html,
    map_reference,
    media_of,
    picture,
    result_of,
    stored_picture,
    with_class_rows,
    with_forecast_rows,
)

if TYPE_CHECKING:
    from calibrant.distributions.adaptive import AdaptiveForecasts
    from calibrant.distributions.forecasts import Forecasts


class AsyncCalibrant(AsyncConnection):
    """An asynchronous client of a Calibrant server. Use it as an asynchronous context manager, or ``close`` it.

    It has the methods of ``Calibrant`` as coroutines; methods that yield items are asynchronous iterators. Cancelling a
    task abandons its request and closes its stream of events; work that the server has started continues. The function
    of a token may be a coroutine.

    Arrays are sent as NPZ. Requests are retried if the connection breaks or the server is overloaded, up to ``tries``
    times within ``timeout`` seconds; requests that change something have an idempotency key, so retries are safe. Every
    method raises ``ProblemResponse`` if the server refuses the request, and ``httpx.TransportError`` if it does not
    respond.

    Parameters
    ----------
    url : str, optional
        URL of the server. Default: the environment variable ``CALIBRANT_SERVER``, else ``http://127.0.0.1:8000``.
    api_key : str, optional
        API key. Default: the environment variable ``CALIBRANT_API_KEY``. No message of the client contains it.
    token : str or callable, optional
        Bearer token of the issuer that the server accepts, in place of a key; or a function without arguments that
        returns it. The function is called for every request, so it should keep a token until shortly before its end.
    timeout : float
        Seconds for a request with its retries. Waiting for a job has a timeout of its own.
    tries : int
        The most times a request is sent.
    note : str, optional
        Why the changes are made, for the audit log of the server; at most 500 characters. Default: the environment
        variable ``CALIBRANT_NOTE``.
    verify : ssl.SSLContext, optional
        TLS context, for example for a private certificate authority or a client certificate.
    transport : httpx.AsyncBaseTransport, optional
        Replaces the network transport of httpx.

    Examples
    --------
    >>> async def calibrated():
    ...     async with AsyncCalibrant(url) as client:
    ...         fitted = await client.fit("platt", predictions=p, labels=y)
    ...         return await client.calibrate(fitted.id, p)
    >>> asyncio.run(calibrated()).shape
    (200,)
    """

    async def fit(
        self,
        method: str = "averaged",
        batch: str | BatchRecord | ArrayLike | None = None,
        *own_labels: ArrayLike,
        description: str | None = None,
        tags: Mapping[str, Any] | None = None,
        name: str | None = None,
        allow_shape_change: bool | None = None,
        options: Mapping[str, Any] | None = None,
        keep_batch: bool | None = None,
        source: Mapping[str, Any] | None = None,
        reduction: str | None = None,
        seed: int | None = None,
        timeout: float | None = None,
        progress: Progress | None = None,
        **rows: Unpack[RowArguments],
    ) -> MapRecord:
        """Fit a calibration map to a stored batch or to rows, and wait for it.

        Parameters
        ----------
        method : str
            Method, from ``GET /methods``, or of prediction sets, from ``GET /methods?output=sets``; by default
            ``averaged``.
        batch : str, BatchRecord or array_like, optional
            A stored batch or its id; or predictions.
        *own_labels : array_like
            Labels, after predictions.
        description : str, optional
            Free text.
        tags : mapping, optional
            Up to 32 short strings by name.
        name : str, optional
            Name of the map; a name in use gets its next version.
        allow_shape_change : bool, optional
            Allow the shape of the output to differ from that of the newest map with this name.
        options : mapping, optional
            Options of the method.
        keep_batch : bool, optional
            If rows in the request become a job: keep them as a batch, which the job names, for the setting batch_ttl;
            by default they are deleted when the job ends.
        source : mapping, optional
            Rows of files in a source, instead of the arrays; the request becomes a job. It has ``source``, ``path`` and
            ``columns``, and optionally ``where``, ``format`` and ``engine``.
        reduction : str, optional
            What is measured or calibrated, such as binary, confidence, classwise or class:2; requests may name the
            class, as in class:dog.
        seed : int, optional
            Random seed; by default ``0``.
        timeout : float, optional
            Seconds to wait for a job; by default there is no limit.
        progress : callable, optional
            Called with the job on every change.
        **rows
            ``predictions``, ``labels``, ``weights``, ``groups``, ``scale`` and ``weights_kind``, by name; and ``class_names`` or
            ``pos_label``.

        Returns
        -------
        MapRecord
            A stored map: its summary, the bins of its fit, and its document.

        Raises
        ------
        JobFailed
            If the job failed or was cancelled.
        JobTimeout
            If the job has not ended after ``timeout`` seconds.

        Examples
        --------
        >>> client.fit("platt", name="spam", predictions=p, labels=y).method
        'platt'
        """
        return await self._run(
            fitted(
                self._patience,
                with_class_rows(
                    self._patience,
                    "/maps",
                    rows,
                    {
                        "description": description,
                        "tags": tags,
                        "name": name,
                        "allow_shape_change": allow_shape_change,
                        "method": method,
                        "options": options,
                        "keep_batch": keep_batch,
                        "source": source,
                        "reduction": reduction,
                        "seed": seed,
                    },
                    batch,
                    own_labels,
                ),
                timeout,
                progress,
            )
        )

    async def upload(
        self,
        predictions: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        ttl: int | None = None,
        **rows: Unpack[RowColumns],
    ) -> BatchRecord:
        """Store a batch of predictions.

        Parameters
        ----------
        predictions : array_like
            (n,) for P(Y=1), or (n, K); the columns of a DataFrame are the classes in order.
        labels : array_like, optional
            (n,), integers 0 to K - 1 or booleans; or others, with ``class_names``, ``pos_label`` or a frame of predictions
            whose columns are named after them.
        ttl : int, optional
            Lifetime in seconds; default and maximum: the setting batch_ttl.
        **rows
            ``predictions``, ``labels``, ``weights``, ``groups``, ``scale`` and ``weights_kind``, by name; and ``class_names`` or
            ``pos_label``.

        Returns
        -------
        BatchRecord
            The record of a stored batch.

        Examples
        --------
        >>> client.upload([0.1, 0.4, 0.6, 0.9], [0, 0, 1, 1]).positive_rate
        0.5
        """
        return await self._run(
            answered(
                with_class_rows(
                    self._patience, "/batches", rows, {"ttl": ttl}, predictions, [] if labels is None else [labels]
                ),
                BatchRecord,
            )
        )

    async def upload_distribution(
        self, observed: ArrayLike | None = None, *, ttl: int | None = None, **rows: Unpack[DistributionRows]
    ) -> BatchRecord:
        """Store a batch of forecasts.

        Parameters
        ----------
        observed : array_like, shape (n,), optional
            Outcomes.
        ttl : int, optional
            Lifetime in seconds; default and maximum: the setting batch_ttl.
        **rows
            The forecasts: ``mean`` with ``variance`` or ``std``; ``quantiles`` with ``levels``; ``samples``; or ``lower``,
            ``upper`` and ``level``. Also ``weights``, ``weights_kind``, ``groups``, ``clusters``, ``by`` and ``times``.

        Returns
        -------
        BatchRecord
            The record of a stored batch.

        Examples
        --------
        >>> client.upload_distribution([0.5], quantiles=[[0.0, 1.0]], levels=[0.1, 0.9]).forecasts.kind
        'quantiles'
        """
        return await self._run(
            answered(with_forecast_rows(self._patience, "/batches", rows, {"ttl": ttl}, observed), BatchRecord)
        )

    async def append(
        self,
        batch: str | BatchRecord,
        predictions: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        key: str | None = None,
        **rows: Unpack[RowColumns],
    ) -> BatchRecord:
        """Append rows to a stored batch; retries are idempotent.

        Parameters
        ----------
        batch : str or BatchRecord
            Id of the batch.
        predictions : array_like
            (n,) for P(Y=1), or (n, K); the columns of a DataFrame are the classes in order.
        labels : array_like, optional
            (n,), integers 0 to K - 1 or booleans; or others, with ``class_names``, ``pos_label`` or a frame of predictions
            whose columns are named after them.
        key : str, optional
            Idempotency key; a repeated call with the same key does not append again.
        **rows
            ``predictions``, ``labels``, ``weights``, ``groups``, ``scale`` and ``weights_kind``, by name; and ``class_names`` or
            ``pos_label``.

        Returns
        -------
        BatchRecord
            The record of a stored batch.

        Examples
        --------
        >>> stored = client.upload([0.1, 0.9], [0, 1])
        >>> client.append(stored.id, [0.4], [0]).n
        3
        """
        return await self._run(
            answered(
                with_class_rows(
                    self._patience,
                    path_of("batches", batch, "rows"),
                    rows,
                    {},
                    predictions,
                    [] if labels is None else [labels],
                    key=key,
                ),
                BatchRecord,
            )
        )

    async def append_distribution(
        self,
        batch: str | BatchRecord,
        observed: ArrayLike | None = None,
        *,
        key: str | None = None,
        **rows: Unpack[DistributionRows],
    ) -> BatchRecord:
        """Append predictive distributions to a stored batch; retries are idempotent.

        Parameters
        ----------
        batch : str or BatchRecord
            Id of the batch.
        observed : array_like, shape (n,), optional
            Outcomes.
        key : str, optional
            Idempotency key; a repeated call with the same key does not append again.
        **rows
            The forecasts: ``mean`` with ``variance`` or ``std``; ``quantiles`` with ``levels``; ``samples``; or ``lower``,
            ``upper`` and ``level``. Also ``weights``, ``weights_kind``, ``groups``, ``clusters``, ``by`` and ``times``.

        Returns
        -------
        BatchRecord
            The record of a stored batch.

        Examples
        --------
        >>> stored = client.upload_distribution([0.5], mean=[0.0], variance=[1.0])
        >>> client.append_distribution(stored.id, [0.2], mean=[0.0], variance=[1.0]).n
        2
        """
        return await self._run(
            answered(
                with_forecast_rows(self._patience, path_of("batches", batch, "rows"), rows, {}, observed, key=key),
                BatchRecord,
            )
        )

    async def evaluate(
        self,
        batch: str | BatchRecord | ArrayLike | None = None,
        *own_labels: ArrayLike,
        keep_batch: bool | None = None,
        source: Mapping[str, Any] | None = None,
        measures: Requested | None = None,
        reduction: str | None = None,
        interval: float | None = None,
        resamples: int | None = None,
        cluster_variance: str | None = None,
        seed: int | None = None,
        diagrams: Requested | None = None,
        classes: Sequence[int | str] | None = None,
        map: str | MapSummary | None = None,
        timeout: float | None = None,
        progress: Progress | None = None,
        **rows: Unpack[RowArguments],
    ) -> ReportAnswer:
        """Measure the calibration of a stored batch or of rows; with ``map``, before and after it.

        Parameters
        ----------
        batch : str, BatchRecord or array_like, optional
            A stored batch or its id; or predictions.
        *own_labels : array_like
            Labels, after predictions.
        keep_batch : bool, optional
            If rows in the request become a job: keep them as a batch, which the job names, for the setting batch_ttl;
            by default they are deleted when the job ends.
        source : mapping, optional
            Rows of files in a source, instead of the arrays; the request becomes a job. It has ``source``, ``path`` and
            ``columns``, and optionally ``where``, ``format`` and ``engine``.
        measures : sequence of str or mapping, optional
            Names of ``GET /measures``, or objects with name, options and ``as``, the key of the result.
        reduction : str, optional
            What is measured or calibrated, such as binary, confidence, classwise or class:2; requests may name the
            class, as in class:dog.
        interval : float, optional
            Confidence level; default: 0.95 for the default measures and comparisons, otherwise none.
        resamples : int, optional
            Number of resamples for intervals; by default ``1000``.
        cluster_variance : {"cr2", "cr1", "cr0"}, optional
            Variance of means and parameters from rows in clusters: cr2 with Satterthwaite's degrees of freedom, cr1
            with one less than clusters, or cr0 with normal quantiles; by default ``cr2``.
        seed : int, optional
            Random seed; by default ``0``.
        diagrams : sequence of str or mapping, optional
            Diagrams to return as data: names of ``GET /diagrams``, or objects with name, options and ``as``.
        classes : sequence of int, optional
            For (n, K): the classes to restrict predictions to.
        map : str or MapSummary, optional
            Id, name or name:version of a map to apply first.
        timeout : float, optional
            Seconds to wait for a job; by default there is no limit.
        progress : callable, optional
            Called with the job on every change.
        **rows
            ``predictions``, ``labels``, ``weights``, ``groups``, ``scale`` and ``weights_kind``, by name; and ``class_names`` or
            ``pos_label``.

        Returns
        -------
        ReportAnswer
            The response of ``POST /evaluate``.

        Raises
        ------
        JobFailed
            If the job failed or was cancelled.
        JobTimeout
            If the job has not ended after ``timeout`` seconds.

        Examples
        --------
        >>> report = client.evaluate(predictions=p, labels=y, measures=["ece", "brier"], interval=0.95)
        >>> list(report.measures), report.measures["ece"].interval is not None
        (['ece', 'brier'], True)
        """
        return await self._run(
            result_of(
                self._patience,
                with_class_rows(
                    self._patience,
                    "/evaluate",
                    rows,
                    {
                        "keep_batch": keep_batch,
                        "source": source,
                        "measures": measures,
                        "reduction": reduction,
                        "interval": interval,
                        "resamples": resamples,
                        "cluster_variance": cluster_variance,
                        "seed": seed,
                        "diagrams": diagrams,
                        "classes": classes,
                        "map": map,
                    },
                    batch,
                    own_labels,
                ),
                ReportAnswer,
                timeout,
                progress,
            )
        )

    async def power_law(
        self,
        batches: Sequence[str | BatchRecord],
        *,
        keep_batch: bool | None = None,
        measures: Requested | None = None,
        reduction: str | None = None,
        maps: str | MapSummary | Sequence[str | MapSummary] | None = None,
        interval: float | None = None,
        cluster_variance: str | None = None,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> ReportsAnswer:
        """Evaluate several stored batches, and relate their calibration and classification errors.

        Parameters
        ----------
        batches : sequence of str
            Ids of stored batches, instead of the arrays: one report each, and the power law for five or more.
        keep_batch : bool, optional
            If rows in the request become a job: keep them as a batch, which the job names, for the setting batch_ttl;
            by default they are deleted when the job ends.
        measures : sequence of str or mapping, optional
            Names of ``GET /measures``, or objects with name, options and ``as``, the key of the result.
        reduction : str, optional
            What is measured or calibrated, such as binary, confidence, classwise or class:2; requests may name the
            class, as in class:dog.
        maps : sequence of str, optional
            Maps to compare with each other and with the uncalibrated predictions.
        interval : float, optional
            Confidence level; default: 0.95 for the default measures and comparisons, otherwise none.
        cluster_variance : {"cr2", "cr1", "cr0"}, optional
            Variance of means and parameters from rows in clusters: cr2 with Satterthwaite's degrees of freedom, cr1
            with one less than clusters, or cr0 with normal quantiles; by default ``cr2``.
        timeout : float, optional
            Seconds to wait for a job; by default there is no limit.
        progress : callable, optional
            Called with the job on every change.

        Returns
        -------
        ReportsAnswer
            The response of ``POST /evaluate`` with ``batches``; power laws by contestant and measure, None below five.

        Raises
        ------
        JobFailed
            If the job failed or was cancelled.
        JobTimeout
            If the job has not ended after ``timeout`` seconds.

        Examples
        --------
        >>> stored = [client.upload(p, y).id for _ in range(2)]
        >>> [each.report.n for each in client.power_law(stored, measures=["ece"]).batches]
        [200, 200]
        """
        return await self._run(
            result_of(
                self._patience,
                with_class_rows(
                    self._patience,
                    "/evaluate",
                    {},
                    {
                        "keep_batch": keep_batch,
                        "measures": measures,
                        "reduction": reduction,
                        "maps": maps,
                        "interval": interval,
                        "cluster_variance": cluster_variance,
                        "batches": batches,
                    },
                ),
                ReportsAnswer,
                timeout,
                progress,
            )
        )

    async def report_html(
        self,
        batch: str | BatchRecord | ArrayLike | None = None,
        *own_labels: ArrayLike,
        costs: list[float] | None = None,
        capacity: float | None = None,
        precision: float | None = None,
        recall: float | None = None,
        keep_batch: bool | None = None,
        measures: Requested | None = None,
        reduction: str | None = None,
        interval: float | None = None,
        resamples: int | None = None,
        cluster_variance: str | None = None,
        seed: int | None = None,
        diagrams: Requested | None = None,
        classes: Sequence[int | str] | None = None,
        map: str | MapSummary | None = None,
        sets: str | None = None,
        grades: bool | None = None,
        timeout: float | None = None,
        progress: Progress | None = None,
        **rows: Unpack[RowArguments],
    ) -> str:
        """Create an HTML report of a stored batch or of rows, with a verdict and a recommended map.

        Parameters
        ----------
        batch : str, BatchRecord or array_like, optional
            A stored batch or its id; or predictions.
        *own_labels : array_like
            Labels, after predictions.
        costs : sequence of float, optional
            Criterion of the threshold: costs of a false positive and of a false negative.
        capacity : float, optional
            Criterion of the threshold: the most positive decisions, as a number of rows from 2, or a fraction below 1.
        precision : float, optional
            Criterion of the threshold: lower bound of the precision, guaranteed.
        recall : float, optional
            Criterion of the threshold: lower bound of the recall, guaranteed.
        keep_batch : bool, optional
            If rows in the request become a job: keep them as a batch, which the job names, for the setting batch_ttl;
            by default they are deleted when the job ends.
        measures : sequence of str or mapping, optional
            Names of ``GET /measures``, or objects with name, options and ``as``, the key of the result.
        reduction : str, optional
            What is measured or calibrated, such as binary, confidence, classwise or class:2; requests may name the
            class, as in class:dog.
        interval : float, optional
            Confidence level; default: 0.95 for the default measures and comparisons, otherwise none.
        resamples : int, optional
            Number of resamples for intervals; by default ``1000``.
        cluster_variance : {"cr2", "cr1", "cr0"}, optional
            Variance of means and parameters from rows in clusters: cr2 with Satterthwaite's degrees of freedom, cr1
            with one less than clusters, or cr0 with normal quantiles; by default ``cr2``.
        seed : int, optional
            Random seed; by default ``0``.
        diagrams : sequence of str or mapping, optional
            Diagrams to return as data: names of ``GET /diagrams``, or objects with name, options and ``as``.
        classes : sequence of int, optional
            For (n, K): the classes to restrict predictions to.
        map : str or MapSummary, optional
            Id, name or name:version of a map to apply first.
        sets : str, optional
            Map to prediction sets, whose coverage and sizes are a section of a report requested as HTML; its random
            numbers have the seed.
        grades : bool, optional
            Groups are rating grades, and predictions their PDs, whose tests are a section of a report requested as
            HTML.
        timeout : float, optional
            Seconds to wait for a job; by default there is no limit.
        progress : callable, optional
            Called with the job on every change.
        **rows
            ``predictions``, ``labels``, ``weights``, ``groups``, ``scale`` and ``weights_kind``, by name; and ``class_names`` or
            ``pos_label``.

        Returns
        -------
        str
            The HTML, which has no scripts and no external resources.

        Raises
        ------
        JobFailed
            If the job failed or was cancelled.
        JobTimeout
            If the job has not ended after ``timeout`` seconds.

        Examples
        --------
        >>> client.report_html(predictions=p, labels=y).startswith("<!doctype html>")
        True
        """
        return await self._run(
            html(
                self._patience,
                with_class_rows(
                    self._patience,
                    "/evaluate",
                    rows,
                    {
                        "costs": costs,
                        "capacity": capacity,
                        "precision": precision,
                        "recall": recall,
                        "keep_batch": keep_batch,
                        "measures": measures,
                        "reduction": reduction,
                        "interval": interval,
                        "resamples": resamples,
                        "cluster_variance": cluster_variance,
                        "seed": seed,
                        "diagrams": diagrams,
                        "classes": classes,
                        "map": map,
                        "sets": sets,
                        "grades": grades,
                    },
                    batch,
                    own_labels,
                    accept="text/html",
                ),
                timeout,
                progress,
            )
        )

    async def evaluate_distribution(
        self,
        observed: ArrayLike | BatchRecord | None = None,
        *,
        batch: str | BatchRecord | None = None,
        keep_batch: bool | None = None,
        measures: Requested | None = None,
        diagrams: Requested | None = None,
        map: str | MapSummary | None = None,
        against: Sequence[str | BatchRecord] | None = None,
        score: str | None = None,
        lags: int | None = None,
        interval: float | None = None,
        seed: int | None = None,
        timeout: float | None = None,
        progress: Progress | None = None,
        **rows: Unpack[DistributionRows],
    ) -> DistributionReportAnswer:
        """Score predictive distributions and measure their calibration; with ``map``, also after it.

        Parameters
        ----------
        observed : array_like, shape (n,), or str or BatchRecord, optional
            Outcomes; or a stored batch.
        batch : str or BatchRecord, optional
            Id of a stored batch, instead of the arrays.
        keep_batch : bool, optional
            If rows in the request become a job: keep them as a batch, which the job names, for the setting batch_ttl;
            by default they are deleted when the job ends.
        measures : sequence of str or mapping, optional
            Default: some that suit the kind of forecasts.
        diagrams : sequence of str or mapping, optional
            Names, or objects with name, options and ``as``.
        map : str or MapSummary, optional
            Id, name or name:version of a map to apply first.
        against : sequence of str, optional
            Ids of stored batches with other forecasts of the same outcomes, to compare.
        score : str, optional
            Of a comparison; default: one that all forecasts have.
        lags : int, optional
            Of a comparison of rows in time order: at least h - 1 for h steps ahead; by default ``0``.
        interval : float, optional
            Confidence level; default: none, but 0.95 of a comparison.
        seed : int, optional
            Random seed; by default ``0``.
        timeout : float, optional
            Seconds to wait for a job; by default there is no limit.
        progress : callable, optional
            Called with the job on every change.
        **rows
            The forecasts: ``mean`` with ``variance`` or ``std``; ``quantiles`` with ``levels``; ``samples``; or ``lower``,
            ``upper`` and ``level``. Also ``weights``, ``weights_kind``, ``groups``, ``clusters``, ``by`` and ``times``.

        Returns
        -------
        DistributionReportAnswer
            The response of ``POST /evaluate`` for predictive distributions of a number.

        Raises
        ------
        JobFailed
            If the job failed or was cancelled.
        JobTimeout
            If the job has not ended after ``timeout`` seconds.

        Examples
        --------
        >>> report = client.evaluate_distribution([0.0, 1.0, 3.0], mean=[0.0, 0.0, 2.0], variance=[1.0, 1.0, 4.0])
        >>> round(report.measures["crps"].value, 3)
        0.5
        """
        return await self._run(
            result_of(
                self._patience,
                with_forecast_rows(
                    self._patience,
                    "/evaluate",
                    rows,
                    {
                        "batch": batch,
                        "keep_batch": keep_batch,
                        "measures": measures,
                        "diagrams": diagrams,
                        "map": map,
                        "against": against,
                        "score": score,
                        "lags": lags,
                        "interval": interval,
                        "seed": seed,
                    },
                    observed,
                ),
                DistributionReportAnswer,
                timeout,
                progress,
            )
        )

    async def distribution_report_html(
        self,
        observed: ArrayLike | BatchRecord | None = None,
        *,
        batch: str | BatchRecord | None = None,
        keep_batch: bool | None = None,
        map: str | MapSummary | None = None,
        seed: int | None = None,
        timeout: float | None = None,
        progress: Progress | None = None,
        **rows: Unpack[DistributionRows],
    ) -> str:
        """Create an HTML report of predictive distributions, with a fan chart if there are ``times``.

        Parameters
        ----------
        observed : array_like, shape (n,), or str or BatchRecord, optional
            Outcomes; or a stored batch.
        batch : str or BatchRecord, optional
            Id of a stored batch, instead of the arrays.
        keep_batch : bool, optional
            If rows in the request become a job: keep them as a batch, which the job names, for the setting batch_ttl;
            by default they are deleted when the job ends.
        map : str or MapSummary, optional
            Id, name or name:version of a map to apply first.
        seed : int, optional
            Random seed; by default ``0``.
        timeout : float, optional
            Seconds to wait for a job; by default there is no limit.
        progress : callable, optional
            Called with the job on every change.
        **rows
            The forecasts: ``mean`` with ``variance`` or ``std``; ``quantiles`` with ``levels``; ``samples``; or ``lower``,
            ``upper`` and ``level``. Also ``weights``, ``weights_kind``, ``groups``, ``clusters``, ``by`` and ``times``.

        Returns
        -------
        str
            The HTML, which has no scripts and no external resources.

        Raises
        ------
        JobFailed
            If the job failed or was cancelled.
        JobTimeout
            If the job has not ended after ``timeout`` seconds.

        Examples
        --------
        >>> client.distribution_report_html([0.0, 1.0, 3.0], mean=[0.0, 0.0, 2.0], variance=[1.0, 1.0, 4.0])[:15]
        '<!doctype html>'
        """
        return await self._run(
            html(
                self._patience,
                with_forecast_rows(
                    self._patience,
                    "/evaluate",
                    rows,
                    {"batch": batch, "keep_batch": keep_batch, "map": map, "seed": seed},
                    observed,
                    accept="text/html",
                ),
                timeout,
                progress,
            )
        )

    async def compare(
        self,
        batch: str | BatchRecord | ArrayLike | None = None,
        *own_labels: Any,
        models: Mapping[str, Any] | None = None,
        keep_batch: bool | None = None,
        source: Mapping[str, Any] | None = None,
        measures: Requested | None = None,
        reduction: str | None = None,
        maps: str | MapSummary | Sequence[str | MapSummary] | None = None,
        of: str | None = None,
        interval: float | None = None,
        resamples: int | None = None,
        cluster_variance: str | None = None,
        seed: int | None = None,
        batches: Mapping[str, str | BatchRecord] | None = None,
        rank_by: str | None = None,
        correction: str | None = None,
        timeout: float | None = None,
        progress: Progress | None = None,
        **rows: Unpack[RowArguments],
    ) -> ReportAnswer:
        """Compare several models on the same rows, or stored maps with each other and with the uncalibrated predictions.

        Parameters
        ----------
        batch : str, BatchRecord or array_like, optional
            A stored batch or its id; or predictions.
        *own_labels : array_like, and sequence of str
            Labels, after predictions; then maps.
        models : mapping, optional
            Predictions of the models by name; each P(Y=1) of each row, or K class probabilities each. In other formats
            than JSON, arrays or columns named ``models/NAME``.
        keep_batch : bool, optional
            If rows in the request become a job: keep them as a batch, which the job names, for the setting batch_ttl;
            by default they are deleted when the job ends.
        source : mapping, optional
            Rows of files in a source, instead of the arrays; the request becomes a job. It has ``source``, ``path`` and
            ``columns``, and optionally ``where``, ``format`` and ``engine``.
        measures : sequence of str or mapping, optional
            Names of ``GET /measures``, or objects with name, options and ``as``, the key of the result.
        reduction : str, optional
            What is measured or calibrated, such as binary, confidence, classwise or class:2; requests may name the
            class, as in class:dog.
        maps : sequence of str, optional
            Maps to compare with each other and with the uncalibrated predictions.
        of : {"debiased", "plain"}, optional
            For a comparison: compare debiased values, if every contestant has one, or plain ones; by default
            ``debiased``.
        interval : float, optional
            Confidence level; default: 0.95 for the default measures and comparisons, otherwise none.
        resamples : int, optional
            Number of resamples for intervals; by default ``1000``.
        cluster_variance : {"cr2", "cr1", "cr0"}, optional
            Variance of means and parameters from rows in clusters: cr2 with Satterthwaite's degrees of freedom, cr1
            with one less than clusters, or cr0 with normal quantiles; by default ``cr2``.
        seed : int, optional
            Random seed; by default ``0``.
        batches : mapping, optional
            Ids of stored batches by the name of the model, instead of ``models``; they have the same labels and
            weights.
        rank_by : {"log-loss", "brier"}, optional
            Proper score that ranks; default for models: log-loss, or brier if a label had probability 0.
        correction : {"max-t", "holm"}, optional
            Correction for all pairs of a measure; default: holm, but max-t for maps.
        timeout : float, optional
            Seconds to wait for a job; by default there is no limit.
        progress : callable, optional
            Called with the job on every change.
        **rows
            ``predictions``, ``labels``, ``weights``, ``groups``, ``scale`` and ``weights_kind``, by name; and ``class_names`` or
            ``pos_label``.

        Returns
        -------
        ReportAnswer
            The response of ``POST /evaluate``.

        Raises
        ------
        JobFailed
            If the job failed or was cancelled.
        JobTimeout
            If the job has not ended after ``timeout`` seconds.

        Examples
        --------
        >>> report = client.compare(models={"forest": p, "coin": [0.5] * len(p)}, labels=y)
        >>> report.comparison.rank_by, len(report.comparison.measures["auroc"].pairs)
        ('log-loss', 1)

        >>> report = client.compare(maps=["spam:1"], predictions=p, labels=y, measures=["brier"])
        >>> [contestant.name for contestant in report.comparison.contestants]
        ['uncalibrated', 'spam:1']
        """
        return await self._run(
            result_of(
                self._patience,
                with_class_rows(
                    self._patience,
                    "/compare",
                    rows,
                    {
                        "models": models,
                        "keep_batch": keep_batch,
                        "source": source,
                        "measures": measures,
                        "reduction": reduction,
                        "maps": maps,
                        "of": of,
                        "interval": interval,
                        "resamples": resamples,
                        "cluster_variance": cluster_variance,
                        "seed": seed,
                        "batches": batches,
                        "rank_by": rank_by,
                        "correction": correction,
                    },
                    batch,
                    own_labels,
                ),
                ReportAnswer,
                timeout,
                progress,
            )
        )

    async def comparison_report_html(
        self,
        batch: str | BatchRecord | ArrayLike | None = None,
        *own_labels: Any,
        models: Mapping[str, Any] | None = None,
        costs: list[float] | None = None,
        capacity: float | None = None,
        precision: float | None = None,
        recall: float | None = None,
        keep_batch: bool | None = None,
        source: Mapping[str, Any] | None = None,
        measures: Requested | None = None,
        reduction: str | None = None,
        maps: str | MapSummary | Sequence[str | MapSummary] | None = None,
        of: str | None = None,
        interval: float | None = None,
        resamples: int | None = None,
        cluster_variance: str | None = None,
        seed: int | None = None,
        batches: Mapping[str, str | BatchRecord] | None = None,
        rank_by: str | None = None,
        correction: str | None = None,
        timeout: float | None = None,
        progress: Progress | None = None,
        **rows: Unpack[RowArguments],
    ) -> str:
        """Create an HTML report of several models on the same rows, or of stored maps.

        Parameters
        ----------
        batch : str, BatchRecord or array_like, optional
            A stored batch or its id; or predictions.
        *own_labels : array_like, and sequence of str
            Labels, after predictions; then maps.
        models : mapping, optional
            Predictions of the models by name; each P(Y=1) of each row, or K class probabilities each. In other formats
            than JSON, arrays or columns named ``models/NAME``.
        costs : sequence of float, optional
            Criterion of the threshold: costs of a false positive and of a false negative.
        capacity : float, optional
            Criterion of the threshold: the most positive decisions, as a number of rows from 2, or a fraction below 1.
        precision : float, optional
            Criterion of the threshold: lower bound of the precision, guaranteed.
        recall : float, optional
            Criterion of the threshold: lower bound of the recall, guaranteed.
        keep_batch : bool, optional
            If rows in the request become a job: keep them as a batch, which the job names, for the setting batch_ttl;
            by default they are deleted when the job ends.
        source : mapping, optional
            Rows of files in a source, instead of the arrays; the request becomes a job. It has ``source``, ``path`` and
            ``columns``, and optionally ``where``, ``format`` and ``engine``.
        measures : sequence of str or mapping, optional
            Names of ``GET /measures``, or objects with name, options and ``as``, the key of the result.
        reduction : str, optional
            What is measured or calibrated, such as binary, confidence, classwise or class:2; requests may name the
            class, as in class:dog.
        maps : sequence of str, optional
            Maps to compare with each other and with the uncalibrated predictions.
        of : {"debiased", "plain"}, optional
            For a comparison: compare debiased values, if every contestant has one, or plain ones; by default
            ``debiased``.
        interval : float, optional
            Confidence level; default: 0.95 for the default measures and comparisons, otherwise none.
        resamples : int, optional
            Number of resamples for intervals; by default ``1000``.
        cluster_variance : {"cr2", "cr1", "cr0"}, optional
            Variance of means and parameters from rows in clusters: cr2 with Satterthwaite's degrees of freedom, cr1
            with one less than clusters, or cr0 with normal quantiles; by default ``cr2``.
        seed : int, optional
            Random seed; by default ``0``.
        batches : mapping, optional
            Ids of stored batches by the name of the model, instead of ``models``; they have the same labels and
            weights.
        rank_by : {"log-loss", "brier"}, optional
            Proper score that ranks; default for models: log-loss, or brier if a label had probability 0.
        correction : {"max-t", "holm"}, optional
            Correction for all pairs of a measure; default: holm, but max-t for maps.
        timeout : float, optional
            Seconds to wait for a job; by default there is no limit.
        progress : callable, optional
            Called with the job on every change.
        **rows
            ``predictions``, ``labels``, ``weights``, ``groups``, ``scale`` and ``weights_kind``, by name; and ``class_names`` or
            ``pos_label``.

        Returns
        -------
        str
            The HTML, which has no scripts and no external resources.

        Raises
        ------
        JobFailed
            If the job failed or was cancelled.
        JobTimeout
            If the job has not ended after ``timeout`` seconds.

        Examples
        --------
        >>> client.comparison_report_html(models={"forest": p, "coin": [0.5] * len(p)}, labels=y)[:15]
        '<!doctype html>'
        """
        return await self._run(
            html(
                self._patience,
                with_class_rows(
                    self._patience,
                    "/compare",
                    rows,
                    {
                        "models": models,
                        "costs": costs,
                        "capacity": capacity,
                        "precision": precision,
                        "recall": recall,
                        "keep_batch": keep_batch,
                        "source": source,
                        "measures": measures,
                        "reduction": reduction,
                        "maps": maps,
                        "of": of,
                        "interval": interval,
                        "resamples": resamples,
                        "cluster_variance": cluster_variance,
                        "seed": seed,
                        "batches": batches,
                        "rank_by": rank_by,
                        "correction": correction,
                    },
                    batch,
                    own_labels,
                    accept="text/html",
                ),
                timeout,
                progress,
            )
        )

    async def grade_tests(
        self,
        batch: str | BatchRecord | ArrayLike | None = None,
        *own_labels: ArrayLike,
        table: Sequence[Mapping[str, Any]] | None = None,
        correlation: float | None = None,
        confidence: float | None = None,
        **rows: Unpack[RowArguments],
    ) -> GradesAnswer:
        """Test whether the default probabilities (PDs) of rating grades are too low.

        Parameters
        ----------
        batch : str, BatchRecord or array_like, optional
            A stored batch or its id; or predictions.
        *own_labels : array_like
            Labels, after predictions.
        table : sequence of mapping, optional
            A table of grades, instead of rows of obligors.
        correlation : float, optional
            Asset correlation of the one-factor model, beside independent defaults.
        confidence : float, optional
            Confidence of prudent PDs; default: none.
        **rows
            ``predictions``, ``labels``, ``weights``, ``groups``, ``scale`` and ``weights_kind``, by name; and ``class_names`` or
            ``pos_label``.

        Returns
        -------
        GradesAnswer
            The response of ``POST /grades``.

        Examples
        --------
        >>> result = client.grade_tests(table=[{"grade": "A", "n": 1000, "defaults": 16, "pd": 0.01}])
        >>> round(result.grades[0].jeffreys_p, 5)
        0.03577
        """
        return await self._run(
            answered(
                with_class_rows(
                    self._patience,
                    "/grades",
                    rows,
                    {"table": table, "correlation": correlation, "confidence": confidence},
                    batch,
                    own_labels,
                ),
                GradesAnswer,
            )
        )

    async def fit_distribution(
        self,
        method: str = "averaged",
        observed: ArrayLike | BatchRecord | None = None,
        *,
        batch: str | BatchRecord | None = None,
        description: str | None = None,
        tags: Mapping[str, Any] | None = None,
        name: str | None = None,
        allow_shape_change: bool | None = None,
        options: Mapping[str, Any] | None = None,
        keep_batch: bool | None = None,
        scale: str | None = None,
        support: tuple[float | None, float | None] | None = None,
        output_levels: Sequence[float] | None = None,
        seed: int | None = None,
        timeout: float | None = None,
        progress: Progress | None = None,
        **rows: Unpack[DistributionRows],
    ) -> MapRecord:
        """Fit a calibration map of predictive distributions, and wait for it; a group is in one fold.

        Parameters
        ----------
        method : str
            Method, from ``GET /methods?prediction_kind=regression``; by default ``averaged``.
        observed : array_like, shape (n,), or str or BatchRecord, optional
            Outcomes; or a stored batch.
        batch : str or BatchRecord, optional
            Id of a stored batch, instead of the arrays.
        description : str, optional
            Free text.
        tags : mapping, optional
            Up to 32 short strings by name.
        name : str, optional
            Name of the map; a name in use gets its next version.
        allow_shape_change : bool, optional
            Allow the shape of the output to differ from that of the newest map with this name.
        options : mapping, optional
            Options of the method.
        keep_batch : bool, optional
            If rows in the request become a job: keep them as a batch, which the job names, for the setting batch_ttl;
            by default they are deleted when the job ends.
        scale : {"identity", "log1p"}, optional
            Scale on which forecasts are shifted, widened and interpolated; log1p is ln(1 + x); by default ``identity``.
        support : sequence of float, optional
            Lowest and highest possible outcome, such as [0, None] for counts.
        output_levels : sequence of float, optional
            Levels of the quantiles that quantile-recalibration and conformal return for normal forecasts and samples.
        seed : int, optional
            Random seed; by default ``0``.
        timeout : float, optional
            Seconds to wait for a job; by default there is no limit.
        progress : callable, optional
            Called with the job on every change.
        **rows
            The forecasts: ``mean`` with ``variance`` or ``std``; ``quantiles`` with ``levels``; ``samples``; or ``lower``,
            ``upper`` and ``level``. Also ``weights``, ``weights_kind``, ``groups``, ``clusters``, ``by`` and ``times``.

        Returns
        -------
        MapRecord
            A stored map: its summary, the bins of its fit, and its document.

        Raises
        ------
        JobFailed
            If the job failed or was cancelled.
        JobTimeout
            If the job has not ended after ``timeout`` seconds.

        Examples
        --------
        >>> fitted = client.fit_distribution("variance-scaling", [1.0, -3.0], mean=[0.0, 0.0], variance=[1.0, 1.0])
        >>> fitted.document["parameters"]
        {'factor': 5.0, 'offset': 0.0}
        """
        return await self._run(
            fitted(
                self._patience,
                with_forecast_rows(
                    self._patience,
                    "/maps",
                    rows,
                    {
                        "batch": batch,
                        "description": description,
                        "tags": tags,
                        "name": name,
                        "allow_shape_change": allow_shape_change,
                        "method": method,
                        "options": options,
                        "keep_batch": keep_batch,
                        "scale": scale,
                        "support": support,
                        "output_levels": output_levels,
                        "seed": seed,
                    },
                    observed,
                ),
                timeout,
                progress,
            )
        )

    async def describe(self, map: str | MapSummary, **changes: Unpack[MapChanges]) -> MapRecord:
        """Change what callers say about a map; None removes a value, or a tag.

        Parameters
        ----------
        map : str or MapSummary
            Id of a map, a name (its newest version), name:version or name@alias.
        **changes
            New values of ``description`` and ``tags``; others are kept, and None removes a value.

        Returns
        -------
        MapRecord
            A stored map: its summary, the bins of its fit, and its document.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-map``.

        Examples
        --------
        >>> client.describe("spam", tags={"stage": "shadow"}).tags
        {'stage': 'shadow'}
        """
        return await self._run(
            changed(self._patience, path_of("maps", map), changes, MapChanges.__annotations__, MapRecord)
        )

    async def find_segments(
        self,
        batch: str | BatchRecord | ArrayLike | None = None,
        *own_labels: ArrayLike,
        max_order: int | None = None,
        n_bins: int | None = None,
        min_rows: int | None = None,
        n_segments: int | None = None,
        confidence: float | None = None,
        held_out: float | None = None,
        reduction: str | None = None,
        seed: int | None = None,
        **rows: Unpack[RowArguments],
    ) -> SegmentsAnswer:
        """Find segments of features in which the mean label differs from the mean prediction.

        Parameters
        ----------
        batch : str, BatchRecord or array_like, optional
            A stored batch or its id; or predictions.
        *own_labels : array_like
            Labels, after predictions.
        max_order : int, optional
            The most features of a segment; the prediction counts as one; by default ``2``.
        n_bins : int, optional
            Bins of numbers and of the prediction; by default ``10``.
        min_rows : int, optional
            Rows that a segment needs; default: 50, and of many rows a thousandth.
        n_segments : int, optional
            The most segments in the answer; by default ``20``.
        confidence : float, optional
            Confidence that no segment is listed without a gap; by default ``0.95``.
        held_out : float, optional
            Share of the rows, drawn at random, that test segments found in the others; default: none.
        reduction : str, optional
            What is measured or calibrated, such as binary, confidence, classwise or class:2; requests may name the
            class, as in class:dog.
        seed : int, optional
            Seed of the random numbers; by default ``0``.
        **rows
            ``predictions``, ``labels``, ``weights``, ``groups``, ``scale`` and ``weights_kind``, by name; and ``class_names`` or
            ``pos_label``.

        Returns
        -------
        SegmentsAnswer
            The response of ``POST /segments``.

        Examples
        --------
        >>> result = client.find_segments([0.5] * 400, [0, 1] * 100 + [1, 1, 1, 0] * 50,
        ...                               features={"site": ["a"] * 200 + ["b"] * 200})
        >>> [(segment.conditions[0].category, segment.gap) for segment in result.segments]
        [('b', 0.25)]
        """
        return await self._run(
            answered(
                with_class_rows(
                    self._patience,
                    "/segments",
                    rows,
                    {
                        "max_order": max_order,
                        "n_bins": n_bins,
                        "min_rows": min_rows,
                        "n_segments": n_segments,
                        "confidence": confidence,
                        "held_out": held_out,
                        "reduction": reduction,
                        "seed": seed,
                    },
                    batch,
                    own_labels,
                ),
                SegmentsAnswer,
            )
        )

    async def multicalibration_error(
        self,
        batch: str | BatchRecord | ArrayLike | None = None,
        *own_labels: ArrayLike,
        max_depth: int | None = None,
        max_values: int | None = None,
        min_rows: int | None = None,
        n_segments: int | None = None,
        ties: str | None = None,
        resamples: int | None = None,
        reduction: str | None = None,
        seed: int | None = None,
        **rows: Unpack[RowArguments],
    ) -> MulticalibrationAnswer:
        """Measure the largest miscalibration over segments of features, in units of its deviation under calibration.

        Parameters
        ----------
        batch : str, BatchRecord or array_like, optional
            A stored batch or its id; or predictions.
        *own_labels : array_like
            Labels, after predictions.
        max_depth : int, optional
            The most features of a segment; by default ``3``.
        max_values : int, optional
            The most values, or bins, of a feature; by default ``3``.
        min_rows : int, optional
            Rows that a segment needs; by default ``10``.
        n_segments : int, optional
            The most segments, in parts of 50; by default ``1000``.
        ties : {"merged", "rows"}, optional
            Whether equal predictions are one step of the cumulative difference, or each row is; by default ``merged``.
        resamples : int, optional
            Sets of labels that are drawn for the p-value; None for none; by default ``1000``.
        reduction : str, optional
            What is measured or calibrated, such as binary, confidence, classwise or class:2; requests may name the
            class, as in class:dog.
        seed : int, optional
            Seed of the labels that are drawn; by default ``0``.
        **rows
            ``predictions``, ``labels``, ``weights``, ``groups``, ``scale`` and ``weights_kind``, by name; and ``class_names`` or
            ``pos_label``.

        Returns
        -------
        MulticalibrationAnswer
            The response of ``POST /multicalibration``.

        Examples
        --------
        >>> result = client.multicalibration_error([0.5] * 40, [0, 1] * 10 + [1] * 20,
        ...                                        features={"site": ["a"] * 20 + ["b"] * 20})
        >>> result.segment, round(result.value, 3)
        ({'site': 'b'}, 4.472)
        """
        return await self._run(
            answered(
                with_class_rows(
                    self._patience,
                    "/multicalibration",
                    rows,
                    {
                        "max_depth": max_depth,
                        "max_values": max_values,
                        "min_rows": min_rows,
                        "n_segments": n_segments,
                        "ties": ties,
                        "resamples": resamples,
                        "reduction": reduction,
                        "seed": seed,
                    },
                    batch,
                    own_labels,
                ),
                MulticalibrationAnswer,
            )
        )

    async def diagram(
        self,
        diagram: str | Mapping[str, Any] = "reliability",
        batch: str | BatchRecord | ArrayLike | None = None,
        *own_labels: ArrayLike,
        theme: Theme | None = None,
        width: int | None = None,
        batches: Sequence[str | BatchRecord] | None = None,
        source: Mapping[str, Any] | None = None,
        reduction: str | None = None,
        classes: Sequence[int | str] | None = None,
        map: str | MapSummary | None = None,
        interval: float | None = None,
        resamples: int | None = None,
        seed: int | None = None,
        form: Form = "svg",
        timeout: float | None = None,
        progress: Progress | None = None,
        **rows: Unpack[RowArguments],
    ) -> bytes:
        """Draw a diagram of a stored batch or of rows; with ``map``, before and after it.

        Parameters
        ----------
        diagram : str or mapping
            Name of a diagram, or an object with name and options; also by-size and, for two batches, cost-plane; by
            default ``reliability``.
        batch : str, BatchRecord or array_like, optional
            A stored batch or its id; or predictions.
        *own_labels : array_like
            Labels, after predictions.
        theme : {"auto", "light", "dark"}, optional
            Auto follows the reader's system preference, in SVG only; a PNG is then light; by default ``auto``.
        width : int, optional
            Width in pixels; a PNG has twice this width and height, for sharp displays; by default ``560``.
        batches : sequence of str, optional
            Ids of stored batches, instead of the arrays: one panel each.
        source : mapping, optional
            Rows of files in a source, instead of the arrays; the request becomes a job. It has ``source``, ``path`` and
            ``columns``, and optionally ``where``, ``format`` and ``engine``.
        reduction : str, optional
            What is measured or calibrated, such as binary, confidence, classwise or class:2; requests may name the
            class, as in class:dog.
        classes : sequence of int, optional
            For (n, K): the classes to restrict predictions to.
        map : str or MapSummary, optional
            Draw the diagram before and after this map, overlaid.
        interval : float, optional
            Confidence level of the interval in the title; by default ``0.95``.
        resamples : int, optional
            Number of resamples for intervals; by default ``1000``.
        seed : int, optional
            Random seed; by default ``0``.
        form : {"svg", "png"}
            Format.
        timeout : float, optional
            Seconds to wait for a job; by default there is no limit.
        progress : callable, optional
            Called with the job on every change.
        **rows
            ``predictions``, ``labels``, ``weights``, ``groups``, ``scale`` and ``weights_kind``, by name; and ``class_names`` or
            ``pos_label``.

        Returns
        -------
        bytes
            The picture.

        Raises
        ------
        JobFailed
            If the job failed or was cancelled.
        JobTimeout
            If the job has not ended after ``timeout`` seconds.

        Examples
        --------
        >>> client.diagram("reliability", predictions=p, labels=y, form="png")[1:4]
        b'PNG'
        """
        return await self._run(
            picture(
                self._patience,
                with_class_rows(
                    self._patience,
                    "/diagrams",
                    rows,
                    {
                        "theme": theme,
                        "width": width,
                        "diagram": diagram,
                        "batches": batches,
                        "source": source,
                        "reduction": reduction,
                        "classes": classes,
                        "map": map,
                        "interval": interval,
                        "resamples": resamples,
                        "seed": seed,
                    },
                    batch,
                    own_labels,
                    accept=media_of(form),
                ),
                form,
                {"theme": theme, "width": width},
                timeout,
                progress,
            )
        )

    async def distribution_diagram(
        self,
        diagram: str | Mapping[str, Any] = "coverage",
        observed: ArrayLike | BatchRecord | None = None,
        *,
        batch: str | BatchRecord | None = None,
        theme: Theme | None = None,
        width: int | None = None,
        map: str | MapSummary | None = None,
        seed: int | None = None,
        form: Form = "svg",
        timeout: float | None = None,
        progress: Progress | None = None,
        **rows: Unpack[DistributionRows],
    ) -> bytes:
        """Draw a diagram of predictive distributions; a ``fan`` is in the order of ``times``.

        Parameters
        ----------
        diagram : str or mapping
            Name of a diagram, or an object with name and options; by default ``coverage``.
        observed : array_like, shape (n,), or str or BatchRecord, optional
            Outcomes; or a stored batch.
        batch : str or BatchRecord, optional
            Id of a stored batch, instead of the arrays.
        theme : {"auto", "light", "dark"}, optional
            Auto follows the reader's system preference, in SVG only; a PNG is then light; by default ``auto``.
        width : int, optional
            Width in pixels; a PNG has twice this width and height, for sharp displays; by default ``560``.
        map : str or MapSummary, optional
            Draw the diagram before and after this map, overlaid.
        seed : int, optional
            Random seed; by default ``0``.
        form : {"svg", "png"}
            Format.
        timeout : float, optional
            Seconds to wait for a job; by default there is no limit.
        progress : callable, optional
            Called with the job on every change.
        **rows
            The forecasts: ``mean`` with ``variance`` or ``std``; ``quantiles`` with ``levels``; ``samples``; or ``lower``,
            ``upper`` and ``level``. Also ``weights``, ``weights_kind``, ``groups``, ``clusters``, ``by`` and ``times``.

        Returns
        -------
        bytes
            The picture.

        Raises
        ------
        JobFailed
            If the job failed or was cancelled.
        JobTimeout
            If the job has not ended after ``timeout`` seconds.

        Examples
        --------
        >>> client.distribution_diagram("pit", [0.0, 3.0], mean=[0.0, 2.0], variance=[1.0, 4.0], form="png")[1:4]
        b'PNG'
        """
        return await self._run(
            picture(
                self._patience,
                with_forecast_rows(
                    self._patience,
                    "/diagrams",
                    rows,
                    {"batch": batch, "theme": theme, "width": width, "diagram": diagram, "map": map, "seed": seed},
                    observed,
                    accept=media_of(form),
                ),
                form,
                {"theme": theme, "width": width},
                timeout,
                progress,
            )
        )

    async def create_monitor(
        self,
        name: str,
        *,
        description: str | None = None,
        windows: Sequence[Mapping[str, Any]] | None = None,
        measures: Requested | None = None,
        interval: float | None = None,
        rules: Sequence[Mapping[str, Any]] | None = None,
        reference: Mapping[str, Any] | None = None,
        hooks: Sequence[Mapping[str, Any]] | None = None,
        recalibration: Mapping[str, Any] | None = None,
        retention: int | None = None,
        prediction_kind: str | None = None,
        forecast: Mapping[str, Any] | None = None,
        reduction: str | None = None,
        n_classes: int | None = None,
        coverage: float | None = None,
        scale: str | None = None,
        map: str | MapSummary | None = None,
        bucket: int | None = None,
        horizon: int | None = None,
        skew: int | None = None,
        max_groups: int | None = None,
        max_ids: int | None = None,
        reservoir: int | None = None,
    ) -> MonitorAnswer:
        """Create a monitor of a live model: its predictions, groups, windows, measures, rules and hooks.

        Parameters
        ----------
        name : str
            Name of the monitor.
        description : str, optional
            Free text.
        windows : sequence of mapping, optional
            Windows of the monitor.
        measures : sequence of str or mapping, optional
            Names of measures, or objects with a name, options and ``as``.
        interval : float, optional
            Level of the intervals; by default ``0.95``.
        rules : sequence of mapping, optional
            Alarm rules.
        reference : mapping, optional
            Rows that windows are compared with. It has optionally ``start``, ``end`` and ``batch``.
        hooks : sequence of mapping, optional
            Webhooks to which alarms are delivered.
        recalibration : mapping, optional
            What follows an alarm. It has optionally ``policy``, ``name``, ``alias``, ``method``, ``options``,
            ``window``, ``after``, ``level``, ``least_rows``, ``pause`` and ``every``.
        retention : int, optional
            Seconds that buckets are kept; at least the horizon and the longest window, at most 10,000 buckets; default
            of a new monitor: 90 days, or 10,000 buckets if that is shorter.
        prediction_kind : {"classification", "regression"}, optional
            ``regression``: rows have forecasts of a number, and observed outcomes; by default ``classification``.
        forecast : mapping, optional
            For ``regression``: form of the forecasts. It has ``kind``, and optionally ``levels``, ``level`` and
            ``n_samples``.
        reduction : str, optional
            Binary (default for one column), confidence (default for several), class:k or top:r.
        n_classes : int, optional
            K, for predictions of several columns.
        coverage : float, optional
            Nominal coverage of prediction sets of ``n_classes`` classes; the prediction of a row is then K numbers, 1
            if its set has the class and 0 if not, and the counted event is that the set has the label.
        scale : {"probability", "logit"}, optional
            Scale of the predictions; by default ``probability``.
        map : str or MapSummary, optional
            Map that is applied to rows on arrival, in its state at that time.
        bucket : int, optional
            Length of a time bucket in seconds; default: 1/24 of the shortest window.
        horizon : int, optional
            Seconds that predictions wait for labels; ids are kept for ``skew`` seconds more; default: 30 days, or the
            retention if that is shorter.
        skew : int, optional
            Seconds that the time of a row may lie in the future; by default ``300``.
        max_groups : int, optional
            Maximum number of groups; further groups are counted as ``(other)``; by default ``100``.
        max_ids : int, optional
            Maximum number of ids stored at a time; by default ``10000000``.
        reservoir : int, optional
            For K classes: number of rows of each time window, and of the reference, whose vectors are kept as a uniform
            sample, from which the label shift of all classes is estimated; at most 1,000,000 / K.

        Returns
        -------
        MonitorAnswer
            A monitor as callers see it; a hook has its secret only in the response that generated it.

        Raises
        ------
        ProblemResponse
            With the code ``invalid-option``, ``hook-refused``, ``unknown-map-reference``, ``unknown-batch-reference``,
            ``unknown-measure``, ``unknown-method``, ``unknown-reduction``, ``scale-mismatch``, ``out-of-range``,
            ``prediction-kind-mismatch``, ``wrong-shape``, ``no-labels``, ``monitor-exists`` or ``quota-exceeded``.

        Examples
        --------
        >>> made = client.create_monitor("inbox", windows=[{"name": "day", "seconds": 86400}], measures=["ece", "ks"])
        >>> [window.name for window in made.windows]
        ['day']
        """
        return await self._run(
            answered(
                send(
                    self._patience,
                    with_fields(
                        "POST",
                        path_of("monitors"),
                        {
                            "description": description,
                            "windows": windows,
                            "measures": measures,
                            "interval": interval,
                            "rules": rules,
                            "reference": reference,
                            "hooks": hooks,
                            "recalibration": recalibration,
                            "retention": retention,
                            "name": name,
                            "prediction_kind": prediction_kind,
                            "forecast": forecast,
                            "reduction": reduction,
                            "n_classes": n_classes,
                            "coverage": coverage,
                            "scale": scale,
                            "map": map_reference(map),
                            "bucket": bucket,
                            "horizon": horizon,
                            "skew": skew,
                            "max_groups": max_groups,
                            "max_ids": max_ids,
                            "reservoir": reservoir,
                        },
                    ),
                ),
                MonitorAnswer,
            )
        )

    async def change_monitor(self, name: str, **changes: Unpack[MonitorPatch]) -> MonitorAnswer:
        """Change fields of a monitor; its counts are kept.

        Parameters
        ----------
        name : str
            Name of the monitor.
        **changes
            New values of ``description``, ``windows``, ``measures``, ``interval``, ``rules``, ``reference``, ``hooks``,
            ``recalibration`` and ``retention``; others are kept, and None removes a value.

        Returns
        -------
        MonitorAnswer
            A monitor as callers see it; a hook has its secret only in the response that generated it.

        Raises
        ------
        ProblemResponse
            With the code ``invalid-option``, ``hook-refused``, ``unknown-map-reference``, ``unknown-batch-reference``,
            ``unknown-measure``, ``unknown-method``, ``unknown-reduction``, ``scale-mismatch``, ``out-of-range``,
            ``prediction-kind-mismatch``, ``wrong-shape``, ``no-labels`` or ``unknown-monitor``.

        Examples
        --------
        >>> client.change_monitor("inbox", description="mails of the live model").description
        'mails of the live model'
        """
        return await self._run(
            changed(self._patience, path_of("monitors", name), changes, MonitorPatch.__annotations__, MonitorAnswer)
        )

    async def backfill(
        self, monitor: str, source: Mapping[str, Any], *, timeout: float | None = None, progress: Progress | None = None
    ) -> BackfillAnswer:
        """Ingest rows, predictions or labels from files in a source.

        Parameters
        ----------
        monitor : str
            Name of the monitor.
        source : mapping
            Rows of files in a source. It has ``source``, ``path`` and ``columns``, and optionally ``where`` and
            ``format``.
        timeout : float, optional
            Seconds to wait for a job; by default there is no limit.
        progress : callable, optional
            Called with the job on every change.

        Returns
        -------
        BackfillAnswer
            The rows of files that a monitor has counted. Every row is accepted, a duplicate, contradicted or refused.

        Raises
        ------
        JobFailed
            If the job failed or was cancelled.
        JobTimeout
            If the job has not ended after ``timeout`` seconds.

        Examples
        --------
        >>> columns = {"ids": "request", "predictions": "score", "labels": "outcome"}
        >>> source = {"source": "scores", "path": "2026-11/*.parquet", "columns": columns}
        >>> client.backfill("inbox", source).accepted  # doctest: +SKIP
        """
        return await self._run(
            result_of(
                self._patience,
                send(self._patience, with_fields("POST", path_of("monitors", monitor, "backfill"), {"source": source})),
                BackfillAnswer,
                timeout,
                progress,
            )
        )

    async def decision_curve(
        self,
        batch: str | BatchRecord | ArrayLike | None = None,
        *own_labels: ArrayLike,
        models: Mapping[str, Any] | None = None,
        thresholds: list[float] | None = None,
        reduction: str | None = None,
        interval: float | None = None,
        **rows: Unpack[RowArguments],
    ) -> DecisionCurveAnswer:
        """Judge models by the net benefit of decisions at thresholds.

        Parameters
        ----------
        batch : str, BatchRecord or array_like, optional
            A stored batch or its id; or predictions.
        *own_labels : array_like
            Labels, after predictions.
        models : mapping, optional
            Predictions of the models by name; each P(Y=1) of each row, or K class probabilities each. In other formats
            than JSON, arrays or columns named ``models/NAME``.
        thresholds : sequence of float, optional
            Of a decision curve; default: 0.01, 0.02, ..., 0.99.
        reduction : str, optional
            What is measured or calibrated, such as binary, confidence, classwise or class:2; requests may name the
            class, as in class:dog.
        interval : float, optional
            Level of the intervals, and of the guarantee of a bound; by default ``0.95``.
        **rows
            ``predictions``, ``labels``, ``weights``, ``groups``, ``scale`` and ``weights_kind``, by name; and ``class_names`` or
            ``pos_label``.

        Returns
        -------
        DecisionCurveAnswer
            A decision curve: curves of each model, or of ``model``, and of the strategies treat all and treat none.

        Examples
        --------
        >>> curve = client.decision_curve(predictions=p, labels=y, thresholds=[0.2])
        >>> sorted(curve.net_benefit)
        ['model', 'treat all', 'treat none']

        >>> curve = client.decision_curve(models={"a": p, "b": 1 - p}, labels=y, thresholds=[0.2])
        >>> list(curve.differences)
        ['a - b']
        """
        return await self._run(
            answered(
                with_class_rows(
                    self._patience,
                    "/decisions",
                    rows,
                    {"models": models, "thresholds": thresholds, "reduction": reduction, "interval": interval},
                    batch,
                    own_labels,
                ),
                DecisionCurveAnswer,
            )
        )

    async def best_threshold(
        self,
        batch: str | BatchRecord | ArrayLike | None = None,
        *own_labels: ArrayLike,
        costs: list[float] | None = None,
        capacity: float | None = None,
        precision: float | None = None,
        recall: float | None = None,
        reduction: str | None = None,
        interval: float | None = None,
        seed: int | None = None,
        **rows: Unpack[RowArguments],
    ) -> DecisionThresholdAnswer:
        """Return the threshold that costs, a capacity, or a bound on precision or recall determine.

        Parameters
        ----------
        batch : str, BatchRecord or array_like, optional
            A stored batch or its id; or predictions.
        *own_labels : array_like
            Labels, after predictions.
        costs : sequence of float, optional
            Criterion of the threshold: costs of a false positive and of a false negative.
        capacity : float, optional
            Criterion of the threshold: the most positive decisions, as a number of rows from 2, or a fraction below 1.
        precision : float, optional
            Criterion of the threshold: lower bound of the precision, guaranteed.
        recall : float, optional
            Criterion of the threshold: lower bound of the recall, guaranteed.
        reduction : str, optional
            What is measured or calibrated, such as binary, confidence, classwise or class:2; requests may name the
            class, as in class:dog.
        interval : float, optional
            Level of the intervals, and of the guarantee of a bound; by default ``0.95``.
        seed : int, optional
            Seed of the folds of the recalibration, for costs; by default ``0``.
        **rows
            ``predictions``, ``labels``, ``weights``, ``groups``, ``scale`` and ``weights_kind``, by name; and ``class_names`` or
            ``pos_label``.

        Returns
        -------
        DecisionThresholdAnswer
            A threshold: positive decisions are those with a prediction of at least this.

        Examples
        --------
        >>> best = client.best_threshold(predictions=p, labels=y, costs=[1, 4])
        >>> best.threshold, best.measures["cost"].interval is not None
        (0.2, True)
        """
        return await self._run(
            answered(
                with_class_rows(
                    self._patience,
                    "/decisions",
                    rows,
                    {
                        "costs": costs,
                        "capacity": capacity,
                        "precision": precision,
                        "recall": recall,
                        "reduction": reduction,
                        "interval": interval,
                        "seed": seed,
                    },
                    batch,
                    own_labels,
                ),
                DecisionThresholdAnswer,
            )
        )

    async def recommend(
        self,
        batch: str | BatchRecord | ArrayLike | None = None,
        *own_labels: ArrayLike,
        keep_batch: bool | None = None,
        reduction: str | None = None,
        seed: int | None = None,
        timeout: float | None = None,
        progress: Progress | None = None,
        **rows: Unpack[RowArguments],
    ) -> RecommendationAnswer:
        """Recommend a calibration map, or none: what a report recommends, with its reasons.

        Parameters
        ----------
        batch : str, BatchRecord or array_like, optional
            A stored batch or its id; or predictions.
        *own_labels : array_like
            Labels, after predictions.
        keep_batch : bool, optional
            If rows in the request become a job: keep them as a batch, which the job names, for the setting batch_ttl;
            by default they are deleted when the job ends.
        reduction : str, optional
            What is measured or calibrated, such as binary, confidence, classwise or class:2; requests may name the
            class, as in class:dog.
        seed : int, optional
            Seed of resamples, folds and, from 20,000 rows on, of the sample of rows; by default ``0``.
        timeout : float, optional
            Seconds to wait for a job; by default there is no limit.
        progress : callable, optional
            Called with the job on every change.
        **rows
            ``predictions``, ``labels``, ``weights``, ``groups``, ``scale`` and ``weights_kind``, by name; and ``class_names`` or
            ``pos_label``.

        Returns
        -------
        RecommendationAnswer
            The response of ``POST /recommendations``.

        Raises
        ------
        JobFailed
            If the job failed or was cancelled.
        JobTimeout
            If the job has not ended after ``timeout`` seconds.

        Examples
        --------
        >>> result = client.recommend([0.1, 0.4, 0.6, 0.9] * 30, [0, 1, 0, 1] * 30)
        >>> result.method, len(result.candidates)
        ('spline', 5)
        """
        return await self._run(
            result_of(
                self._patience,
                with_class_rows(
                    self._patience,
                    "/recommendations",
                    rows,
                    {"keep_batch": keep_batch, "reduction": reduction, "seed": seed},
                    batch,
                    own_labels,
                ),
                RecommendationAnswer,
                timeout,
                progress,
            )
        )

    async def audit_hook(self, hook: str, url: str, *, secret: str | None = None) -> AuditHookAnswer:
        """Send the entries from now on to a URL as CloudEvents, signed like other webhooks.

        Parameters
        ----------
        hook : str
            Name of a hook.
        url : str
            URL that receives the entries.
        secret : str, optional
            ``whsec_`` followed by the base64 of 24 to 64 bytes; default: that of the hook, or a new one.

        Returns
        -------
        AuditHookAnswer
            A hook of the audit log.

        Raises
        ------
        ProblemResponse
            With the code ``hook-refused``, ``invalid-option`` or ``quota-exceeded``.

        Examples
        --------
        >>> client.audit_hook("siem", "https://siem.example.com/calibrant")  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        calibrant.client.errors.ProblemResponse: /url: the host is not allowed
        """
        return await self._run(
            answered(
                send(
                    self._patience, with_fields("PUT", path_of("audit", "hooks", hook), {"url": url, "secret": secret})
                ),
                AuditHookAnswer,
            )
        )

    async def calibrate_source(
        self,
        map: str | MapSummary,
        source: Mapping[str, Any],
        target: Mapping[str, Any],
        *,
        scale: str | None = None,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> ScoredAnswer:
        """Apply a map to the rows of files in a source, and write them with the calibrated columns.

        Parameters
        ----------
        map : str or MapSummary
            Id, name, ``name:version`` or ``name@alias``.
        source : mapping
            Rows to which the map is applied; all of their columns are written. It has ``source``, ``path`` and
            ``columns``, and optionally ``where``, ``format`` and ``engine``.
        target : mapping
            Where the data set is written. It has ``source`` and ``path``.
        scale : {"probability", "percent", "logit"}, optional
            Default: that of the map.
        timeout : float, optional
            Seconds to wait for a job; by default there is no limit.
        progress : callable, optional
            Called with the job on every change.

        Returns
        -------
        ScoredAnswer
            A data set that was written.

        Raises
        ------
        JobFailed
            If the job failed or was cancelled.
        JobTimeout
            If the job has not ended after ``timeout`` seconds.

        Examples
        --------
        >>> source = {"source": "scores", "path": "2026-11/*.parquet", "columns": {"predictions": "score"}}
        >>> client.calibrate_source("spam", source, {"source": "scores", "path": "scored"})  # doctest: +SKIP
        """
        return await self._run(
            result_of(
                self._patience,
                send(
                    self._patience,
                    with_fields(
                        "POST",
                        path_of("datasets"),
                        {"map": map_reference(map), "source": source, "target": target, "scale": scale},
                    ),
                ),
                ScoredAnswer,
                timeout,
                progress,
            )
        )

    @overload
    async def calibrate(
        self, map: str | MapSummary, predictions: Series, *, scale: str | None = None, features: Any = None
    ) -> Series: ...
    @overload
    async def calibrate(
        self, map: str | MapSummary, predictions: FrameLike, *, scale: str | None = None, features: Any = None
    ) -> Any: ...
    @overload
    async def calibrate(
        self,
        map: str | MapSummary,
        predictions: ArrayLike | BatchRecord,
        *,
        scale: str | None = None,
        features: Any = None,
    ) -> Floats: ...
    @overload
    async def calibrate(
        self,
        map: str | MapSummary,
        predictions: Any,
        *,
        scale: str | None = None,
        return_map: Literal[True],
        features: Any = None,
    ) -> Applied: ...
    @overload
    async def calibrate(
        self,
        map: str | MapSummary,
        predictions: Any,
        *,
        scale: str | None = None,
        return_map: bool,
        features: Any = None,
    ) -> Any: ...
    async def calibrate(
        self,
        map: str | MapSummary,
        predictions: Any,
        *,
        scale: str | None = None,
        return_map: bool = False,
        features: Any = None,
    ) -> Any:
        """Apply a stored map.

        Parameters
        ----------
        map : str or MapSummary
            Id, name, ``name:version`` or ``name@alias``.
        predictions : array_like, str or BatchRecord
            (n,) or (n, K); an array, list, Series or DataFrame. Or the id or the record of a stored batch.
        scale : {"probability", "logit"}, optional
            Scale of the predictions.
        return_map : bool, default False
            Also return the id and the version of the map that was applied.
        features : frame, or mapping of names to array_like, optional
            Features of the rows, which a map of ``segments`` needs.

        Returns
        -------
        array_like or Applied
            Calibrated probabilities of the event (n,) or of each class (n, K), in [0, 1]. A Series or DataFrame gives a
            Series or DataFrame with the same index, name and columns; for a DataFrame, a map of one event gives a Series.
            With ``return_map``, an ``Applied`` with these as ``calibrated``, and ``map`` and ``version``.

        Examples
        --------
        >>> client.calibrate("spam:1", [0.2, 0.8]).shape
        (2,)
        >>> client.calibrate("spam", [0.2, 0.8], return_map=True).version
        1
        """
        return await self._run(
            maps.calibrate(self._patience, map, predictions, scale=scale, return_map=return_map, features=features)
        )

    @overload
    async def calibrate_distribution(
        self,
        map: str | MapSummary,
        *,
        batch: str | BatchRecord | None = None,
        seed: int = 0,
        **forecasts: Unpack[ForecastArguments],
    ) -> Forecasts: ...
    @overload
    async def calibrate_distribution(
        self,
        map: str | MapSummary,
        *,
        batch: str | BatchRecord | None = None,
        seed: int = 0,
        return_map: Literal[True],
        **forecasts: Unpack[ForecastArguments],
    ) -> Applied: ...
    @overload
    async def calibrate_distribution(
        self,
        map: str | MapSummary,
        *,
        batch: str | BatchRecord | None = None,
        seed: int = 0,
        return_map: bool,
        **forecasts: Unpack[ForecastArguments],
    ) -> Any: ...
    async def calibrate_distribution(
        self,
        map: str | MapSummary,
        *,
        batch: str | BatchRecord | None = None,
        seed: int = 0,
        return_map: bool = False,
        **forecasts: Unpack[ForecastArguments],
    ) -> Any:
        """Apply a stored map to forecasts.

        Parameters
        ----------
        map : str or MapSummary
            Id, name, ``name:version`` or ``name@alias``.
        batch : str or BatchRecord, optional
            A stored batch, in place of the forecasts.
        seed : int
            Seed of the bounds that a ``conformal`` map with ``ties="random"`` excludes.
        return_map : bool, default False
            Also return the id and the version of the map that was applied.
        **forecasts
            The forecasts as for ``evaluate_distribution``, and ``by`` if the map was fitted with it.

        Returns
        -------
        calibrant.distributions.forecasts.Forecasts or Applied
            Calibrated forecasts: means and variances, quantiles or intervals. With ``return_map``, an ``Applied`` with
            these as ``calibrated``, and ``map`` and ``version``.

        Examples
        --------
        >>> fitted = client.fit_distribution("variance-scaling", [1.0, -3.0], mean=[0.0, 0.0], variance=[1.0, 1.0])
        >>> client.calibrate_distribution(fitted.id, mean=[7.0], variance=[1.0]).variance
        array([5.])
        """
        return await self._run(
            maps.calibrate_distribution(self._patience, map, batch=batch, seed=seed, return_map=return_map, **forecasts)
        )

    async def bounds(self, map: str | MapSummary, predictions: Any, *, scale: str | None = None) -> Bounds:
        """Apply a stored Venn-Abers map and return the probabilities with their bounds.

        Parameters
        ----------
        map : str or MapSummary
            Id, name, ``name:version`` or ``name@alias`` of a map of method ``venn-abers``.
        predictions : array_like, str or BatchRecord
            As for ``calibrate``.
        scale : {"probability", "logit"}, optional
            Scale of the predictions.

        Returns
        -------
        Bounds
            ``predictions``, and the two probabilities ``p0`` and ``p1`` that each is merged from.

        Raises
        ------
        ProblemResponse
            If the map is of another method.

        Examples
        --------
        >>> fitted = client.fit("venn-abers", predictions=p, labels=y)
        >>> merged, p0, p1 = client.bounds(fitted.id, [0.2, 0.8])
        >>> bool((p0 <= merged).all() and (merged <= p1).all())
        True
        """
        return await self._run(maps.bounds(self._patience, map, predictions, scale=scale))

    async def calibrate_sets(
        self,
        map: str | MapSummary,
        predictions: Any,
        *,
        scale: str | None = None,
        groups: Any = None,
        seed: int | None = None,
        alpha: float | None = None,
    ) -> AppliedSets:
        """Apply a stored map that gives prediction sets.

        Parameters
        ----------
        map : str or MapSummary
            Id, name, ``name:version`` or ``name@alias``.
        predictions : array_like, str or BatchRecord
            (n,) or (n, K); an array, list, Series or DataFrame. Or a stored batch.
        scale : {"probability", "logit"}, optional
            Scale of the predictions.
        groups : array_like, optional
            Group of each row, for a map by group.
        seed : int, optional
            Seed of the random numbers of a randomised map, another one for each call.
        alpha : float, optional
            Error level of the sets, for a map that was fitted with ``adjustable``; by default that of the map.

        Returns
        -------
        AppliedSets
            The ``sets``, a ``PredictionSets``, and the ``map`` and ``version`` that were applied.

        Examples
        --------
        >>> fitted = client.fit("lac", predictions=p, labels=y)
        >>> client.calibrate_sets(fitted.id, [0.02, 0.98]).sets.sizes.tolist()
        [1, 1]
        """
        return await self._run(
            maps.calibrate_sets(self._patience, map, predictions, scale=scale, groups=groups, seed=seed, alpha=alpha)
        )

    async def recalibrate_in_order(
        self,
        observed: ArrayLike,
        made: Any,
        known: Any,
        *,
        half_life: float | timedelta,
        horizon: Any = None,
        scale: str = "identity",
        support: tuple[float | None, float | None] = (None, None),
        shift: float = 0.7,
        widen: float = 0.75,
        narrow: float = 0.375,
        **forecasts: Unpack[ForecastArguments],
    ) -> AdaptiveForecasts:
        """Recalibrate forecasts in time order, using only outcomes that were known when each forecast was made.

        Parameters
        ----------
        observed, made, known, half_life, horizon, scale, support, shift, widen, narrow
            As for ``calibrant.recalibrate_in_order``.
        scale : {"probability", "logit"}, optional
            Scale of the predictions.
        **forecasts
            The forecasts as for ``evaluate_distribution``.

        Returns
        -------
        calibrant.AdaptiveForecasts
            Recalibrated forecasts, and the correction of each row.

        Examples
        --------
        >>> found = client.recalibrate_in_order([9.0, 9.0], [0, 2], [1, 3], half_life=1.0, mean=[5.0, 5.0],
        ...                                     variance=[1.0, 1.0])
        >>> found.n_known.tolist(), found.forecasts.mean.round(1).tolist()
        ([0, 1], [5.0, 7.8])
        """
        return await self._run(
            maps.recalibrate_in_order(
                self._patience,
                observed,
                made,
                known,
                half_life=half_life,
                horizon=horizon,
                scale=scale,
                support=support,
                shift=shift,
                widen=widen,
                narrow=narrow,
                **forecasts,
            )
        )

    async def export_map(self, map: str | MapSummary) -> dict[str, Any]:
        """Return the document of a map, which ``calibrant.load`` reads.

        Parameters
        ----------
        map : str or MapSummary
            Id, name, ``name:version`` or ``name@alias``.

        Returns
        -------
        dict
            The document as JSON, with all numbers that are needed to apply the map.

        Examples
        --------
        >>> client.export_map("spam:1")["method"]
        'platt'
        """
        return await self._run(maps.export_map(self._patience, map))

    async def import_map(
        self,
        document: Mapping[str, Any] | Documented,
        *,
        name: str | None = None,
        allow_shape_change: bool = False,
        **about: Unpack[About],
    ) -> MapRecord:
        """Store a map from its document.

        Parameters
        ----------
        document : mapping, CalibrationMap, SetMap or DistributionMap
            A map, or its document, from ``export_map`` or ``to_document``.
        name : str, optional
            Name of the map; an existing name gets a new version.
        allow_shape_change : bool
            Whether the shape of the output may differ from that of the newest map of the name.
        **about
            Fields of ``About``, such as ``tags`` and ``description``.

        Returns
        -------
        MapRecord
            The stored map.

        Examples
        --------
        >>> client.import_map(client.export_map("spam:1")).imported
        True
        """
        return await self._run(
            maps.import_map(self._patience, document, name=name, allow_shape_change=allow_shape_change, **about)
        )

    async def monitor(
        self,
        name: str,
        *,
        windows: str | Sequence[str] = (),
        groups: int | None = None,
        threshold: float | None = None,
        reference: str | None = None,
    ) -> MonitorReading:
        """Return the current state of a monitor: counts, and for each window measures, diagram and label coverage.

        Parameters
        ----------
        name : str
            Name of the monitor.
        windows : str or sequence of str
            Names of windows; by default all.
        groups : int, optional
            Number of groups in the answer, those with the most labelled rows first; by default 20.
        threshold : float, optional
            Predictions of at least this value count as positive in the estimates; by default 0.5.
        reference : str, optional
            Id of a batch of labelled rows with covariate-shift weights for one window, such as those of
            ``density_ratios``. The estimates of this window use it in place of the monitor's reference.

        Returns
        -------
        MonitorReading
            The current state.

        Examples
        --------
        >>> client.monitor("inbox", windows=["day"]).counts.predictions
        0
        """
        return await self._run(
            monitors.monitor(
                self._patience, name, windows=windows, groups=groups, threshold=threshold, reference=reference
            )
        )

    async def send_rows(
        self,
        monitor: str,
        predictions: ArrayLike | Mapping[str, ArrayLike],
        labels: ArrayLike,
        *,
        form: Encoding = "npz",
        piece: int = PIECE,
        key: str | None = None,
        **fields: Unpack[RowFields],
    ) -> IngestionResult:
        """Send labelled rows to a monitor.

        Retries within this call are idempotent. To make sending again from another process idempotent, use ``ids`` or a
        ``key``.

        Parameters
        ----------
        monitor : str
            Name of the monitor.
        predictions : array_like, or mapping of str to array_like
            (n,) or (n, K). For a monitor of regression a mapping with ``mean`` and ``std`` or ``variance``, ``quantiles``,
            ``samples``, or ``lower`` and ``upper``, or these columns, with variances.
        labels : array_like
            (n,), integers or booleans; for a monitor of regression, the outcomes.
        form : {"npz", "arrow", "json"}
            Encoding of the rows; ``arrow`` needs pyarrow.
        piece : int
            The most rows per request.
        key : str, optional
            Idempotency key of the whole call.
        **fields
            ``ids`` (n,), integers or strings; ``timestamps`` (n,), seconds since 1970 or datetimes, by default now; and
            ``groups`` (n,), one name per row.

        Returns
        -------
        IngestionResult
            Counts over all requests; ``refusals`` have indices into the arrays.

        Examples
        --------
        >>> client.send_rows("inbox", [0.1, 0.8], [0, 1], ids=["mail-1", "mail-2"]).joined
        2
        """
        return await self._run(
            monitor_rows.send_rows(
                self._patience, monitor, predictions, labels, form=form, piece=piece, key=key, **fields
            )
        )

    async def send_predictions(
        self,
        monitor: str,
        ids: ArrayLike,
        predictions: ArrayLike | Mapping[str, ArrayLike],
        *,
        timestamps: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        form: Encoding = "npz",
        piece: int = PIECE,
        key: str | None = None,
    ) -> IngestionResult:
        """Send predictions without labels to a monitor; ``send_labels`` adds the labels later.

        Parameters
        ----------
        monitor : str
            Name of the monitor.
        ids : array_like
            (n,), integers or strings that join the predictions with their labels.
        predictions : array_like, or mapping of str to array_like
            As for ``send_rows``.
        timestamps, groups
            As for ``send_rows``.
        form : {"npz", "arrow", "json"}
            Encoding of the rows; ``arrow`` needs pyarrow.
        piece : int
            The most rows per request.
        key : str, optional
            Idempotency key of the whole call.

        Returns
        -------
        IngestionResult
            Counts over all requests; ``refusals`` have indices into the arrays.

        Examples
        --------
        >>> client.send_predictions("inbox", ["mail-3", "mail-4"], [0.2, 0.7]).accepted
        2
        """
        return await self._run(
            monitor_rows.send_predictions(
                self._patience,
                monitor,
                ids,
                predictions,
                timestamps=timestamps,
                groups=groups,
                form=form,
                piece=piece,
                key=key,
            )
        )

    async def send_labels(
        self,
        monitor: str,
        ids: ArrayLike,
        labels: ArrayLike,
        *,
        timestamps: ArrayLike | None = None,
        form: Encoding = "npz",
        piece: int = PIECE,
        key: str | None = None,
    ) -> IngestionResult:
        """Send labels for predictions with the same ids, which may also arrive later.

        Parameters
        ----------
        monitor : str
            Name of the monitor.
        ids : array_like
            (n,), ids of the predictions.
        labels : array_like
            (n,), integers or booleans.
        timestamps : array_like, optional
            When the labels became known; by default now.
        form : {"npz", "arrow", "json"}
            Encoding of the rows; ``arrow`` needs pyarrow.
        piece : int
            The most rows per request.
        key : str, optional
            Idempotency key of the whole call.

        Returns
        -------
        IngestionResult
            Counts over all requests; ``refusals`` have indices into the arrays.

        Examples
        --------
        >>> client.send_labels("inbox", ["mail-4"], [1]).joined
        1
        """
        return await self._run(
            monitor_rows.send_labels(
                self._patience, monitor, ids, labels, timestamps=timestamps, form=form, piece=piece, key=key
            )
        )

    async def alias(self, name: str, alias: str, version: int, *, new: bool = False) -> AliasRecord:
        """Point an alias at a version of a map.

        Parameters
        ----------
        name : str
            Name of the map.
        alias : str
            Alias, such as ``champion``.
        version : int
            Version, from 1.
        new : bool
            If True, the alias must not exist yet. If the connection breaks after the server has set the alias, the retry
            fails with ``precondition-failed``: then check where the alias points.

        Returns
        -------
        AliasRecord
            The alias.

        Raises
        ------
        ProblemResponse
            With code ``precondition-failed`` if ``new`` is True and the alias exists.

        Examples
        --------
        >>> client.alias("spam", "champion", 1).version
        1
        """
        return await self._run(aliases.alias(self._patience, name, alias, version, new=new))

    async def evaluate_sets(
        self,
        sets: Any,
        labels: ArrayLike,
        *,
        alpha: float | None = None,
        class_names: Sequence[Any] | None = None,
        groups: Any = None,
        weights: ArrayLike | None = None,
        weights_kind: str | None = None,
        interval: float | None = None,
    ) -> CoverageAnswer:
        """Measure how often prediction sets have the label of their row, by class, size and group, and how large they are.

        Parameters
        ----------
        sets : PredictionSets, array_like of bool, shape (n, K), or sequence of n collections
            As for ``calibrant.evaluate_sets``.
        labels : array_like, shape (n,)
            Number of the class of each row, or its name.
        alpha : float, optional
            Error level of the sets, if they do not have one.
        class_names : sequence, optional
            Names of the classes in the order of their numbers; needed for names.
        groups : array_like, shape (n,), or frame, optional
            Group of each row.
        weights : array_like, shape (n,), optional
            Weights of the rows.
        weights_kind : {"importance", "frequency"}, optional
            Kind of weights; by default importance.
        interval : float, optional
            Level of the intervals; by default 0.95.

        Returns
        -------
        CoverageAnswer
            The response of ``POST /coverage``.

        Examples
        --------
        >>> found = client.evaluate_sets([["cat"], ["cat", "dog"]], ["cat", "dog"], class_names=["cat", "dog"], alpha=0.1)
        >>> found.coverage, found.mean_size
        (1.0, 1.5)
        """
        return await self._run(
            coverage.evaluate_sets(
                self._patience,
                sets,
                labels,
                alpha=alpha,
                class_names=class_names,
                groups=groups,
                weights=weights,
                weights_kind=weights_kind,
                interval=interval,
            )
        )

    def events(self, job: str | JobSummary, *, after: str | None = None) -> AsyncIterator[JobEvent]:
        """Iterate over the events of a job until it ends, without gaps or duplicates.

        A broken connection is resumed.

        Parameters
        ----------
        job : str or JobSummary
            Id of the job, or the job.
        after : str, optional
            Id of an event; only later events are returned.

        Yields
        ------
        JobEvent
            A change of status or progress.

        Examples
        --------
        >>> [event.job.status for event in client.events(job_id)][-1]
        'succeeded'
        """
        return self._iterate(jobs.events(self._patience, job, after=after))

    async def wait(
        self, job: str | JobSummary, *, timeout: float | None = None, progress: Progress | None = None
    ) -> JobAnswer:
        """Wait until a job has succeeded.

        Parameters
        ----------
        job : str or JobSummary
            Id of the job, or the job.
        timeout : float, optional
            Seconds; by default there is no limit.
        progress : callable, optional
            Called with the job on every change.

        Returns
        -------
        JobAnswer
            The job with its result.

        Raises
        ------
        JobFailed
            If the job failed or was cancelled.
        JobTimeout
            If the job has not ended after ``timeout`` seconds; it continues on the server.

        Examples
        --------
        >>> list(client.wait(job_id).result)
        ['map']
        """
        return await self._run(jobs.wait(self._patience, job, timeout=timeout, progress=progress))

    async def accept_proposal(self, monitor: str, *, if_match: Proposal | None = None) -> Proposal:
        """Accept the proposed map: make it the next version of its name and move the alias to it.

        Parameters
        ----------
        monitor : str
            Name of the monitor.
        if_match : Proposal, optional
            The proposal that was reviewed, as ``proposal`` returned it. No other one is accepted, such as one that
            replaced it meanwhile. By default, the proposal that is waiting now is accepted.

        Returns
        -------
        Proposal
            The accepted proposal, with the version.

        Raises
        ------
        ProblemResponse
            If there is no proposal, or the alias has moved since; with code ``precondition-failed`` if another proposal
            than ``if_match`` is waiting.

        Examples
        --------
        Accept a map if its gain is sure to be above 0.01, and no other map::

            proposed = client.proposal("inbox")
            if proposed.found.low is not None and proposed.found.low > 0.01:
                client.accept_proposal("inbox", if_match=proposed)
        """
        return await self._run(monitor_alarms.accept_proposal(self._patience, monitor, if_match=if_match))

    async def reject_proposal(self, monitor: str, *, if_match: Proposal | None = None) -> Proposal:
        """Reject the proposed map; the alias does not move.

        Parameters
        ----------
        monitor : str
            Name of the monitor.
        if_match : Proposal, optional
            The proposal that was reviewed, as ``proposal`` returned it; no other one is rejected.

        Returns
        -------
        Proposal
            The rejected proposal.

        Raises
        ------
        ProblemResponse
            If there is no proposal; with code ``precondition-failed`` if another proposal than ``if_match`` is waiting.

        Examples
        --------
        Reject the map that was reviewed, and no other map::

            proposed = client.proposal("inbox")
            client.reject_proposal("inbox", if_match=proposed)
        """
        return await self._run(monitor_alarms.reject_proposal(self._patience, monitor, if_match=if_match))

    def batches(
        self,
        *,
        created_after: float | str | datetime | None = None,
        created_before: float | str | datetime | None = None,
    ) -> AsyncIterator[BatchRecord]:
        """List the batches that have not expired, newest first.

        Parameters
        ----------
        created_after : float or str or datetime, optional
            Created at this time or later.
        created_before : float or str or datetime, optional
            Created before this time.

        Yields
        ------
        BatchRecord
            The record of a stored batch.

        Examples
        --------
        >>> stored = client.upload([0.1, 0.9])
        >>> stored.id in [batch.id for batch in client.batches()]
        True
        """
        return self._iterate(
            pages(
                self._patience,
                path_of("batches"),
                {"created_after": moment_of(created_after), "created_before": moment_of(created_before)},
                BatchesAnswer,
            )
        )

    async def batch(self, batch: str | BatchRecord) -> BatchRecord:
        """Get the record of a batch.

        Parameters
        ----------
        batch : str or BatchRecord
            Id of a batch.

        Returns
        -------
        BatchRecord
            The record of a stored batch.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-batch``.

        Examples
        --------
        >>> client.batch(client.upload([0.1, 0.9]).id).arrays
        ['predictions']
        """
        return await self._run(result(self._patience, "GET", path_of("batches", batch), BatchRecord))

    async def delete_batch(self, batch: str | BatchRecord) -> None:
        """Delete a batch; fails while a queued or running job needs it.

        Parameters
        ----------
        batch : str or BatchRecord
            Id of a batch.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-batch`` or ``batch-in-use``.

        Examples
        --------
        >>> client.delete_batch(client.upload([0.1, 0.9]).id)
        """
        await self._run(removal(self._patience, path_of("batches", batch)))

    def jobs(
        self,
        *,
        created_after: float | str | datetime | None = None,
        created_before: float | str | datetime | None = None,
        status: str | None = None,
        kind: str | None = None,
        batch: str | BatchRecord | None = None,
    ) -> AsyncIterator[JobSummary]:
        """List jobs without their results, newest first.

        Parameters
        ----------
        created_after : float or str or datetime, optional
            Created at this time or later.
        created_before : float or str or datetime, optional
            Created before this time.
        status : {"queued", "running", "succeeded", "failed", "cancelled"}, optional
            Only jobs with this status.
        kind : {"fit", "evaluate", "recommend", "score", "backfill"}, optional
            Only jobs of this kind.
        batch : str or BatchRecord, optional
            Only jobs of this batch.

        Yields
        ------
        JobSummary
            A job without its result, as in lists and events.

        Examples
        --------
        >>> job_id in [job.id for job in client.jobs(status="succeeded")]
        True
        """
        return self._iterate(
            pages(
                self._patience,
                path_of("jobs"),
                {
                    "created_after": moment_of(created_after),
                    "created_before": moment_of(created_before),
                    "status": status,
                    "kind": kind,
                    "batch": batch,
                },
                JobsAnswer,
            )
        )

    async def job(self, job: str | JobSummary) -> JobAnswer:
        """Get the status, progress and result of a job.

        Parameters
        ----------
        job : str or JobSummary
            Id of a job.

        Returns
        -------
        JobAnswer
            A job, as ``GET /jobs/{id}`` returns it.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-job``, ``not-acceptable`` or ``busy``.

        Examples
        --------
        >>> client.job(job_id).status
        'succeeded'
        """
        return await self._run(result(self._patience, "GET", path_of("jobs", job), JobAnswer))

    async def cancel(self, job: str | JobSummary) -> JobAnswer:
        """Cancel a job: a queued job does not start, a running one is stopped, and its results are discarded.

        Parameters
        ----------
        job : str or JobSummary
            Id of a job.

        Returns
        -------
        JobAnswer
            A job, as ``GET /jobs/{id}`` returns it.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-job`` or ``job-final``.
        """
        return await self._run(result(self._patience, "POST", path_of("jobs", job, "cancel"), JobAnswer))

    async def delete_job(self, job: str | JobSummary) -> None:
        """Delete an ended job with its result and its events; a map that it stored is kept. Cancel a running job first.

        Parameters
        ----------
        job : str or JobSummary
            Id of a job.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-job`` or ``job-not-final``.

        Examples
        --------
        >>> made = client.fit("pl", predictions=p, labels=y)
        >>> client.delete_job(next(client.jobs(kind="fit")))
        """
        await self._run(removal(self._patience, path_of("jobs", job)))

    def maps(
        self,
        *,
        name: str | None = None,
        method: str | None = None,
        reduction: str | None = None,
        scale: str | None = None,
        alias: str | None = None,
        tags: str | Sequence[str] | None = None,
        created_by: str | None = None,
        n_classes: int | None = None,
    ) -> AsyncIterator[ListedMap]:
        """Iterate over stored maps, newest first.

        Parameters
        ----------
        name : str, optional
            Only maps with this name.
        method : str, optional
            Only maps of this method.
        reduction : str, optional
            Only maps of this reduction.
        scale : {"probability", "logit"}, optional
            Only maps of predictions on this scale.
        alias : str, optional
            Only maps that this alias of their name points at.
        tags : str or Sequence[str], optional
            Name, or name=value; may be repeated.
        created_by : str, optional
            Only maps that the API key with this name, or ``oidc:`` and this subject, created.
        n_classes : int, optional
            Only maps of this number of classes.

        Yields
        ------
        ListedMap
            A map in a list, with the aliases that point at it.

        Examples
        --------
        >>> [f"{stored.name}:{stored.version}" for stored in client.maps(name="spam")]
        ['spam:1']
        """
        return self._iterate(
            pages(
                self._patience,
                path_of("maps"),
                {
                    "name": name,
                    "method": method,
                    "reduction": reduction,
                    "scale": scale,
                    "alias": alias,
                    "tag": tags,
                    "created_by": created_by,
                    "n_classes": n_classes,
                },
                MapPage,
            )
        )

    async def map(self, map: str | MapSummary) -> MapRecord:
        """Get a stored map with its document, by id, name (newest version), ``name:version`` or ``name@alias``.

        Parameters
        ----------
        map : str or MapSummary
            Id of a map, a name (its newest version), name:version or name@alias.

        Returns
        -------
        MapRecord
            A stored map: its summary, the bins of its fit, and its document.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-map``.

        Examples
        --------
        >>> client.map("spam").version
        1
        """
        return await self._run(result(self._patience, "GET", path_of("maps", map), MapRecord))

    async def delete_map(self, map: str | MapSummary) -> None:
        """Delete a map by id or ``name:version``, unless an alias points at it; its version number is not reused.

        Parameters
        ----------
        map : str or MapSummary
            Id of a map, a name (its newest version), name:version or name@alias.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-map``, ``map-in-use`` or ``invalid-field``.

        Examples
        --------
        >>> client.delete_map(client.fit("platt", predictions=p, labels=y).id)
        """
        await self._run(removal(self._patience, path_of("maps", map)))

    async def aliases(self, name: str) -> list[AliasRecord]:
        """List the aliases of a name and the version that each points at.

        Parameters
        ----------
        name : str
            Name or id of a map.

        Returns
        -------
        list of AliasRecord
            The version that an alias points at, and who set it.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-map``.

        Examples
        --------
        >>> [alias.alias for alias in client.aliases("spam")]
        ['champion']
        """
        return (await self._run(result(self._patience, "GET", path_of("maps", name, "aliases"), Aliases))).items

    async def delete_alias(self, name: str, alias: str) -> None:
        """Delete an alias; the version that it pointed at is kept.

        Parameters
        ----------
        name : str
            Name or id of a map.
        alias : str
            Name of an alias.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-alias``.

        Examples
        --------
        >>> client.alias("spam", "challenger", 1).revision
        1
        >>> client.delete_alias("spam", "challenger")
        """
        await self._run(removal(self._patience, path_of("maps", name, "aliases", alias)))

    async def sample_size(
        self,
        *,
        prevalence: float | None = None,
        logit_mean: float | None = None,
        logit_sd: float | None = None,
        beta_a: float | None = None,
        beta_b: float | None = None,
        oe_width: float | None = None,
        slope_width: float | None = None,
        level: float | None = None,
    ) -> SampleSizeAnswer:
        """Compute how many rows a validation needs for precise estimates of O/E and of the calibration slope.

        Parameters
        ----------
        prevalence : float, optional
            Expected fraction of events alone; there is then no result for the slope.
        logit_mean : float, optional
            Mean of normal log-odds of the predictions, with ``logit_sd``.
        logit_sd : float, optional
            Standard deviation of these log-odds.
        beta_a : float, optional
            First parameter of a beta distribution of the predictions, with ``beta_b``.
        beta_b : float, optional
            Second parameter of this distribution.
        oe_width : float, optional
            Width of the interval of O/E.
        slope_width : float, optional
            Width of the interval of the calibration slope.
        level : float, optional
            Level of the intervals.

        Returns
        -------
        SampleSizeAnswer
            The response of ``GET /sample-size``.

        Raises
        ------
        ProblemResponse
            With the code ``invalid-option`` or ``out-of-range``.

        Examples
        --------
        >>> client.sample_size(logit_mean=-2.0, logit_sd=1.0).n
        4320
        """
        return await self._run(
            result(
                self._patience,
                "GET",
                path_of("sample-size"),
                SampleSizeAnswer,
                {
                    "prevalence": prevalence,
                    "logit_mean": logit_mean,
                    "logit_sd": logit_sd,
                    "beta_a": beta_a,
                    "beta_b": beta_b,
                    "oe_width": oe_width,
                    "slope_width": slope_width,
                    "level": level,
                },
            )
        )

    async def limits(self) -> LimitsAnswer:
        """List the limits of requests, keys and tenants with their descriptions, and the tenant's current usage.

        Returns
        -------
        LimitsAnswer
            The limits by the name of their setting.

        Examples
        --------
        >>> client.limits().limits["max_rows"].value > 0
        True
        """
        return await self._run(result(self._patience, "GET", path_of("limits"), LimitsAnswer))

    async def live(self) -> None:
        """Check that the process responds.

        Examples
        --------
        >>> client.live()
        """
        await self._run(result(self._patience, "GET", path_of("health", "live"), Health))

    async def ready(self) -> None:
        """Check that the process and the store respond; `degraded` means that writes may be refused.

        Raises
        ------
        ProblemResponse
            With the code ``stopping``.

        Examples
        --------
        >>> client.ready()
        """
        await self._run(result(self._patience, "GET", path_of("health", "ready"), Health))

    async def map_diagram(
        self, map: str | MapSummary, form: Form = "svg", *, theme: Theme | None = None, width: int | None = None
    ) -> bytes:
        """Draw the reliability diagram of the rows that a map was fitted to, before and after the map (in-sample).

        Parameters
        ----------
        map : str or MapSummary
            Id of a map, a name (its newest version), name:version or name@alias.
        form : {"svg", "png"}
            Format.
        theme : {"auto", "light", "dark"}, optional
            Auto follows the reader's system preference, in SVG only; a PNG is then light.
        width : int, optional
            Width in pixels; a PNG has twice this width and height, for sharp displays.

        Returns
        -------
        bytes
            The picture.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-map``, ``no-bins`` or ``busy``.

        Examples
        --------
        >>> client.map_diagram("spam")[:4]
        b'<svg'
        """
        return await self._run(
            stored_picture(
                self._patience, path_of("maps", map, f"diagram.{form}"), form, {"theme": theme, "width": width}
            )
        )

    async def job_diagram(
        self,
        job: str | JobSummary,
        form: Form = "svg",
        *,
        theme: Theme | None = None,
        width: int | None = None,
        key: str | None = None,
    ) -> bytes:
        """Draw a diagram of the report of a job.

        Parameters
        ----------
        job : str or JobSummary
            Id of a job.
        form : {"svg", "png"}
            Format.
        theme : {"auto", "light", "dark"}, optional
            Auto follows the reader's system preference, in SVG only; a PNG is then light.
        width : int, optional
            Width in pixels; a PNG has twice this width and height, for sharp displays.
        key : str, optional
            The diagram's key in the report; default: the first.

        Returns
        -------
        bytes
            The picture.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-job``, ``job-not-final``, ``not-a-number``, ``not-finite``, ``out-of-range``,
            ``crossing-quantiles``, ``invalid-variance``, ``prediction-kind-mismatch``, ``wrong-shape``,
            ``length-mismatch``, ``empty-batch``, ``refused-path``, ``source-unreadable``, ``source-changed``,
            ``source-too-large``, ``engine-unavailable``, ``target-exists``, ``invalid-label``, ``invalid-weight``,
            ``nothing-to-draw``, ``no-labels``, ``one-class``, ``missing-class``, ``one-prediction``, ``too-few-rows``,
            ``scale-mismatch``, ``unknown-measure``, ``unknown-diagram``, ``unknown-method``, ``unknown-reduction``,
            ``invalid-option``, ``extra-not-installed``, ``invalid-document``, ``not-converged``,
            ``unknown-batch-reference``, ``unknown-map-reference``, ``quota-exceeded``, ``store-full``,
            ``output-shape-changed``, ``job-cancelled``, ``worker-lost``, ``time-limit`` or ``busy``.
        """
        return await self._run(
            stored_picture(
                self._patience,
                path_of("jobs", job, f"diagram.{form}"),
                form,
                {"theme": theme, "width": width, "key": key},
            )
        )

    def monitors(
        self,
        *,
        created_after: float | str | datetime | None = None,
        created_before: float | str | datetime | None = None,
    ) -> AsyncIterator[MonitorAnswer]:
        """List the monitors, newest first.

        Parameters
        ----------
        created_after : float or str or datetime, optional
            Created at this time or later.
        created_before : float or str or datetime, optional
            Created before this time.

        Yields
        ------
        MonitorAnswer
            A monitor as callers see it; a hook has its secret only in the response that generated it.

        Examples
        --------
        >>> "inbox" in [monitor.name for monitor in client.monitors()]
        True
        """
        return self._iterate(
            pages(
                self._patience,
                path_of("monitors"),
                {"created_after": moment_of(created_after), "created_before": moment_of(created_before)},
                MonitorsAnswer,
            )
        )

    async def series(
        self,
        monitor: str,
        *,
        window: str | None = None,
        measure: str | None = None,
        group: str | None = None,
        start: float | str | datetime | None = None,
        end: float | str | datetime | None = None,
        points: int | None = None,
        intervals: bool | None = None,
    ) -> SeriesAnswer:
        """Get the measures over time, one value per span of prediction time.

        Parameters
        ----------
        monitor : str
            Name of the monitor.
        window : str, optional
            A window of time: the series covers this window, up to now.
        measure : str, optional
            Key of one of the monitor's measures; default: all.
        group : str, optional
            Only this group.
        start : float or str or datetime, optional
            Default: the oldest stored rows.
        end : float or str or datetime, optional
            Default: now.
        points : int, optional
            Maximum number of time spans, each of whole buckets.
        intervals : bool, optional
            Whether to compute the interval of each value, which takes longer.

        Returns
        -------
        SeriesAnswer
            The values of measures over time; spans without predictions are left out.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-monitor`` or ``busy``.

        Examples
        --------
        >>> len(client.series("inbox", measure="ece", points=1).points)
        1
        """
        return await self._run(
            result(
                self._patience,
                "GET",
                path_of("monitors", monitor, "series"),
                SeriesAnswer,
                {
                    "window": window,
                    "measure": measure,
                    "group": group,
                    "start": moment_of(start),
                    "end": moment_of(end),
                    "points": points,
                    "intervals": intervals,
                },
            )
        )

    async def series_diagram(
        self,
        monitor: str,
        measure: str | None = None,
        *,
        theme: Theme | None = None,
        width: int | None = None,
        window: str | None = None,
        group: str | None = None,
        start: float | str | datetime | None = None,
        end: float | str | datetime | None = None,
        points: int | None = None,
        intervals: bool | None = None,
    ) -> bytes:
        """Draw a measure over time with its intervals and the raised alarms.

        Parameters
        ----------
        monitor : str
            Name of the monitor.
        measure : str, optional
            Key of one of the monitor's measures; default: all.
        theme : {"auto", "light", "dark"}, optional
            Auto follows the reader's system preference, in SVG only; a PNG is then light.
        width : int, optional
            Width in pixels; a PNG has twice this width and height, for sharp displays.
        window : str, optional
            A window of time: the series covers this window, up to now.
        group : str, optional
            Only this group.
        start : float or str or datetime, optional
            Default: the oldest stored rows.
        end : float or str or datetime, optional
            Default: now.
        points : int, optional
            Maximum number of time spans, each of whole buckets.
        intervals : bool, optional
            Whether to draw the interval of each value.

        Returns
        -------
        bytes
            The picture.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-monitor``, ``nothing-to-draw`` or ``busy``.

        Examples
        --------
        >>> client.series_diagram("inbox", "ece")[:4]
        b'<svg'
        """
        return await self._run(
            stored_picture(
                self._patience,
                path_of("monitors", monitor, "series.svg"),
                "svg",
                {
                    "theme": theme,
                    "width": width,
                    "window": window,
                    "measure": measure,
                    "group": group,
                    "start": moment_of(start),
                    "end": moment_of(end),
                    "points": points,
                    "intervals": intervals,
                },
            )
        )

    async def monitor_diagram(
        self,
        monitor: str,
        window: str | None = None,
        form: Form = "svg",
        *,
        theme: Theme | None = None,
        width: int | None = None,
        group: str | None = None,
    ) -> bytes:
        """Draw the reliability diagram of a window.

        Parameters
        ----------
        monitor : str
            Name of the monitor.
        window : str, optional
            Default: the first.
        form : {"svg", "png"}
            Format.
        theme : {"auto", "light", "dark"}, optional
            Auto follows the reader's system preference, in SVG only; a PNG is then light.
        width : int, optional
            Width in pixels; a PNG has twice this width and height, for sharp displays.
        group : str, optional
            Only this group.

        Returns
        -------
        bytes
            The picture.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-monitor``, ``nothing-to-draw`` or ``busy``.

        Examples
        --------
        >>> client.monitor_diagram("inbox")[:4]
        b'<svg'
        """
        return await self._run(
            stored_picture(
                self._patience,
                path_of("monitors", monitor, f"diagram.{form}"),
                form,
                {"theme": theme, "width": width, "window": window, "group": group},
            )
        )

    async def delete_monitor(self, name: str) -> None:
        """Delete a monitor and all its data.

        Parameters
        ----------
        name : str
            Name of the monitor.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-monitor``.

        Examples
        --------
        >>> made = client.create_monitor("short-lived")
        >>> client.delete_monitor("short-lived")
        """
        await self._run(removal(self._patience, path_of("monitors", name)))

    def deliveries(
        self,
        monitor: str,
        *,
        created_after: float | str | datetime | None = None,
        created_before: float | str | datetime | None = None,
        status: str | None = None,
        hook: str | None = None,
    ) -> AsyncIterator[DeliverySummary]:
        """List the deliveries of a monitor's events, newest first; the status ``dead`` marks the dead letters.

        Parameters
        ----------
        monitor : str
            Name of the monitor.
        created_after : float or str or datetime, optional
            Created at this time or later.
        created_before : float or str or datetime, optional
            Created before this time.
        status : {"pending", "succeeded", "dead"}, optional
            ``dead`` lists the dead letters.
        hook : str, optional
            Only deliveries to this hook.

        Yields
        ------
        DeliverySummary
            A delivery in a list.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-monitor``.

        Examples
        --------
        >>> list(client.deliveries("inbox", status="dead"))
        []
        """
        return self._iterate(
            pages(
                self._patience,
                path_of("monitors", monitor, "deliveries"),
                {
                    "created_after": moment_of(created_after),
                    "created_before": moment_of(created_before),
                    "status": status,
                    "hook": hook,
                },
                DeliveriesAnswer,
            )
        )

    async def resend(self, monitor: str, delivery: str) -> DeliveryRecord:
        """Send a delivery again, whatever its status: the same event with the same ``webhook-id``.

        Parameters
        ----------
        monitor : str
            Name of the monitor.
        delivery : str
            Id of a delivery.

        Returns
        -------
        DeliveryRecord
            The delivery of an event to one hook.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-monitor`` or ``unknown-delivery``.
        """
        return await self._run(
            result(
                self._patience, "POST", path_of("monitors", monitor, "deliveries", delivery, "resend"), DeliveryRecord
            )
        )

    async def alarms(self, monitor: str) -> list[RuleState]:
        """Get the current state of every rule of a monitor.

        Parameters
        ----------
        monitor : str
            Name of the monitor.

        Returns
        -------
        list of RuleState
            The current state of a rule, and since when.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-monitor``.

        Examples
        --------
        >>> [rule.rule for rule in client.alarms("inbox")]
        ['evidence']
        """
        return (
            await self._run(
                result(self._patience, "GET", path_of("monitors", monitor, "alarms"), AlarmsAnswer, {"limit": 1})
            )
        ).rules

    def alarm_events(self, monitor: str) -> AsyncIterator[MonitorEvent]:
        """Iterate over the events of a monitor's alarms, newest first.

        Parameters
        ----------
        monitor : str
            Name of the monitor.

        Yields
        ------
        MonitorEvent
            An event of a monitor. Its ``id`` is sent in the header ``webhook-id``, the other fields in the body.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-monitor``.

        Examples
        --------
        >>> list(client.alarm_events("inbox"))
        []
        """
        return self._iterate(pages(self._patience, path_of("monitors", monitor, "alarms"), {}, AlarmsAnswer))

    async def acknowledge(self, monitor: str, rule: str) -> RuleState:
        """Acknowledge an alarm: an evidence rule restarts with the next time bucket, a threshold stays until it clears.

        Parameters
        ----------
        monitor : str
            Name of the monitor.
        rule : str
            Name of a rule.

        Returns
        -------
        RuleState
            The current state of a rule, and since when.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-monitor``, ``unknown-rule`` or ``no-alarm``.
        """
        return await self._run(
            result(self._patience, "POST", path_of("monitors", monitor, "alarms", rule, "acknowledge"), RuleState)
        )

    def audit(self, monitor: str) -> AsyncIterator[AuditEntry]:
        """List the actions on a monitor, by the service or a user, newest first.

        Parameters
        ----------
        monitor : str
            Name of the monitor.

        Yields
        ------
        AuditEntry
            One action, and who performed it.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-monitor``.

        Examples
        --------
        >>> list(client.audit("inbox"))
        []
        """
        return self._iterate(pages(self._patience, path_of("monitors", monitor, "audit"), {}, AuditAnswer))

    async def recalibrate(self, monitor: str, *, correction: str | None = None) -> RecalibrationRequested:
        """Request a challenger now, whether or not an alarm is raised.

        Parameters
        ----------
        monitor : str
            Name of the monitor.
        correction : {"label-shift"}, optional
            ``label-shift``: a map corrected for the class frequencies of the window, without labels, which assumes that
            only they changed and always waits to be accepted; default: a map fitted to labelled rows.

        Returns
        -------
        RecalibrationRequested
            A requested challenger, and how it will be fitted.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-monitor`` or ``prediction-kind-mismatch``.

        Examples
        --------
        >>> client.recalibrate("inbox").number
        1
        """
        return await self._run(
            result(
                self._patience,
                "POST",
                path_of("monitors", monitor, "recalibrate"),
                RecalibrationRequested,
                {"correction": correction},
            )
        )

    async def proposal(self, monitor: str) -> Proposal:
        """Get the challenger that is waiting.

        Parameters
        ----------
        monitor : str
            Name of the monitor.

        Returns
        -------
        Proposal
            A challenger that was better than the champion, or has an assumption, and waits to be accepted or rejected.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-monitor`` or ``unknown-proposal``.
        """
        return await self._run(result(self._patience, "GET", path_of("monitors", monitor, "proposal"), Proposal))

    async def measures(self) -> list[MeasureEntry]:
        """List the measures with definition, range, options, cost and source, and whether each runs as a job.

        Returns
        -------
        list of MeasureEntry
            One measure in the catalogue.

        Examples
        --------
        >>> "ece" in [measure.name for measure in client.measures()]
        True
        """
        return (await self._run(result(self._patience, "GET", path_of("measures"), MeasureEntries))).items

    async def distribution_measures(self) -> list[DistributionMeasureEntry]:
        """List the measures of predictive distributions with definition, range, options and source.

        Returns
        -------
        list of DistributionMeasureEntry
            One measure of predictive distributions in the catalogue.

        Examples
        --------
        >>> "crps" in [measure.name for measure in client.distribution_measures()]
        True
        """
        return (
            await self._run(
                result(
                    self._patience,
                    "GET",
                    path_of("measures"),
                    DistributionMeasureEntries,
                    {"prediction_kind": "regression"},
                )
            )
        ).items

    async def diagrams(self) -> list[DiagramEntry]:
        """List the diagrams with definition, data fields, options, cost and source, and whether each runs as a job.

        Returns
        -------
        list of DiagramEntry
            One diagram in the catalogue.

        Examples
        --------
        >>> "reliability" in [diagram.name for diagram in client.diagrams()]
        True
        """
        return (await self._run(result(self._patience, "GET", path_of("diagrams"), DiagramsAnswer))).items

    async def distribution_diagrams(self) -> list[DiagramEntry]:
        """List the diagrams of predictive distributions with definition, options and source.

        Returns
        -------
        list of DiagramEntry
            One diagram in the catalogue.

        Examples
        --------
        >>> "pit" in [diagram.name for diagram in client.distribution_diagrams()]
        True
        """
        return (
            await self._run(
                result(self._patience, "GET", path_of("diagrams"), DiagramsAnswer, {"prediction_kind": "regression"})
            )
        ).items

    async def methods(self, *, output: str | None = None) -> list[MethodEntry]:
        """List the calibration methods with options and source, and whether each fit runs as a job.

        Parameters
        ----------
        output : {"probabilities", "sets"}, optional
            Sets: methods of prediction sets.

        Returns
        -------
        list of MethodEntry
            One calibration method in the catalogue, with descriptions of the properties of its maps.

        Examples
        --------
        >>> [method.runs for method in client.methods() if method.name == "averaged"]
        ['job']
        """
        return (
            await self._run(result(self._patience, "GET", path_of("methods"), MethodEntries, {"output": output}))
        ).items

    async def distribution_methods(self, *, output: str | None = None) -> list[DistributionMethodEntry]:
        """List the calibrators of predictive distributions with options and source.

        Parameters
        ----------
        output : {"probabilities", "sets"}, optional
            Sets: methods of prediction sets.

        Returns
        -------
        list of DistributionMethodEntry
            One calibration method of predictive distributions in the catalogue.

        Examples
        --------
        >>> [method.kinds for method in client.distribution_methods() if method.name == "variance-platt"]
        [['normal']]
        """
        return (
            await self._run(
                result(
                    self._patience,
                    "GET",
                    path_of("methods"),
                    DistributionMethodEntries,
                    {"output": output, "prediction_kind": "regression"},
                )
            )
        ).items

    async def set_methods(self) -> list[SetMethodEntry]:
        """List the methods of prediction sets with options, guarantee and source.

        Returns
        -------
        list of SetMethodEntry
            One method of prediction sets in the catalogue.

        Examples
        --------
        >>> [method.name for method in client.set_methods()]
        ['lac', 'aps', 'raps', 'crc']
        """
        return (
            await self._run(result(self._patience, "GET", path_of("methods"), SetMethodEntries, {"output": "sets"}))
        ).items

    def audit_log(
        self,
        *,
        created_after: float | str | datetime | None = None,
        created_before: float | str | datetime | None = None,
        action: str | None = None,
        actor: str | None = None,
        map: str | MapSummary | None = None,
        alias: str | None = None,
        monitor: str | None = None,
        key: str | None = None,
        request_id: str | None = None,
    ) -> AsyncIterator[ChangeRecord]:
        """Iterate over the audit log of the tenant, newest first.

        Parameters
        ----------
        created_after : float or str or datetime, optional
            Created at this time or later.
        created_before : float or str or datetime, optional
            Created before this time.
        action : {"map-fitted", "map-imported", "map-described", "map-deleted", "monitor-created", "monitor-changed", "monitor-deleted", "alarm-acknowledged", "recalibration-requested", "recalibration-declined", "recalibration-failed", "challenger-proposed", "proposal-replaced", "alias-moved", "alias-deleted", "alias-not-moved", "key-created", "key-rotated", "key-revoked", "proposal-accepted", "proposal-rejected", "audit-hook-set", "audit-hook-deleted", "restore-started", "backup-restored"}, optional
            Only this action.
        actor : str, optional
            Only changes by the actor with this id or name.
        map : str or MapSummary, optional
            Only changes of the map with this name, or id without a name.
        alias : str, optional
            Only changes of this alias of any map.
        monitor : str, optional
            Only changes of this monitor.
        key : str, optional
            Only changes of the API key with this id.
        request_id : str, optional
            Only changes by this request.

        Yields
        ------
        ChangeRecord
            One entry of the audit log.

        Raises
        ------
        ProblemResponse
            With the code ``not-acceptable``.

        Examples
        --------
        >>> {entry.action for entry in client.audit_log(action="alias-moved")} <= {"alias-moved"}
        True
        """
        return self._iterate(
            pages(
                self._patience,
                path_of("audit"),
                {
                    "created_after": moment_of(created_after),
                    "created_before": moment_of(created_before),
                    "action": action,
                    "actor": actor,
                    "map": map,
                    "alias": alias,
                    "monitor": monitor,
                    "key": key,
                    "request_id": request_id,
                },
                AuditPage,
            )
        )

    async def audit_hooks(self) -> list[AuditHookAnswer]:
        """List the hooks of the audit log, with the last entry that each accepted and its last attempt.

        Returns
        -------
        list of AuditHookAnswer
            A hook of the audit log.

        Examples
        --------
        >>> client.audit_hooks()
        []
        """
        return (await self._run(result(self._patience, "GET", path_of("audit", "hooks"), AuditHooksAnswer))).items

    async def delete_audit_hook(self, hook: str) -> None:
        """Delete a hook of the audit log; nothing more is sent to it.

        Parameters
        ----------
        hook : str
            Name of a hook.

        Raises
        ------
        ProblemResponse
            With the code ``unknown-hook``.

        Examples
        --------
        >>> for hook in client.audit_hooks():
        ...     client.delete_audit_hook(hook.name)
        """
        await self._run(removal(self._patience, path_of("audit", "hooks", hook)))
