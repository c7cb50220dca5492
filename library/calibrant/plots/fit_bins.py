"""The in-sample reliability diagram of a stored map, before and after it, from the bins in its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.diagrams.reliability import wilson
from calibrant.plots.canvas import Canvas, Caption, Drawn, Format, NothingToDraw, Theme
from calibrant.plots.panel import one_panel, values
from calibrant.plots.reliability import RELIABILITY

#: The most bins drawn, of at most 100 in a record, and the bars of the histogram.
_DRAWN, _BARS = 20, 20
_LEVEL = 0.95

Array = npt.NDArray[np.float64]


def draw_fit_bins(
    bins: Mapping[str, Any] | None,
    about: Caption,
    *,
    errors: tuple[float, float] | None = None,
    form: Format = "svg",
    theme: Theme = "auto",
    width: int = 560,
) -> Drawn:
    """Draw the in-sample reliability diagram of a fit, before and after the map.

    Parameters
    ----------
    bins : mapping or None
        ``bins`` of the record of a map, as JSON. Neighbouring bins are merged to 20; the histogram assumes that rows
        are spread evenly over each bin.
    about : Caption
        Rows, reduction and name for the title.
    errors : (float, float), optional
        ECE of the rows before and after the map, which is more exact than that of the merged bins.
    form, theme, width
        As for ``calibrant.plots.diagram.draw``.

    Raises
    ------
    NothingToDraw
        If ``bins`` is None.
    """
    if bins is None:
        raise NothingToDraw("the record of the map has no bins of its fit")
    plot = replace(RELIABILITY, kind="In-sample reliability diagram")
    before, after = (_shown(bins[side]) for side in ("before", "after"))
    canvas = Canvas(width, theme=theme, form=form)
    abouts = [
        replace(about, error=None if errors is None else ("plain ECE", errors[i]), interval=None) for i in range(2)
    ]
    return one_panel(canvas, plot, (before, abouts[0]), (after, abouts[1]))


def reliability_of(bins: Mapping[str, Any]) -> dict[str, Any]:
    """Merge bins to at most 20; returns the data of a reliability diagram."""
    count, rows, share = (values(bins[name]) for name in ("count", "rows", "share"))
    groups = np.minimum((np.cumsum(share) - share / 2.0) / share.sum() * _DRAWN, _DRAWN - 1).astype(np.int64)
    first = np.unique(groups, return_index=True)[1]
    mass, number = (np.add.reduceat(part, first) for part in (share, count))
    effective = mass**2 / np.add.reduceat(share**2 / rows, first)  # of weights w: (sum w)^2 / sum w^2
    mean = np.add.reduceat(share * values(bins["mean_prediction"]), first) / mass
    positive = np.clip(np.add.reduceat(share * values(bins["observed_frequency"]), first) / mass, 0.0, 1.0)
    border = values(bins["start"])[first]
    start, end = np.append(0.0, border[1:]), np.append(border[1:], 1.0)
    gap = positive - mean
    low, high = wilson(positive, effective, _LEVEL)
    return {
        "start": start, "end": end, "count": number, "rows": effective, "share": mass, "mean_prediction": mean,
        "observed_frequency": positive, "gap": gap, "low": low, "high": high, "roof_start": start + gap,
        "roof_end": end + gap, "ece": float(mass @ np.abs(gap)), "ece_debiased": None, "axes": "linear",
        "histogram": _histogram(bins),
    }  # fmt: skip


def _histogram(bins: Mapping[str, Any]) -> dict[str, Array]:
    """Return a histogram; the rows of a bin are spread evenly and symmetrically around its mean."""
    start, mean, share = (values(bins[name]) for name in ("start", "mean_prediction", "share"))
    following = np.append(start[1:], 1.0)
    end = np.clip(2.0 * mean - start, start, following)
    edges = np.arange(_BARS + 1) / _BARS
    wide = np.maximum(end - start, 1e-12)
    before = np.clip((edges[:, None] - start) / wide, 0.0, 1.0) @ share
    before[-1] = share.sum()
    return {"edges": edges, "share": np.diff(before)}


def _shown(bins: Mapping[str, Any]) -> dict[str, Any]:
    return {"data": reliability_of(bins), "definition": {"level": _LEVEL, "binning": "equal-mass"}, "problem": None}
