"""The files that people drop: predictions that are off by a power, in every form that the page takes, and some that
it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from playwright.sync_api import FilePayload

from tests.packed import npz, parquet

Rows = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]


def rows(n: int, seed: int = 0) -> Rows:
    """Predictions that are too low, and the labels that came true."""
    random = np.random.default_rng(seed)
    c = random.random(n)
    return np.round(c**1.4, 6), (random.random(n) < c).astype(np.int64)


def csv_file(
    n: int = 400, *, scale: float = 1.0, labels: Sequence[str] = ("0", "1"), header: str = "p,y"
) -> FilePayload:
    """A CSV file; ``labels`` are how the two classes are written."""
    p, y = rows(n)
    lines = [header, *(f"{a * scale:.6g},{labels[b]}" for a, b in zip(p.tolist(), y.tolist(), strict=True))]
    return payload("predictions.csv", "\n".join(lines).encode() + b"\n")


def npz_file(n: int = 400) -> FilePayload:
    """An NPZ archive of arrays of the service's own names."""
    p, y = rows(n)
    return payload("predictions.npz", npz(predictions=p, labels=y))


def parquet_file(n: int = 400) -> FilePayload:
    """A Parquet file."""
    p, y = rows(n)
    return payload("predictions.parquet", parquet({"p": p, "y": y}))


def forecasts(n: int = 300) -> FilePayload:
    """Means and standard deviations that are too small, with the outcomes."""
    random = np.random.default_rng(0)
    mean = random.normal(size=n)
    lines = [f"{y:.6g},{m:.6g},1" for m, y in zip(mean.tolist(), random.normal(mean, 2.0).tolist(), strict=True)]
    return payload("forecasts.csv", "\n".join(["rain,mean,std", *lines, ""]).encode())


def image() -> FilePayload:
    """A picture that is called a table."""
    return payload("predictions.csv", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256)))


def payload(name: str, content: bytes) -> FilePayload:
    """A file as a browser is given it."""
    return {"name": name, "mimeType": "application/octet-stream", "buffer": content}


KINDS: dict[str, Callable[[], FilePayload]] = {"csv": csv_file, "npz": npz_file, "parquet": parquet_file}
