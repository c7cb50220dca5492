"""Diagrams of predictive distributions on matplotlib axes."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from calibrant.core.arrays import texts_of_times
from calibrant.core.errors import InvalidOption
from calibrant.core.results import Suggesting, n_rows
from calibrant.diagrams.diagram import read_argument
from calibrant.diagrams.forecasts import DISTRIBUTION_DIAGRAMS, drawn, read_distribution_diagrams
from calibrant.distributions.evaluation import DistributionReport
from calibrant.distributions.forecasts import Forecasts
from calibrant.plots.axes import check_options, draw_entries, draws_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DRAWS = draws_for(
    "DistributionReport",
    "DISTRIBUTION_DIAGRAMS",
    "calibrant.evaluate_distribution([0.0, 1.0, 3.0], mean=[0.0, 0.0, 2.0], variance=[1.0, 1.0, 4.0])",
    "``after`` and, for a fan, ``times (n,)`` (distinct numbers or dates), and o",
)


class DistributionPlotter(Suggesting):
    """Draw the diagrams of predictive distributions on matplotlib axes.

    ``report.plot()`` draws the coverage by level, and each method another diagram. With ``after``, such as
    ``fitted.apply(...)``, the diagrams before and after a map are overlaid.

    Parameters
    ----------
    report : DistributionReport
        The report.

    See Also
    --------
    DistributionReport.plot : Returns this object.

    Examples
    --------
    >>> import calibrant
    >>> report = calibrant.evaluate_distribution([0.0, 1.0, 3.0], mean=[0.0, 0.0, 2.0], variance=[1.0, 1.0, 4.0])
    >>> report.plot.pit().get_ylabel()
    'density'
    """

    _familiar = MappingProxyType({"coverage": "plot()"})

    def __init__(self, report: DistributionReport) -> None:
        self._report = report

    def __call__(
        self,
        diagram: str = "coverage",
        ax: Axes | None = None,
        *,
        after: Forecasts | None = None,
        times: Any = None,
        **options: Any,
    ) -> Axes:
        """Draw a diagram; ``options`` are those of ``calibrant.DISTRIBUTION_DIAGRAMS``, ``times`` are for a fan."""
        check_options(diagram, options, DISTRIBUTION_DIAGRAMS)
        request = read_argument(read_distribution_diagrams, diagram, options)
        rows = self._report.source
        if rows is None:
            raise InvalidOption.at("/diagram", "needs the rows, which this report does not have")
        if not isinstance(after, Forecasts | None):
            raise InvalidOption.at("/after", "must be forecasts, such as those of fitted.apply(...)")
        if after is not None and len(after) != len(rows):
            raise InvalidOption.at("/after", f"has {n_rows(len(after))}, but the report has {len(rows):,}")
        names = None if times is None else texts_of_times(times)
        sides = [rows, *([] if after is None else [replace(rows, forecasts=after)])]
        return draw_entries(request.diagram.name, [drawn(request, side, names) for side in sides], ax)

    @_DRAWS
    def pit(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the PIT histogram, with a simultaneous band.

        >>> report.plot.pit().get_ylabel()
        'density'
        """
        return self("pit", ax, **options)

    @_DRAWS
    def quantile_reliability(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the share of outcomes that are at most the quantile of each level, with a simultaneous band.

        >>> report.plot.quantile_reliability().get_xlabel()
        'level of the quantile'
        """
        return self("quantile-reliability", ax, **options)

    @_DRAWS
    def mean_variance(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the mean squared error by the predicted variance, on logarithmic axes.

        >>> report.plot.mean_variance(n_bins=2).get_xlabel()
        'predicted variance (log scale)'
        """
        return self("mean-variance", ax, **options)

    @_DRAWS
    def sharpness(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the mean width of central intervals against their coverage.

        >>> report.plot.sharpness().get_ylabel()
        'mean width of the interval'
        """
        return self("sharpness", ax, **options)

    @_DRAWS
    def fan(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw intervals, medians and outcomes of one series over time.

        >>> report.plot.fan(times=["2024-01-01", "2024-01-08", "2024-01-15"]).get_xlabel()
        'time (UTC)'
        """
        return self("fan", ax, **options)
