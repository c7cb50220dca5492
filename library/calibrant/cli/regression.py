"""The commands for files of predictive distributions: ``--regression``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import typer

from calibrant.cli.exits import Refused
from calibrant.cli.output import bar, counted, say, weighted
from calibrant.cli.results import Fitted
from calibrant.cli.rows import Columns, name_of, read_forecast_rows

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from calibrant.client import Calibrant
    from calibrant.client.frames import DistributionRows, ForecastArguments
    from calibrant.distributions.adaptive import AdaptiveForecasts
    from calibrant.distributions.forecasts import Forecasts
    from calibrant.distributions.maps.distribution_map import DistributionMap, Support
    from calibrant.distributions.measures import Rows
    from calibrant.io.table import ForecastSheet

FanTime = Annotated[
    str | None,
    typer.Option(
        "--time", help="With --regression: column of times, the x axis of the fan chart; numbers or ISO 8601."
    ),
]
SupportOf = Annotated[
    str | None,
    typer.Option(
        "--support",
        help="With --regression: lowest and highest possible outcome, such as '0,100'; either may be omitted, as in "
        "'0,' for counts. Quantiles are clipped to this range.",
    ),
]


Against = Annotated[
    list[Path] | None,
    typer.Option("--against", help="With --regression: file of other forecasts of the same rows, to compare."),
]
ScoreOf = Annotated[
    str | None,
    typer.Option(
        "--score",
        help="With --against: score of the comparison. Default: interval-score if either file has intervals, "
        "quantile-score if either has quantiles, otherwise crps.",
    ),
]
Lags = Annotated[
    int,
    typer.Option(
        "--lags",
        min=0,
        help="With --against: number of earlier rows that a row may depend on; for forecasts h steps ahead, at least "
        "h - 1. Rows must be in the order of time.",
    ),
]


def is_regression(document: object) -> bool:
    """Whether a map document is that of predictive distributions."""
    return isinstance(document, Mapping) and document.get("prediction_kind") == "regression"


def check_alone(*, regression: bool, columns: Columns, others: Mapping[str, object] | None = None) -> None:
    """Raise ``BadParameter`` for options that do not fit the kind of prediction; ``others`` are options by flag."""
    if regression:
        refused = {
            "--map-label": columns.map_label,
            "--class-names": columns.class_names,
            "--pos-label": columns.pos_label,
            **(others or {}),
        }
        what = "cannot be combined with --regression"
    else:
        refused = {
            "--cluster": columns.cluster,
            "--by": columns.by,
            "--level": columns.level,
            "--levels": columns.levels,
        }
        what = "needs --regression"
    for flag, given in refused.items():
        if given is not None:
            raise typer.BadParameter(what, param_hint=flag)


def read_distribution_map(document: Mapping[str, Any] | str) -> DistributionMap:
    """Read a map of predictive distributions; raises ``Refused`` for a map of classifiers."""
    from calibrant.distributions.maps.distribution_map import load_distribution

    if not is_regression(document):
        raise Refused("the map is one of class probabilities; omit --regression")
    return load_distribution(document)


# --- On a server


class RemoteForecasts:
    """The commands on a server; rows are sent with each request, so the server stores only maps."""

    def __init__(self, client: Calibrant) -> None:
        self._client = client

    def evaluate(self, rows: ForecastSheet, request: EvaluateForecasts, map_of: str | None) -> dict[str, Any]:
        """Evaluate the rows; with a map, also after it."""
        others = request.others
        sheets = {} if others is None else others.sheets
        names = {self._stored(sheet): name for name, sheet in sheets.items()}
        with bar() as shown:
            report = self._client.evaluate_distribution(
                rows.observed,
                map=map_of,
                measures=request.measures,
                against=list(names) or None,
                score=None if others is None else others.score,
                lags=0 if others is None else others.lags,
                interval=request.interval,
                seed=request.seed,
                progress=shown.of_job,
                **_sent(rows),
            )
        found = {name: value for name, value in report.to_dict().items() if value is not None or name == "groups"}
        for name, group in ((found.get("after") or {}).pop("groups", None) or {}).items():
            found["groups"][name]["after"] = {"measures": group["measures"]}
        if "comparison" in found:
            found["comparison"] = _renamed(found["comparison"], names)
        return found

    def _stored(self, sheet: ForecastSheet) -> str:
        """Store other forecasts for a comparison; returns the id of their batch."""
        given = _sent(sheet, "weights", "weights_kind", "groups", "clusters", "by", "times")
        return self._client.upload_distribution(sheet.observed, ttl=_STORED_SECONDS, **given).id

    def fit(self, rows: ForecastSheet, request: FitForecasts, name: str | None, *, allow_shape_change: bool) -> Fitted:
        """Fit a map to the rows; the server stores the map."""
        with bar() as shown:
            record = self._client.fit_distribution(
                request.method,
                rows.observed,
                name=name,
                options=request.options,
                scale=request.scale,
                support=request.support,
                seed=request.seed,
                allow_shape_change=allow_shape_change,
                progress=shown.of_job,
                **_sent(rows, "clusters"),
            )
        return Fitted(record.document, None, record.id if record.name is None else f"{record.name}:{record.version}")

    def calibrate(self, rows: ForecastSheet, map_of: str) -> Forecasts:
        """Apply a stored map to the forecasts."""
        given = cast("ForecastArguments", _sent(rows, "weights", "weights_kind", "groups", "clusters", "times"))
        return self._client.calibrate_distribution(map_of, **given)

    def draw(
        self,
        rows: ForecastSheet,
        diagram: str | dict[str, Any],
        map_of: str | None,
        seed: int,
        style: Mapping[str, Any],
    ) -> bytes:
        """Draw a diagram of the rows."""
        with bar() as shown:
            return self._client.distribution_diagram(
                diagram, rows.observed, map=map_of, seed=seed, progress=shown.of_job, **style, **_sent(rows)
            )

    def report(self, rows: ForecastSheet, map_of: str | None, seed: int) -> str:
        """Return the report of the rows as HTML."""
        with bar() as shown:
            return self._client.distribution_report_html(
                rows.observed, map=map_of, seed=seed, progress=shown.of_job, **_sent(rows)
            )


#: How long the server keeps forecasts that are stored for a comparison.
_STORED_SECONDS = 3600


def _renamed(comparison: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Replace the ids of batches by the names of their files."""
    means = {names.get(name, name): value for name, value in comparison["means"].items()}
    ranking = [names.get(name, name) for name in comparison["ranking"]]
    pairs = [pair | {"between": [names.get(name, name) for name in pair["between"]]} for pair in comparison["pairs"]]
    return comparison | {"means": means, "ranking": ranking, "pairs": pairs}


def _sent(rows: ForecastSheet, *without: str) -> DistributionRows:
    """Return the rows as arguments of a client, without the outcomes and the columns named."""
    from calibrant.distributions.forecasts import FIELDS

    given: dict[str, Any] = {name: getattr(rows.forecasts, name) for name in FIELDS[rows.forecasts.kind]}
    columns = ("weights", "groups", "clusters", "by", "times", *(() if rows.weights is None else ("weights_kind",)))
    given |= {name: getattr(rows, name) for name in columns}
    return cast("DistributionRows", {name: value for name, value in given.items() if name not in without})


# --- Evaluation


@dataclass(frozen=True)
class Others:
    """Other forecasts of the same outcomes, by the name of their file, and how they are compared."""

    sheets: Mapping[str, ForecastSheet]
    score: str | None = None
    lags: int = 0


@dataclass(frozen=True)
class EvaluateForecasts:
    """Options of an evaluation of predictive distributions."""

    measures: list[str | dict[str, Any]] | None = None
    map: DistributionMap | None = None
    interval: float | None = None
    seed: int = 0
    others: Others | None = None


def evaluate_forecasts(rows: ForecastSheet, request: EvaluateForecasts) -> dict[str, Any]:
    """Evaluate the rows; with a map, also ``after`` it, and whether the map was fitted to these rows."""
    from calibrant.distributions.rows import digest_of

    before, after = rows.forecasts, None
    if request.map is not None:
        after = request.map.apply_checked(before, by=rows.by)
        before = _as_quantiles(before, after)
    found = _evaluated(before, rows, request)
    if request.others is not None:
        found["comparison"] = _compared(rows, after, request.others, request.interval)
    if request.map is None or after is None:
        return found
    also = _evaluated(after, rows, replace(request, measures=_common(request.measures, before, after)))
    found["after"] = {name: also[name] for name in ("kind", "measures")}
    for name, group in (found["groups"] or {}).items():
        group["after"] = {"measures": also["groups"][name]["measures"]}
    digest = None if rows.observed is None else digest_of(rows.forecasts, rows.observed)
    found["in_sample"] = request.map.training_digest is not None and request.map.training_digest == digest
    return found


def _compared(
    rows: ForecastSheet, calibrated: Forecasts | None, others: Others, interval: float | None
) -> dict[str, Any]:
    from calibrant.comparison.forecasts import compare_read

    own = {"forecasts": rows.forecasts} | ({} if calibrated is None else {"calibrated": calibrated})
    return compare_read(
        rows.observed,
        {**own, **{name: sheet.forecasts for name, sheet in others.sheets.items()}},
        score=others.score,
        lags=others.lags,
        interval=interval or 0.95,
        weights=rows.weights,
        weights_kind=rows.weights_kind,
        clusters=rows.clusters,
    ).to_dict()


def read_others(
    files: Sequence[Path] | None, columns: Columns, rows: ForecastSheet, *, score: str | None, lags: int
) -> Others | None:
    """Read the files of ``--against``; raises ``Refused`` for other outcomes."""
    if not files:
        for flag, given in (("--score", score), ("--lags", lags or None)):
            if given is not None:
                raise typer.BadParameter("needs --against", param_hint=flag)
        return None
    import numpy as np

    sheets: dict[str, ForecastSheet] = {}
    for file in files:
        name = file.name
        if name in (*sheets, "forecasts", "calibrated"):
            raise typer.BadParameter("must have different file names", param_hint="--against")
        sheets[name] = read_forecast_rows(file, columns, unused=("weights", "groups"))
        if not np.array_equal(np.asarray(sheets[name].observed), np.asarray(rows.observed)):
            raise Refused(f"{name_of(file)}: has other outcomes than the first file; a comparison needs the same rows")
    return Others(sheets, score, lags)


def _as_quantiles(before: Forecasts, after: Forecasts) -> Forecasts:
    """Return the forecasts as quantiles at the levels of the map, so that scores before and after are comparable."""
    from calibrant.distributions.maps.tables import quantiles_of

    if after.kind != "quantiles" or before.kind == "quantiles":
        return before
    say("before the map: quantiles at the levels of the map, so that the scores are comparable")
    return quantiles_of(before.quantile(after.levels), after.levels)


def _common(
    measures: list[str | dict[str, Any]] | None, before: Forecasts, after: Forecasts
) -> list[str | dict[str, Any]] | None:
    """Return the measures of the forecasts before the map, if none are requested."""
    from calibrant.distributions.measures import default_measures

    return list(default_measures(before.kind)) if measures is None and before.kind != after.kind else measures


def _evaluated(forecasts: Forecasts, rows: ForecastSheet, request: EvaluateForecasts) -> dict[str, Any]:
    from calibrant.core.progress import reporting
    from calibrant.distributions.evaluation import evaluate_distribution
    from calibrant.distributions.forecasts import FIELDS

    with bar() as shown, reporting(shown):
        found = evaluate_distribution(
            rows.observed,
            measures=request.measures,
            weights=rows.weights,
            weights_kind=rows.weights_kind,
            groups=rows.groups,
            clusters=rows.clusters,
            by=rows.by,
            interval=request.interval,
            seed=request.seed,
            **{name: getattr(forecasts, name) for name in FIELDS[forecasts.kind]},
        )
    return found.to_dict()


def rows_of(sheet: ForecastSheet, seed: int) -> tuple[ForecastSheet, Rows]:
    """Return the rows with a positive weight, also as those of an evaluation."""
    from calibrant.distributions.evaluation import read_rows

    if sheet.weights is not None and not sheet.weights.all() and sheet.weights.any():
        sheet = _rows(sheet, sheet.weights != 0.0)
    given: dict[str, Any] = {"weights": sheet.weights, "weights_kind": sheet.weights_kind, "clusters": sheet.clusters}
    return sheet, read_rows(sheet.forecasts, sheet.observed, seed=seed, **given)[0]


# --- In the order of time


class InOrder(NamedTuple):
    """Options of a recalibration in the order of time; ``scale`` is the value of --scale."""

    half_life: float
    scale: str
    support: Support
    options: Mapping[str, Any]


def recalibrated(recalibrate: Callable[..., AdaptiveForecasts], rows: ForecastSheet, how: InOrder) -> AdaptiveForecasts:
    """Recalibrate the rows with the function of the library or of a client."""
    from calibrant.distributions.forecasts import FIELDS

    unknown = [name for name in how.options if name not in ("shift", "widen", "narrow")]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]} must be shift, widen or narrow", param_hint="--option")
    return recalibrate(
        rows.observed,
        rows.times,
        rows.known,
        half_life=how.half_life,
        horizon=rows.by,
        scale="identity" if how.scale == "probability" else how.scale,
        support=how.support,
        **{name: getattr(rows.forecasts, name) for name in FIELDS[rows.forecasts.kind]},
        **how.options,
    )


# --- Fits


@dataclass(frozen=True)
class FitForecasts:
    """Options of a fit of predictive distributions."""

    method: str
    options: Mapping[str, Any]
    scale: str = "identity"
    support: Support = (None, None)
    seed: int = 0


def read_support(given: str | None) -> Support:
    """Parse ``--support``: two numbers separated by a comma, of which one can be missing."""
    if given is None:
        return (None, None)
    from calibrant.io.texts import number

    try:
        low, high = (None if not text.strip() else number(text) for text in given.split(","))
    except ValueError:
        raise typer.BadParameter("must be two numbers or one, such as 0,100 or 0,", param_hint="--support") from None
    return low, high


def fit_forecasts(rows: ForecastSheet, request: FitForecasts) -> DistributionMap:
    """Fit a map to the rows."""
    from calibrant.core.progress import reporting
    from calibrant.distributions.calibrators import fit_distribution
    from calibrant.distributions.forecasts import FIELDS

    forecasts = rows.forecasts
    with bar() as shown, reporting(shown):
        return fit_distribution(
            request.method,
            rows.observed,
            by=rows.by,
            groups=rows.groups,
            weights=rows.weights,
            weights_kind=rows.weights_kind,
            scale=request.scale,  # type: ignore[arg-type]
            support=request.support,
            seed=request.seed,
            **{name: getattr(forecasts, name) for name in FIELDS[forecasts.kind]},
            **dict(request.options),
        )


def summarize(fitted: DistributionMap, n: int) -> None:
    """Print the method, the number of rows, the cross-fitted gain and warnings."""
    say(f"fitted {fitted.method} ({fitted.kind}) to {counted(n)}{weighted(fitted.diagnostics)}")
    gain = fitted.diagnostics.get("held_out_gain")
    if gain is not None:
        relative = "" if gain.get("relative") is None else f", {100 * gain['relative']:.1f} %"
        error = f"standard error {gain['standard_error']:.3g}"
        say(f"cross-fitted gain of the {gain['score']}: {gain['gain']:.4g}{relative} ({error})")
    if "warning" in fitted.diagnostics:
        say(str(fitted.diagnostics["warning"]))


def held_groups(size: npt.NDArray[np.int64], order: npt.NDArray[np.int64], holdout: float) -> npt.NDArray[np.int64]:
    """Return the groups to hold out: in this order, each that brings their rows closer to the fraction ``holdout``.

    If none does, it is the smallest group.
    """
    import numpy as np

    wanted, held, found = holdout * int(size.sum()), 0, []
    for group, rows in zip(order.tolist(), size[order].tolist(), strict=True):
        if held + rows / 2.0 <= wanted:
            held += rows
            found.append(group)
    return np.array(found or [int(size.argmin())])


def split(rows: ForecastSheet, holdout: float, seed: int) -> tuple[ForecastSheet, ForecastSheet]:
    """Split the rows at random into those of the fit and those held out; rows of a group stay together."""
    import numpy as np

    random = np.random.default_rng(seed)
    if rows.groups is None:
        is_held = np.isin(np.arange(len(rows)), random.permutation(len(rows))[: math.ceil(holdout * len(rows))])
    else:
        _, names, size = np.unique(rows.groups, return_inverse=True, return_counts=True)
        is_held = np.isin(names, held_groups(size, random.permutation(len(size)), holdout))
    if is_held.all() or not is_held.any():
        raise Refused(f"--holdout {holdout:g} leaves no rows on one side; the file has {counted(len(rows))}")
    return _rows(rows, ~is_held), _rows(rows, is_held)


def _rows(rows: ForecastSheet, kept: npt.NDArray[Any]) -> ForecastSheet:
    import numpy as np

    def texts(names: Sequence[str] | None) -> list[str] | None:
        return None if names is None else [name for name, one in zip(names, kept, strict=True) if one]

    return replace(
        rows,
        forecasts=rows.forecasts.take(np.flatnonzero(kept)),
        observed=None if rows.observed is None else rows.observed[kept],
        weights=None if rows.weights is None else rows.weights[kept],
        groups=texts(rows.groups),
        clusters=texts(rows.clusters),
        by=texts(rows.by),
        times=texts(rows.times),
        known=texts(rows.known),
    )
