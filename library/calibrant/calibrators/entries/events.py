"""Parametric curves and isotonic regression in the catalogue."""

from __future__ import annotations

from calibrant.calibrators.method import FitContext, FittedCurve, FittedTransform, Method, Traits
from calibrant.maps.beta import Parameters, fit_beta_event
from calibrant.maps.curves import Identity
from calibrant.maps.isotonic import fit_isotonic
from calibrant.maps.platt import fit_platt_event
from calibrant.maps.temperature import EventTemperature, Temperature, logits_of, optimal_temperature
from calibrant.options import ON, Option
from calibrant.progress import report
from calibrant.reductions import Event, Vector

_EVENT = "the probability of an event; of logits their logistic function"
_CLIPPED = "the logit clips at 2^-52"


def _identity(event: Event, context: FitContext) -> FittedCurve:
    return Identity(), {}


def _platt(event: Event, context: FitContext, *, target_smoothing: bool) -> FittedCurve:
    return fit_platt_event(event, target_smoothing=target_smoothing), {}


def _isotonic(event: Event, context: FitContext) -> FittedCurve:
    return fit_isotonic(event.cells), {}


def _beta(event: Event, context: FitContext, *, parameters: Parameters) -> FittedCurve:
    return fit_beta_event(event, parameters), {}


def _event_temperature(event: Event, context: FitContext) -> FittedCurve:
    found = optimal_temperature(logits_of(event), event.w)
    return EventTemperature(found.value), {"log_loss": found.log_loss}


def _temperature(vector: Vector, context: FitContext) -> FittedTransform:
    report(0, 1, "Newton steps")
    found = optimal_temperature(logits_of(vector), vector.w)
    return Temperature(found.value), {"log_loss": found.log_loss}


METHODS = (
    Method(
        "identity",
        "The predictions as they are",
        "c(p) = p",
        "",
        Traits(_EVENT, "none", "nothing changes", "yes", "yes", "yes"),
        event=_identity,
        evaluates=False,
    ),
    Method(
        "platt",
        "Logistic curve on the logit",
        "c(p) = logistic(slope logit(p) + intercept) of least log loss; with target_smoothing against Platt's targets "
        "(n1 + 1) / (n1 + 2) and 1 / (n0 + 2)",
        "Platt (1999)",
        Traits(_EVENT, "slope, intercept", _CLIPPED, "where slope > 0", "of events only", "yes"),
        event=_platt,
        options={"target_smoothing": ON},
    ),
    Method(
        "temperature",
        "Temperature scaling",
        "softmax(z / T), of an event logistic(z / T), with the T > 0 of least log loss; above 1 is overconfident",
        "Guo et al. (2017), section 4.2",
        Traits(
            "the whole vector: logits as given, else logarithms of probabilities clipped at 2^-52; of an event its "
            "logit",
            "temperature",
            "logits have no end",
            "yes",
            "yes",
            "yes",
        ),
        event=_event_temperature,
        vector=_temperature,
        seconds=lambda n, K, _: 2e-8 * n * K + 1e-7 * n,
    ),
    Method(
        "beta",
        "Curves between two Beta densities",
        "c(p) = logistic(a ln p - b ln(1 - p) + c) of least log loss, a and b at least 0; of the parameters am "
        "a = b, of ab c(1/2) = 1/2",
        "Kull, Silva Filho & Flach (2017)",
        Traits(_EVENT, "a, b, c", "p clips at 2^-52", "yes", "of events only", "yes"),
        event=_beta,
        options={"parameters": Option("abm", choices=("abm", "am", "ab"))},
    ),
    Method(
        "isotonic",
        "Best non-decreasing map",
        "the non-decreasing c of least squared error and log loss; between two blocks it is linear, as scikit-learn's",
        "Zadrozny & Elkan (2002)",
        Traits(_EVENT, "thresholds and heights", "constant", "yes, in steps", "of events only", "no"),
        event=_isotonic,
    ),
)
