"""Time of fitting and applying calibration maps, and of other libraries in the same run.

Writes docs/benchmarks/map-speed.md.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import calibrant
from benchmarks.peers.data import binary, load_matrix, matrix, save_matrix
from benchmarks.peers.run import Goal, in_child
from benchmarks.peers.speed import Seconds
from benchmarks.records import publish
from benchmarks.timing import machine, medians

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "map-speed.md"
PEERS = ("betacal", "netcal", "scikit-learn", "venn-abers", "numpy", "scipy", "torch")
MILLION, SPLINE_ROWS, ROUNDS, SLOW_ROUNDS = 1_000_000, 100_000, 5, 3
#: Rows and classes of the two matrices.
SMALL, LARGE = (100_000, 10), (50_000, 1_000)
#: Goals in seconds for applying a map to a million unsorted scores; other maps are only reported.
PARAMETRIC = ("identity", "platt", "temperature", "beta")
APPLIED = {**dict.fromkeys(PARAMETRIC, 0.025), "isotonic": 0.05, "pl": 0.05, "pl3": 0.3, "averaged": 1.0}


def fits() -> Seconds:
    """Isotonic, Platt and beta calibration at a million rows."""
    from betacal import BetaCalibration
    from netcal.binning import IsotonicRegression as NetcalIsotonic
    from netcal.scaling import BetaCalibration as NetcalBeta
    from scipy.optimize import isotonic_regression
    from scipy.special import logit
    from sklearn.isotonic import IsotonicRegression
    from sklearn.linear_model import LogisticRegression

    p, y = binary(MILLION)
    z = logit(np.clip(p, 1e-12, 1 - 1e-12))[:, None]
    return medians(
        {
            "isotonic": lambda: calibrant.fit("isotonic", p, y),
            "isotonic, scipy with a sort": lambda: isotonic_regression(y[np.argsort(p)]),
            "isotonic, scikit-learn": lambda: IsotonicRegression(out_of_bounds="clip").fit(p, y),
            "isotonic, netcal": lambda: NetcalIsotonic().fit(p, y),
            "platt": lambda: calibrant.fit("platt", p, y),
            "platt, scikit-learn": lambda: LogisticRegression(C=np.inf, tol=1e-8).fit(z, y),
            "beta": lambda: calibrant.fit("beta", p, y),
            "beta, betacal": lambda: BetaCalibration("abm").fit(p[:, None], y),
            "beta, netcal": lambda: NetcalBeta().fit(p, y),
        },
        rounds=SLOW_ROUNDS,
    )


def spline() -> Seconds:
    """The spline with six knots."""
    p, y = binary(SPLINE_ROWS)
    return medians({"spline": lambda: calibrant.fit("spline", p, y)}, rounds=ROUNDS)


def venn_abers() -> Seconds:
    """The inductive predictor, fitted and applied to ten thousand scores."""
    from venn_abers import VennAbers

    p, y = binary(SPLINE_ROWS)
    new = p[:10_000]

    def theirs() -> None:
        peer = VennAbers()
        peer.fit(np.column_stack([1 - p, p]), y)
        peer.predict_proba(np.column_stack([1 - new, new]))

    return medians(
        {"venn-abers": lambda: calibrant.fit("venn-abers", p, y).apply(new), "venn-abers, authors' package": theirs},
        rounds=SLOW_ROUNDS,
    )


class _Given:
    """A fitted classifier whose features are its own logits."""

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes
        self.classes_ = np.arange(n_classes)
        self.n_features_in_ = n_classes

    def fit(self, X: Any, y: Any) -> Any:  # noqa: ARG002 - it is fitted
        return self

    def predict(self, X: Any) -> Any:
        return X.argmax(axis=1)

    def decision_function(self, X: Any) -> Any:
        return X


def temperature(n: int, n_classes: int) -> Seconds:
    """Temperature scaling of probabilities and of logits."""
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    classifier_type = type("Given", (_Given, ClassifierMixin, BaseEstimator), {})(n_classes)
    p, labels = matrix(n, n_classes)
    z = np.log(np.maximum(p, np.float32(2.0**-52)))

    def theirs() -> object:
        return CalibratedClassifierCV(FrozenEstimator(classifier_type), method="temperature", ensemble=False).fit(
            z, labels
        )

    return medians(
        {
            "of probabilities": lambda: calibrant.fit("temperature", p, labels),
            "of logits": lambda: calibrant.fit("temperature", z, labels, scale="logit"),
            "scikit-learn, of logits": theirs,
        },
        rounds=SLOW_ROUNDS,
    )


def temperature_memory(folder: Path) -> float:
    """The peak memory in MB of a process that reads a matrix and fits a map."""
    p, labels = load_matrix(folder)
    calibrant.fit("temperature", p, labels)
    return _peak()


def applied() -> Seconds:
    """Every curve on a million unsorted scores."""
    p, y = binary(20_000, seed=1)
    scores, _ = binary(MILLION)
    names = [n for n, m in calibrant.METHODS.items() if m.event is not None and n not in ("pl-de", "prior-shift")]
    maps = {name: calibrant.fit(name, p, y, reduction="binary") for name in names}
    return medians({name: _applying(fitted, scores) for name, fitted in maps.items()}, rounds=ROUNDS)


def applied_to_vectors() -> Seconds:
    """Every transform on the smaller matrix."""
    p, labels = matrix(5_000, SMALL[1], seed=1)
    rows, _ = matrix(*SMALL)
    names = [n for n, m in calibrant.METHODS.items() if m.vector is not None and n != "prior-shift"]
    maps = {name: calibrant.fit(name, p, labels, reduction="canonical") for name in names}
    return medians({name: _applying(fitted, rows) for name, fitted in maps.items()}, rounds=SLOW_ROUNDS)


def _applying(fitted: calibrant.CalibrationMap, rows: Any) -> Callable[[], object]:
    return lambda: fitted.apply(rows)


def _peak() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _lines(seconds: Seconds) -> list[str]:
    return [f"| {name} | {taken * 1e3:,.1f} |" for name, taken in seconds.items()]


def _table(title: str, seconds: Iterable[Seconds]) -> str:
    return "\n".join([f"## {title}", "", "| call | ms |", "|---|---|", *(x for s in seconds for x in _lines(s)), ""])


def page() -> str:
    """Measure everything and return the page."""
    load = os.getloadavg()[0]
    fitted, splines, inductive = in_child(fits), in_child(spline), in_child(venn_abers)
    small, large = in_child(temperature, *SMALL), in_child(temperature, *LARGE)
    with tempfile.TemporaryDirectory() as folder:
        save_matrix(Path(folder), *LARGE)
        held = in_child(temperature_memory, Path(folder))
    curves, transforms = in_child(applied), in_child(applied_to_vectors)
    ratio = fitted["isotonic"] / fitted["isotonic, scipy with a sort"]
    goals = [
        Goal("isotonic at 1e6 rows, relative to scipy with a sort", ratio, 1.3, " times"),
        Goal("Platt at 1e6 rows", fitted["platt"], 0.06, " s"),
        Goal("beta at 1e6 rows", fitted["beta"], 0.06, " s"),
        Goal("temperature, 1e5 x 10, of logits", small["of logits"], 0.04, " s"),
        Goal("temperature, 1e5 x 10, of probabilities", small["of probabilities"], 0.04, " s"),
        Goal("temperature, 5e4 x 1000 float32, of logits", large["of logits"], 0.6, " s"),
        Goal("temperature, 5e4 x 1000 float32, of probabilities", large["of probabilities"], 0.6, " s"),
        Goal("temperature, 5e4 x 1000 float32, peak memory with 200 MB of rows", held, 600, " MB"),
        Goal("spline, 6 knots, 1e5 rows", splines["spline"], 0.025, " s"),
        *(Goal(f"applying `{name}` to 1e6 scores", curves[name], most, " s") for name, most in APPLIED.items()),
    ]
    parts = [
        "# Speed of fitting and applying maps",
        "",
        f"Generated by `make map-speed` ({machine()}; load average {load:.1f} before the run). Medians of {ROUNDS} or "
        f"{SLOW_ROUNDS} interleaved runs",
        "of whole calls with their checks. " + ", ".join(f"{name} {version(name)}" for name in PEERS) + ".",
        "",
        "| goal | measured | at most | result |",
        "|---|---|---|---|",
        *(goal.row() for goal in goals),
        "",
        _table("Fits to 1,000,000 rows of one event", [fitted]),
        _table("Fits to 100,000 rows of one event; Venn-Abers also applied to 10,000 scores", [splines, inductive]),
        _table(f"Temperature, {SMALL[0]:,} rows of {SMALL[1]} classes, float32", [small]),
        _table(f"Temperature, {LARGE[0]:,} rows of {LARGE[1]:,} classes, float32", [large]),
        _table("Applying to 1,000,000 scores, maps fitted to 20,000 rows", [curves]),
        _table(f"Applying to {SMALL[0]:,} rows of {SMALL[1]} classes", [transforms]),
    ]
    return "\n".join(parts)


def main() -> None:
    """Measure and write the page."""
    text = page()
    publish(PAGE, text)
    print(text)


if __name__ == "__main__":
    main()
