"""A diagram of the catalogue, as ``calibrant.diagrams`` tells it, as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from calibrant.plots.canvas import About, Canvas, Drawn, Format, Theme, UnknownPicture
from calibrant.plots.corp import CORP
from calibrant.plots.fitted import FITTED
from calibrant.plots.ks import KS, four_graphs, two_graphs
from calibrant.plots.logit import LOGIT
from calibrant.plots.panel import Plot, one_panel
from calibrant.plots.reliability import RELIABILITY

PLOTS: Mapping[str, Plot] = MappingProxyType(
    {"reliability": RELIABILITY, "fit-on-test": FITTED, "corp": CORP, "logit-logit": LOGIT, "ks-graphs": KS}
)


def draw(
    name: str,
    shown: Mapping[str, Any],
    about: About,
    *,
    after: tuple[Mapping[str, Any], About] | None = None,
    form: Format = "svg",
    theme: Theme = "auto",
    width: int = 560,
) -> Drawn:
    """Draw one diagram.

    Parameters
    ----------
    name : of the catalogue: reliability, fit-on-test, corp, logit-logit, ks-graphs
    shown : what a report holds of it under ``diagrams``: ``data``, ``definition`` and ``problem``
    about : what its title says beside its own figures
    after : the same diagram after a map, laid over it, and what it is about
    form, theme : ``auto`` follows the reader's preference in SVG; a PNG of it is light
    width : in pixels, from 320 to 2000; a PNG has twice as many

    Returns
    -------
    Drawn
        the picture, its media type and its figures in words; the same bytes for the same data

    Raises
    ------
    NothingToDraw
        where ``data`` is None
    UnknownPicture, InvalidPicture
        of a name, form, theme or width that there is not

    Examples
    --------
    >>> import calibrant
    >>> report = calibrant.evaluate([0.1, 0.4, 0.6, 0.9], [0, 0, 1, 1], diagrams=["reliability"])
    >>> drawn = draw("reliability", report.diagrams["reliability"], About(4, "binary"))
    >>> drawn.media_type, drawn.alt.partition(".")[0]
    ('image/svg+xml', 'Reliability diagram: 4 rows, reduction binary, ECE 0')
    """
    plot = plot_of(name)
    canvas = Canvas(width, theme=theme, form=form)
    if plot is not KS:
        return one_panel(canvas, plot, (shown, about), after)
    return four_graphs(canvas, (shown, about)) if after is None else two_graphs(canvas, (shown, about), after)


def plot_of(name: str) -> Plot:
    """The kind of diagram of a name. Raises ``UnknownPicture``."""
    if name not in PLOTS:
        raise UnknownPicture(f"no diagram is called so; there are {', '.join(PLOTS)}")
    return PLOTS[name]
