"""Log losses on the training rows, ours and other libraries'; none may be lower. Writes docs/benchmarks/optima.md."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax, logit, softmax

import calibrant
from benchmarks.compare.data import FilePredictions, classifiers, read_file
from benchmarks.records import publish
from benchmarks.timing import machine
from calibrant.core.batch import read_batch
from calibrant.core.errors import CalibrationError
from calibrant.core.reductions import reduce

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "optima.md"
PEERS = ("betacal", "netcal", "scikit-learn")
#: Probabilities are clipped here, for every library; exact zeros would make ours choose an amount of smoothing.
_CLIP = 1e-15

#: Classes above which `matrix` is left out: without a penalty our fit of 100 classes takes more than ten minutes.
_MOST_CLASSES = 24

#: The family whose fits return logits, because a probability rounded to 0 or 1 loses the size of its error.
_LOGITS = "platt"

Array = Any
Fitted = Callable[[], Array]


def event_contenders(p: Array, y: Array) -> dict[str, dict[str, Fitted]]:
    """Each family's fits to one event: functions that fit and return calibrated probabilities, or logits for Platt."""
    from betacal import BetaCalibration
    from netcal.scaling import BetaCalibration as NetcalBeta
    from netcal.scaling import LogisticCalibration
    from sklearn.isotonic import IsotonicRegression
    from sklearn.linear_model import LogisticRegression

    inside = np.clip(p, _CLIP, 1.0 - _CLIP)
    z = logit(inside)

    def ours() -> Array:
        fitted = calibrant.fit("platt", inside, y, target_smoothing=False).function.parameters()
        return fitted["slope"] * z + fitted["intercept"]

    def theirs() -> Array:
        return LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(z[:, None], y).decision_function(z[:, None])

    def netcal() -> Array:
        sites = LogisticCalibration().fit(inside, y)._sites
        return float(sites["weights"]["values"][0]) * z + float(sites["bias"]["values"][0])

    return {
        _LOGITS: {"calibrant": ours, "scikit-learn": theirs, "netcal": netcal},
        "beta": {
            "calibrant": lambda: calibrant.fit("beta", inside, y).apply(inside),
            "betacal": lambda: BetaCalibration("abm").fit(inside[:, None], y).predict(inside[:, None]),
            "netcal": lambda: NetcalBeta().fit(inside, y).transform(inside).ravel(),
        },
        "isotonic": {
            "calibrant": lambda: calibrant.fit("isotonic", p, y).apply(p),
            "scikit-learn": lambda: IsotonicRegression(y_min=0, y_max=1).fit(p, y).predict(p),
        },
    }


def vector_contenders(predictions_file: FilePredictions) -> dict[str, dict[str, Fitted]]:
    """The same for the whole vector, on the given logits or the logarithms of the probabilities."""
    from netcal.scaling import TemperatureScaling
    from sklearn.linear_model import LogisticRegression

    values, labels, scale = predictions_file
    of_logits = scale == "logit"
    if not of_logits:
        values = np.maximum(values, _CLIP)
    z = values.astype(np.float64) if of_logits else np.log(values.astype(np.float64))
    p = softmax(z, axis=1)

    def ours(method: str, **options: Any) -> Fitted:
        fit = partial(calibrant.fit, method, values, labels, reduction="canonical", scale=scale, **options)
        return lambda: fit().apply(values)

    def netcal() -> Array:
        calibrated = TemperatureScaling().fit(p, labels).transform(p)
        return calibrated if calibrated.ndim == 2 else np.column_stack([1.0 - calibrated, calibrated])

    def theirs() -> Array:
        regression = LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000).fit(z, labels)
        scores = regression.decision_function(z)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return np.exp(log_softmax(scores, axis=1))

    contenders = {"temperature": {"calibrant": ours("temperature"), "netcal": netcal}}
    if values.shape[1] <= _MOST_CLASSES:
        contenders["matrix"] = {"calibrant": ours("matrix", strength=0.0), "scikit-learn": theirs}
    return contenders


def _loss(fit: Fitted, labels: Array, family: str) -> float | str:
    try:
        q = np.asarray(fit(), dtype=np.float64)
    except CalibrationError as error:
        return error.code
    except Exception as error:  # any exception is a result here
        return type(error).__name__
    if family == _LOGITS:
        return float(np.mean(np.logaddexp(0.0, np.where(labels == 1, -q, q))))
    own = np.where(labels == 1, q, 1.0 - q) if q.ndim == 1 else q[np.arange(len(q)), labels]
    return float(-np.mean(np.log(np.clip(own, 1e-300, 1.0))))


def rows(path: Path, dtype: Any) -> list[str]:
    """The table's rows of one file in one precision."""
    predictions_file = read_file(path)
    predictions_file = predictions_file._replace(values=predictions_file.values.astype(dtype))
    event = reduce(
        read_batch(predictions_file.values, predictions_file.labels, scale=predictions_file.scale), "confidence"
    )
    lines = []
    parts = [
        (event_contenders(event.p, event.y.astype(int)), event.y),
        (vector_contenders(predictions_file), predictions_file.labels),
    ]
    for contenders, labels in parts:
        for family, fits in contenders.items():
            losses = {name: _loss(fit, labels, family) for name, fit in fits.items()}
            ours, theirs = (
                losses.pop("calibrant"),
                [x for x in losses.values() if isinstance(x, float) and np.isfinite(x)],
            )
            others = "; ".join(
                f"{name} {x:.10f}" if isinstance(x, float) else f"{name} {x}" for name, x in losses.items()
            )
            verdict = (
                "no map" if isinstance(ours, str) else "yes" if ours <= min(theirs, default=ours) + 1e-9 else "**no**"
            )
            shown = ours if isinstance(ours, str) else f"{ours:.10f}"
            lines.append(f"| {path.stem} | {np.dtype(dtype).name} | {family} | {shown} | {others} | {verdict} |")
    return lines


def main() -> None:
    """Fit everything and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of .npz files, as for `make compare`")
    files = classifiers(parser.parse_args().folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = [row for path in files for dtype in (np.float64, np.float32) for row in rows(path, dtype)]
    lines = [
        "# Optima of fits",
        "",
        f"Generated by `make optima DATA=folder` ({machine()};",
        f"{', '.join(f'{name} {version(name)}' for name in PEERS)}). The "
        "figures are mean log losses, in nats, on the training rows.",
        "`platt` (without target smoothing), `beta` and `isotonic` calibrate the confidence, `temperature` and, up to",
        f"{_MOST_CLASSES} classes, `matrix` without a penalty the whole vector. "
        "No other library may have a loss more than",
        f"1e-9 below ours. Given probabilities are clipped at {_CLIP:.0e} for every library, except for `isotonic`;",
        "calibrated ones that round to 0 count as 1e-300. The loss of `platt` is computed exactly, from the logits.",
        "",
        "| file | precision | family | calibrant | others | ours at most 1e-9 higher |",
        "|---|---|---|---|---|---|",
        *table,
        "",
    ]
    publish(PAGE, "\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
