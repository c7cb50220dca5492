"""The 20 calibrators of Table F1, with the methods of the library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from calibrant import CalibrationMap
from calibrant.calibrators.fitting import Fitting
from calibrant.calibrators.method import FitContext
from calibrant.core.batch import read_batch
from calibrant.core.cells import Floats
from calibrant.core.reductions import Event

Labels = npt.NDArray[np.int64]

#: Calibrators of one event, which use only its probability: the method and its options.
BINARY: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "ES_sweep": ("es-sweep", {}),
    "PL3 CE": ("pl3", {}),
    "PL3 MSE": ("pl3", {"loss": "brier"}),
    "PL CE": ("pl", {}),
    "PL MSE": ("pl", {"loss": "brier"}),
    "Platt": ("platt", {}),
    "beta": ("beta", {}),
    "isotonic": ("isotonic", {}),
    "Scaling-Binning": ("scaling-binning", {}),
    "Scaling-Binning, 50 bins": ("scaling-binning", {"n_bins": 50}),
    "1-Temp": ("temperature", {}),
    **{f"Spline {name}": ("spline", {"knots": None, "boundary": name}) for name in ("natural", "cubic", "parabolic")},
}
#: Calibrators of the whole vector.
VECTOR: Mapping[str, str] = {
    "TempS": "temperature",
    "VecS": "vector",
    "dirL2": "dirichlet-l2",
    "dirODIR": "dirichlet-odir",
    "MSODIR": "matrix-odir",
    "IOP_OI": "iop-oi",
    "IOP_OP": "iop-op",
}
#: Columns of Table F1, in the paper's order.
CALIBRATORS = ("ES_sweep", "PL3 CE", "PL3 MSE", "PL CE", "PL MSE", "Platt", "beta", "isotonic", "Scaling-Binning",
               "TempS", "1-Temp", "VecS", "dirL2", "dirODIR", "MSODIR", "Spline natural", "Spline cubic",
               "Spline parabolic", "IOP_OI", "IOP_OP")  # fmt: skip
#: Scaling-binning with other bins than the library's default; the paper does not state their number.
FINER = "Scaling-Binning, 50 bins"
#: The six whose outputs are evaluated, the best of the paper's Table 1.
SIX = ("beta", "VecS", "Platt", "PL3 CE", "Scaling-Binning", "isotonic")
#: Those of Table F24 and Figure F8.
FIVE = ("TempS", "VecS", "MSODIR", "dirL2", "dirODIR")


@dataclass(frozen=True)
class ModelRows:
    """Logits ``(n, K)`` of a model and labels ``(n,)``."""

    logits: Floats
    labels: Labels

    def __getitem__(self, chosen: slice) -> ModelRows:
        """Some of the rows."""
        return ModelRows(self.logits[chosen], self.labels[chosen])

    def event(self, name: str) -> Event:
        """The event ``confidence`` or ``class:k`` under the softmax of the logits."""
        return event_of(softmax(self.logits, axis=1), self.labels, name)


def event_of(probs: Floats, labels: Labels, name: str) -> Event:
    """The event ``confidence`` or ``class:k`` of probabilities ``(n, K)``."""
    if name == "confidence":
        chosen = probs.argmax(axis=1)
        return Event(probs.max(axis=1), (chosen == labels).astype(np.int8))
    k = int(name.removeprefix("class:"))
    return Event(np.ascontiguousarray(probs[:, k]), (labels == k).astype(np.int8))


def fitted_vector(method: str, training: ModelRows) -> CalibrationMap:
    """A map of the whole vector, of logits."""
    batch = read_batch(training.logits, training.labels, scale="logit")
    return Fitting.read(method, {}, "canonical").run(batch, FitContext())


def fitted_curve(name: str, training: Event) -> Callable[[Floats], Floats]:
    """The curve of a calibrator of ``BINARY``, clipped to [0, 1]."""
    method, options = BINARY[name]
    curve = Fitting.read(method, options, "binary").run(read_batch(training.p, training.y), FitContext()).curve
    return lambda p: np.clip(curve(p), 0.0, 1.0)


def calibrated(name: str, training: ModelRows, rows: ModelRows, event: str) -> Event:
    """Fit a calibrator to ``training`` and return its output on ``rows``, as the event's probability.

    Calibrators of the vector may predict another class, so ``confidence`` is then about that class; the others
    keep the model's. One-vs-rest outputs are not renormalised.
    """
    if name in VECTOR:
        return calibrated_events(name, training, rows, (event,))[event]
    before = rows.event(event)
    return Event(fitted_curve(name, training.event(event))(before.p), before.y)


def calibrated_events(name: str, training: ModelRows, rows: ModelRows, events: tuple[str, ...]) -> dict[str, Event]:
    """The output of a calibrator for several events; calibrators of the vector are fitted once."""
    if name not in VECTOR:
        return {event: calibrated(name, training, rows, event) for event in events}
    fitted = fitted_vector(VECTOR[name], training)
    probs = np.asarray(fitted.apply(rows.logits))
    return {event: event_of(probs, rows.labels, event) for event in events}
