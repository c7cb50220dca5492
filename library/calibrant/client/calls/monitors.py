"""Monitors of live models: create, read, list, change and delete."""

from __future__ import annotations

from collections.abc import Sequence

from calibrant.client.answers import MonitorReading
from calibrant.client.requests import get, path_of, read
from calibrant.client.retries import Patience, send
from calibrant.client.steps import Steps


def monitor(
    patience: Patience,
    name: str,
    *,
    windows: str | Sequence[str] = (),
    groups: int | None = None,
    threshold: float | None = None,
    reference: str | None = None,
) -> Steps[MonitorReading]:
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
    names = windows if isinstance(windows, str) else ",".join(windows)
    query = {"windows": names or None, "groups": groups, "threshold": threshold, "reference": reference}
    answer = yield from send(patience, get(path_of("monitors", name), query))
    return read(MonitorReading, answer)
