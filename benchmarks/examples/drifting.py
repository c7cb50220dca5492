"""Monitors of the examples to which something happens: rows that are not calibrated, and what is done upon them."""

from __future__ import annotations

import time

import httpx
import numpy as np

#: Rows, and what their log-odds are above those of the predictions: an alarm, and a challenger that is better.
_ROWS, _SHIFT = 2000, 1.5
_GOLDEN = 0.6180339887498949
#: Seconds in which the look and the recalibration are done, and between two questions whether they are.
_PATIENCE, _PAUSE = 60.0, 0.1


def drift(http: httpx.Client, name: str) -> None:
    """Send a monitor rows that are not calibrated, and wait until a challenger is proposed."""
    i = np.arange(_ROWS)
    p = (i + 0.5) / _ROWS
    came = (i * _GOLDEN) % 1.0 < p / (p + (1.0 - p) * np.exp(-_SHIFT))
    rows = [{"prediction": q, "label": int(y)} for q, y in zip(p.tolist(), came.tolist(), strict=True)]
    http.post(f"/monitors/{name}/rows", json={"rows": rows}).raise_for_status()
    deadline = time.monotonic() + _PATIENCE
    while http.get(f"/monitors/{name}/proposal").status_code == httpx.codes.NOT_FOUND:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no challenger was proposed to {name}")
        time.sleep(_PAUSE)
