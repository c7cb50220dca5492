"""The commands for files of predictive distributions: ``--regression``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import typer

from calibrant.cli.exits import Refused, errors_in_a_line
from calibrant.cli.output import bar, counted, say, say_map, weighted
from calibrant.cli.results import Fitted
from calibrant.cli.rows import Columns, name_of, read_forecast_rows
from calibrant.cli.server_url import client_of
from calibrant.io.options import OPTIONS

if TYPE_CHECKING:
    from calibrant.client import Calibrant
    from calibrant.client.frames import DistributionRows, ForecastArguments
    from calibrant.distributions.adaptive import AdaptiveForecasts
    from calibrant.distributions.forecasts import Forecasts
    from calibrant.distributions.maps.distribution_map import DistributionMap, Support
    from calibrant.io.table import ForecastSheet

FAN_TIME = "With --regression: column of times, the x axis of the fan chart; numbers or ISO 8601."
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


def check_alone(*, regression: bool, columns: Columns) -> None:
    """Raise ``BadParameter`` for options of a file that do not fit the kind of predictions."""
    other, what = (
        ("classes", "cannot be combined with --regression") if regression else ("numbers", "needs --regression")
    )
    for name, option in OPTIONS.items():
        if option.kind == other and option.default is None and columns.get(name) is not None:
            raise typer.BadParameter(what, param_hint=option.flag)


def read_distribution_map(document: Mapping[str, Any] | str) -> DistributionMap:
    """Read a map of predictive distributions; raises ``Refused`` for a map of classifiers."""
    from calibrant.distributions.maps.distribution_map import load_distribution
    from calibrant.kinds import is_of_distributions

    if not is_of_distributions(document):
        raise Refused("the map is one of class probabilities; omit --regression")
    return load_distribution(document)


# --- The engine of a command: this process or a server


@contextlib.contextmanager
def forecasts_of(server: str | None) -> Iterator[LocalForecasts | RemoteForecasts]:
    """Open the engine of this process or of a server; an error ends the command with one line."""
    if not server:
        with errors_in_a_line():
            yield LocalForecasts()
        return
    with client_of(server, "maps") as client:
        yield RemoteForecasts(client)


class LocalForecasts:
    """The operations of the commands in this process."""

    def map(self, applied: str | Mapping[str, Any] | None) -> DistributionMap | None:
        """Load the document of a map; None without one."""
        return None if applied is None else read_distribution_map(applied)

    def evaluate(self, rows: ForecastSheet, request: EvaluateForecasts) -> dict[str, Any]:
        """Evaluate the rows; with a map, also ``after`` it, and whether the map was fitted to these rows."""
        from calibrant.core.progress import reporting
        from calibrant.kinds.distributions import DistributionEvaluation

        evaluation = DistributionEvaluation.read(**vars(request), comparable=True)
        with bar() as shown, reporting(shown):
            found = evaluation.document(rows)
        if found["kind"] != rows.forecasts.kind:
            say("before the map: quantiles at the levels of the map, so that the scores are comparable")
        return _merged(found)

    def fit(self, rows: ForecastSheet, request: FitForecasts) -> Fitted:
        """Fit a map to the rows, which is not stored."""
        from calibrant.core.progress import reporting
        from calibrant.distributions.calibrators import DistributionFitting

        fitting = DistributionFitting.read(
            request.method, request.options, scale=request.scale, support=request.support, seed=request.seed
        )
        with bar() as shown, reporting(shown):
            return Fitted(fitting.run(fitting.check(rows)).to_document(), None)

    def calibrate(self, rows: ForecastSheet, fitted: DistributionMap) -> Forecasts:
        """Apply a map to the forecasts."""
        return fitted.apply_checked(rows.forecasts, by=rows.by)

    def draw(
        self,
        rows: ForecastSheet,
        diagram: str | dict[str, Any],
        fitted: DistributionMap | None,
        seed: int,
        style: Mapping[str, Any],
        name: str,
    ) -> bytes:
        """Draw a diagram of the rows of the file with this ``name``."""
        from calibrant.kinds.distributions import DistributionEvaluation
        from calibrant.plots.canvas import Caption
        from calibrant.plots.diagram import draw

        found = DistributionEvaluation.read([], [diagram], map=fitted, seed=seed).document(rows)
        ((key, shown),) = found["diagrams"].items()
        after = None
        if found["after"] is not None:
            after = found["after"]["diagrams"][key], Caption(found["n"], found["after"]["kind"])
        about = Caption(found["n"], found["kind"], name)
        return draw(shown["definition"]["name"], shown, about, after=after, **style).content


class RemoteForecasts:
    """The operations on a server; rows are sent with each request, so the server stores only maps."""

    def __init__(self, client: Calibrant) -> None:
        self._client = client

    def map(self, applied: str | Mapping[str, Any] | None) -> str | None:
        """Return the reference of a map."""
        return cast("str | None", applied)

    def evaluate(self, rows: ForecastSheet, request: EvaluateForecasts) -> dict[str, Any]:
        """Evaluate the rows; with a map, also after it."""
        names = {self._stored(own, rows.observed): name for name, own in rows.others.items()}
        with bar() as shown:
            report = self._client.evaluate_distribution(
                rows.observed,
                map=request.map,
                measures=request.measures,
                against=list(names) or None,
                score=request.score,
                lags=request.lags,
                interval=request.interval,
                seed=request.seed,
                progress=shown.of_job,
                **_sent(rows),
            )
        found = _merged(report.to_dict())
        if "comparison" in found:
            found["comparison"] = _renamed(found["comparison"], names)
        return found

    def _stored(self, forecasts: Forecasts, observed: Any) -> str:
        """Store other forecasts for a comparison; returns the id of their batch."""
        return self._client.upload_distribution(observed, ttl=_STORED_SECONDS, **forecasts).id

    def fit(self, rows: ForecastSheet, request: FitForecasts) -> Fitted:
        """Fit a map to the rows; the server stores the map."""
        with bar() as shown:
            record = self._client.fit_distribution(
                request.method,
                rows.observed,
                name=request.name,
                options=request.options,
                scale=request.scale,
                support=request.support,
                seed=request.seed,
                allow_shape_change=request.allow_shape_change,
                progress=shown.of_job,
                **_sent(rows, "clusters"),
            )
        return Fitted(record.document, None, record.id if record.name is None else f"{record.name}:{record.version}")

    def calibrate(self, rows: ForecastSheet, map_of: str) -> Forecasts:
        """Apply a stored map to the forecasts."""
        given = cast("ForecastArguments", _sent(rows, "weights", "weights_kind", "groups", "clusters", "times"))
        answer = self._client.calibrate_distribution(map_of, return_map=True, **given)
        say_map(answer)
        calibrated: Forecasts = answer.calibrated
        return calibrated

    def draw(
        self,
        rows: ForecastSheet,
        diagram: str | dict[str, Any],
        map_of: str | None,
        seed: int,
        style: Mapping[str, Any],
        _name: str,
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
    columns = ("weights", "groups", "clusters", "by", "times", *(() if rows.weights is None else ("weights_kind",)))
    given: dict[str, Any] = {**rows.forecasts, **{name: getattr(rows, name) for name in columns}}
    return cast("DistributionRows", {name: value for name, value in given.items() if name not in without})


# --- Evaluation


@dataclass(frozen=True)
class EvaluateForecasts:
    """Options of an evaluation of predictive distributions; a comparison is with the other forecasts of the rows.

    ``map`` is what the method ``map`` of the engine returned.
    """

    measures: list[str | dict[str, Any]] | None = None
    map: Any = None
    interval: float | None = None
    seed: int = 0
    score: str | None = None
    lags: int = 0


def _merged(found: dict[str, Any]) -> dict[str, Any]:
    """Return a report without missing parts, with the results after the map beside those of each group before it."""
    found = {name: value for name, value in found.items() if value is not None or name == "groups"}
    for name, group in ((found.get("after") or {}).pop("groups", None) or {}).items():
        found["groups"][name]["after"] = {"measures": group["measures"]}
    return found


def with_others(
    rows: ForecastSheet, files: Sequence[Path] | None, columns: Columns, *, score: str | None, lags: int
) -> ForecastSheet:
    """Return the rows with the forecasts in the files of ``--against``; raises ``Refused`` for other outcomes."""
    if not files:
        for flag, given in (("--score", score), ("--lags", lags or None)):
            if given is not None:
                raise typer.BadParameter("needs --against", param_hint=flag)
        return rows
    import numpy as np

    others: dict[str, Forecasts] = {}
    for file in files:
        name = file.name
        if name in (*others, "forecasts", "calibrated"):
            raise typer.BadParameter("must have different file names", param_hint="--against")
        sheet = read_forecast_rows(file, columns, unused=("weights", "groups"))
        if not np.array_equal(np.asarray(sheet.observed), np.asarray(rows.observed)):
            raise Refused(f"{name_of(file)}: has other outcomes than the first file; a comparison needs the same rows")
        others[name] = sheet.forecasts
    return replace(rows, others=others)


# --- In the order of time


class InOrderFlags(NamedTuple):
    """Options of a recalibration in the order of time; ``scale`` is the value of --scale."""

    half_life: float
    scale: str
    support: Support
    options: Mapping[str, Any]


def recalibrated(
    recalibrate: Callable[..., AdaptiveForecasts], rows: ForecastSheet, how: InOrderFlags
) -> AdaptiveForecasts:
    """Recalibrate the rows with the function of the library or of a client."""
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
        **rows.forecasts,
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
    name: str | None = None
    allow_shape_change: bool = False


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
