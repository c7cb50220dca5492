"""Catalogue entries of corrections that are known, and of updates of a model on new rows."""

from __future__ import annotations

from typing import Any

from calibrant.calibrators.method import FitContext, Method, Traits
from calibrant.core.reductions import Event, Vector
from calibrant.maps.curves import Identity
from calibrant.maps.linear_softmax import VectorScaling
from calibrant.maps.platt import Platt
from calibrant.maps.prior_shift import CHOICES, PriorShift
from calibrant.maps.update import fit_update

_CLIPPED = "probabilities are clipped at 2^-52, logits are not"


def _shifted(subject: Event | Vector, context: FitContext | None = None, *, options: PriorShift) -> Any:
    return options.fitted(None if isinstance(subject, Event) else subject.n_classes, subject), {}


METHODS = (
    Method(
        "prior-shift",
        "Correction to a known base rate, or for sampled or weighted training rows",
        f"c(p) = {Platt.formula} with slope 1, or {VectorScaling.formula} with weights 1, and logarithms of ratios as "
        "intercepts: of the new_rate (of each class) and the rate in training, which is that of the labels if it is "
        "null; of kept_negatives, the fraction of the negatives that was kept for training; of the positive_weight or "
        "the class_weights in training. Exactly one change is stated; only new_rate without rate uses the rows. It "
        "assumes label shift, and a model that followed the rate in training: fitted by likelihood without strong "
        "regularisation. Forests and boosted trees often do not; fit a map to labelled rows instead",
        "Elkan (2001), theorem 2; Saerens, Latinne & Decaestecker (2002), equation 4",
        Traits(
            "an event or the whole vector: logits, or logarithms of probabilities",
            _CLIPPED,
            "yes",
            "no",
            "yes",
        ),
        maps=(Platt, VectorScaling),
        event=_shifted,
        vector=_shifted,
        options=CHOICES,
        grouped=PriorShift,
        evaluates=False,
        improves=False,
        seconds=lambda n, K, _: 1e-8 * n * K,
        check=_shifted,
    ),
    Method(
        "update",
        "Update of the intercept, or of intercept and slope, if tests require it",
        f"c(p) = {Platt.formula}, of maximum likelihood; or with slope 1, if the slope is not significantly better "
        "(likelihood-ratio test, 1 degree of freedom); or p, if both together are not significantly better (2), at "
        "5 %. With fewer than 100 events or non-events, intercept and slope - 1 are multiplied by (chi2 - df) / chi2 "
        "of the test against p",
        "Vergouwe et al. (2017); van Houwelingen & Le Cessie (1990); Steyerberg et al. (2004)",
        Traits(
            "the probability of an event, or its logit",
            _CLIPPED,
            "if slope > 0",
            "for events only",
            "yes",
        ),
        maps=(Platt, Identity),
        event=lambda event, context: fit_update(event),
        logarithms=True,
        evaluates=False,
    ),
)
