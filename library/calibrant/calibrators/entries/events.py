"""Catalogue entries of parametric curves and isotonic regression."""

from __future__ import annotations

from collections.abc import Callable

from calibrant.calibrators.method import FitContext, FittedCurve, Method, Traits
from calibrant.calibrators.smoothing import FittedTransform
from calibrant.core.options import ON, Option
from calibrant.core.progress import report
from calibrant.core.reductions import Event, Vector
from calibrant.maps.beta import Beta, Parameters, fit_beta_event
from calibrant.maps.curves import Identity
from calibrant.maps.isotonic import Isotonic, fit_centred_isotonic, fit_isotonic
from calibrant.maps.platt import Platt, fit_platt_event
from calibrant.maps.quadratic import Quadratic, fit_quadratic
from calibrant.maps.temperature import EventTemperature, Temperature, logits_of, optimal_temperature

_EVENT = "the probability of an event, or its logit"
_BERTA = "Berta, Holzmueller, Jordan & Bach (2025), arXiv 2511.03685"
_CLIPPED = "probabilities are clipped at 2^-52, logits are not"


def _platt(event: Event, context: FitContext, *, target_smoothing: bool) -> FittedCurve:
    curve, gradient = fit_platt_event(event, target_smoothing=target_smoothing)
    return curve, {"gradient": gradient}


def _quadratic(*, squared: bool) -> Callable[..., FittedCurve]:
    def fit(event: Event, context: FitContext, *, strength: float) -> FittedCurve:
        curve, gradient = fit_quadratic(event.cells, squared=squared, strength=strength)
        return curve, {"gradient": gradient}

    return fit


def _beta(event: Event, context: FitContext, *, parameters: Parameters) -> FittedCurve:
    curve, gradient = fit_beta_event(event, parameters)
    return curve, {"gradient": gradient}


def _event_temperature(event: Event, context: FitContext) -> FittedCurve:
    optimum = optimal_temperature(logits_of(event), event.w)
    return EventTemperature(optimum.value), {"log_loss": optimum.log_loss, "gradient": optimum.gradient}


def _temperature(vector: Vector, context: FitContext) -> FittedTransform:
    report(0, 1, "Newton steps")
    optimum = optimal_temperature(logits_of(vector), vector.w)
    return Temperature(optimum.value), {"log_loss": optimum.log_loss, "gradient": optimum.gradient}


METHODS = (
    Method(
        "identity",
        "The predictions as given",
        f"c(p) = {Identity.formula}",
        "",
        Traits(_EVENT, "unchanged", "yes", "yes", "yes"),
        maps=(Identity,),
        event=lambda event, context: (Identity(), {}),
        evaluates=False,
        improves=False,
    ),
    Method(
        "platt",
        "Platt scaling",
        f"c(p) = {Platt.formula} that minimises the log loss; with target_smoothing for Platt's "
        "targets (n1 + 1) / (n1 + 2) and 1 / (n0 + 2) instead of the labels 1 and 0",
        "Platt (1999)",
        Traits(_EVENT, _CLIPPED, "if slope > 0", "for events only", "yes"),
        maps=(Platt,),
        event=_platt,
        logarithms=True,
        options={"target_smoothing": ON},
    ),
    Method(
        "temperature",
        "Temperature scaling",
        f"{Temperature.formula}, or {EventTemperature.formula} for an event, with the temperature > 0 that minimises "
        "the log loss; above 1 the predictions are too extreme",
        "Guo et al. (2017), section 4.2",
        Traits(
            "the whole vector: logits, or logarithms of probabilities; for an event its logit",
            "all logits are valid",
            "yes",
            "yes",
            "yes",
        ),
        maps=(
            EventTemperature,
            Temperature,
        ),
        event=_event_temperature,
        vector=_temperature,
        logarithms=True,
        seconds=lambda n, K, _: 2e-8 * n * K + 1e-7 * n,
    ),
    Method(
        "beta",
        "Beta calibration",
        f"c(p) = {Beta.formula} that minimises the log loss, with a, b >= 0; a = b with parameters am, and "
        "c(1/2) = 1/2 with parameters ab",
        "Kull, Silva Filho & Flach (2017)",
        Traits(_EVENT, _CLIPPED, "yes", "for events only", "yes"),
        maps=(Beta,),
        event=_beta,
        logarithms=True,
        options={"parameters": Option("abm", choices=("abm", "am", "ab"))},
    ),
    Method(
        "affine",
        "Affine scaling",
        f"c(p) = {Platt.formula} that minimises the log loss plus strength times (intercept^2 + (slope - 1)^2), in "
        "nats; Platt scaling without target smoothing",
        _BERTA,
        Traits(_EVENT, _CLIPPED, "if slope > 0", "for events only", "yes"),
        maps=(Platt,),
        event=_quadratic(squared=False),
        options={"strength": Option(1e-3, low=1e-9, high=1e9, real=True)},
        logarithms=True,
    ),
    Method(
        "quadratic",
        "Quadratic scaling",
        f"c(p) = {Quadratic.formula}, that minimises the log loss plus strength times "
        "(intercept^2 + (slope - 1)^2 + square^2), in nats",
        _BERTA,
        Traits(_EVENT, _CLIPPED, "no", "for events only", "yes"),
        maps=(Quadratic,),
        event=_quadratic(squared=True),
        options={"strength": Option(1e-3, low=1e-9, high=1e9, real=True)},
        logarithms=True,
    ),
    Method(
        "centered-isotonic",
        "Centred isotonic regression",
        "isotonic regression, with each block represented by the mean of its predictions; linear between two blocks",
        "Oron & Flournoy (2017)",
        Traits(_EVENT, "constant", "yes", "for events only", "except at the thresholds"),
        maps=(Isotonic,),
        event=lambda event, context: (fit_centred_isotonic(event.cells), {}),
    ),
    Method(
        "isotonic",
        "Isotonic regression",
        "the non-decreasing c that minimises both the squared error and the log loss; linear between two blocks, as in "
        "scikit-learn",
        "Zadrozny & Elkan (2002)",
        Traits(_EVENT, "constant", "yes, in steps", "for events only", "no"),
        maps=(Isotonic,),
        event=lambda event, context: (fit_isotonic(event.cells), {}),
    ),
)
