"""Catalogue entries of maps of the whole vector, and of baselines that some measures cannot detect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from calibrant.averaging.members import RegressionMember, choose, fit_structured, rows_of
from calibrant.calibrators.method import FitContext, Method, Traits
from calibrant.calibrators.smoothing import FittedTransform
from calibrant.core.errors import NotConverged
from calibrant.core.options import Option
from calibrant.core.progress import report
from calibrant.core.reductions import Vector
from calibrant.maps.baselines import (
    AccuracyConstant,
    PredictedClass,
    Sides,
    fit_accuracy_constant,
    fit_event_accuracy,
    fit_predicted_class,
    fit_side_means,
)
from calibrant.maps.ets import EnsembleTemperature, fit_ets
from calibrant.maps.linear_softmax import (
    STRENGTHS,
    Dirichlet,
    MatrixScaling,
    VectorScaling,
    fit_matrix_scaling,
    fit_regularised,
    fit_vector_scaling,
)
from calibrant.maps.order_preserving import RANKS, OrderInvariant, OrderPreserving, OrderPreservingDiagonal
from calibrant.maps.order_preserving_fit import STRENGTHS as ORDER_STRENGTHS
from calibrant.maps.order_preserving_fit import Kind, fit_order_preserving
from calibrant.maps.softmax_map import SoftmaxRegression
from calibrant.maps.softmax_solver import Solution
from calibrant.maps.transforms import Transform

_LOGITS = "the whole vector: logits, or logarithms of probabilities"
_LOGARITHMS = "the whole vector: logarithms of probabilities, or of the softmax of logits"
_VECTOR = "the whole vector: probabilities; logits are converted to probabilities"
_EVENT = "the probability of an event"
_UNBOUNDED = "all logits are valid"
_CLIPPED = "probabilities of 0 are clipped at 2^-52"
_GUO = "Guo et al. (2017), section 4.2"
_BERTA = "Berta, Holzmueller, Jordan & Bach (2025), arXiv 2511.03685"
_KULL = "Kull, Perello-Nieto, Kangsepp et al. (2019), section 4"
_GRUBER = "Gruber & Buettner (2022)"
_CHOSEN = "a strength of null is chosen from powers of ten between 1e-7 and 1e6 by the held-out log loss"
_OPTIMUM = (
    "a strength of null or 0 adds no penalty, except that null adds one, chosen by the held-out log loss, if labels "
    "are separable{}; a penalty is strength times {}, in nats, with T the optimal temperature"
)
_IF_LARGE = " or there are more than 24 classes"
_OF_VECTOR, _OF_MATRIX = "(|T weights - 1|^2 + |intercepts|^2)", "the mean of (z / T)^2 times (|T W - I|^2 + |b|^2)"

_STRENGTH = Option(None, choices=(None,), low=1e-9, high=1e9, real=True)
_RIDGE = Option(None, choices=(None,), low=0.0, high=1e9, real=True)
_REGULARISED = {"strength": _STRENGTH, "folds": Option(3, low=2, high=20)}
_ODIR = {**_REGULARISED, "intercept_strength": _STRENGTH}
_RAHIMI = "Rahimi et al. (2020)"
_ORDER = Option(None, choices=(None,), low=0.0, high=1e9, real=True)
_CONVEX = (
    "slopes are at least 0.001 / T, and those of classes at least 0. Rahimi et al. use neural networks for these "
    "functions; here they are piecewise linear, which makes the log loss convex. The fit minimises the mean log loss "
    "plus strength times the mean square of the differences of the slopes from temperature scaling, in units of 1 / T; "
    "a strength of null is chosen from powers of ten between 1e-6 and 10 by the held-out log loss"
)


#: Candidate ridges of fits to separable labels, in nats.
_SEPARABLE = (1e-3, 0.1, 10.0)
#: The most classes whose matrix has no penalty by default, and the candidates for more classes. With next to none, a
#: fit to 5,000 rows of 100 classes takes minutes, and its held-out loss is half as high again.
_FEW, _OF_MANY = 24, (1000.0, 100.0, 10.0)
_FOLDS = 5


def _scaling(
    fit: Callable[[Vector], tuple[Transform, dict[str, float]]], *, diagonal: bool
) -> Callable[..., FittedTransform]:
    """Fit by maximum likelihood, or with a ridge if it is given, the labels are separable or a matrix is large."""

    def fitted(vector: Vector, context: FitContext, *, strength: float | None) -> FittedTransform:
        large = not diagonal and vector.n_classes > _FEW
        if not strength and not (large and strength is None):
            try:
                transform, optimum = fit(vector)
                return transform, {"strength": 0.0} | optimum
            except NotConverged:
                if strength == 0.0:
                    raise
        rows = rows_of(vector, _FOLDS, context.seed)
        ridges = (strength,) if strength is not None else _OF_MANY if large else _SEPARABLE
        candidates = [RegressionMember("", diagonal=diagonal, ridge=ridge) for ridge in ridges]
        chosen, held_out = choose(candidates, rows) if strength is None else (candidates[0], None)
        refitted, solution = chosen.refit(rows)
        scaling = (VectorScaling if diagonal else MatrixScaling)(refitted.weights, refitted.intercepts)
        return scaling, {"strength": chosen.ridge, "held_out_log_loss": held_out} | _solved(solution)

    return fitted


def _solved(solution: Solution) -> dict[str, Any]:
    return {"objective": float(solution.objective[0]), "gradient": float(solution.gradient[0])}


def _structured(*, diagonal: bool) -> Callable[..., FittedTransform]:
    def fit(vector: Vector, context: FitContext) -> FittedTransform:
        report(0, 1, "quasi-Newton steps")
        transform, solution, gain = fit_structured(
            vector, diagonal=diagonal, seed=context.seed if context.diagnose else None
        )
        known = {} if gain is None else {"held_out_gain": gain}
        return transform, {"temperature": transform.temperature} | _solved(solution) | known

    return fit


def _multinomial(vector: Vector, context: FitContext, *, strength: float | None, folds: int) -> FittedTransform:
    rows = rows_of(vector, folds, context.seed)
    ridges = (0.003, 0.03, 0.3, 3.0, 30.0) if strength is None else (strength,)
    candidates = [RegressionMember("", ridge=ridge, squares=True) for ridge in ridges]
    chosen, held_out = choose(candidates, rows) if strength is None else (candidates[0], None)
    transform, solution = chosen.refit(rows)
    return transform, {"strength": chosen.ridge, "held_out_log_loss": held_out} | _solved(solution)


def _regularised(*, probabilities: bool, off_diagonal: bool) -> Callable[..., FittedTransform]:
    def fit(
        vector: Vector,
        context: FitContext,
        *,
        strength: float | None,
        folds: int,
        intercept_strength: float | None = None,
    ) -> FittedTransform:
        regression = fit_regularised(
            vector,
            probabilities=probabilities,
            off_diagonal=off_diagonal,
            strength=strength,
            intercept_strength=intercept_strength,
            folds=folds,
            seed=context.seed,
            bound=context.bound,
        )
        transform = (Dirichlet if probabilities else MatrixScaling)(regression.weights, regression.intercepts)
        diagnostics: dict[str, Any] = {"strength": regression.strength, "held_out_log_loss": regression.held_out}
        diagnostics |= regression.optimum
        return transform, diagnostics | ({"intercept_strength": regression.intercept_strength} if off_diagonal else {})

    return fit


def _order_preserving(kind: Kind) -> Callable[..., FittedTransform]:
    def fit(
        vector: Vector, context: FitContext, *, n_knots: int, strength: float | None, folds: int
    ) -> FittedTransform:
        preserving = fit_order_preserving(
            vector, kind, n_knots=n_knots, strength=strength, folds=folds, seed=context.seed
        )
        return preserving.transform, {
            "temperature": preserving.temperature,
            "strength": preserving.strength,
            "held_out_log_loss": preserving.held_out,
            "log_loss": preserving.log_loss,
            "gradient": preserving.gradient,
        }

    return fit


def _order_options(n_knots: int) -> Mapping[str, Option]:
    return {"n_knots": Option(n_knots, low=1, high=64), "strength": _ORDER, "folds": Option(3, low=2, high=20)}


def _order_seconds(kind: Kind) -> Callable[[int, int, Mapping[str, Any]], float]:
    def seconds(n: int, K: int, options: Mapping[str, Any]) -> float:
        pieces: int = options["n_knots"] + 1
        functions = 1 if kind == "diagonal" else min(K, RANKS) + (K if kind == "op" else 0)
        fits: int = 1 if options["strength"] is not None else options["folds"] * len(ORDER_STRENGTHS)
        newton: float = 2e-10 * n * K * (functions * pieces) ** 2
        gradients: float = 1e-7 * n * K * pieces
        return 1e-2 + 2e-7 * n * K + (1 + fits) * (6 * min(newton, 4.0) + gradients)

    return seconds


def _newton_seconds(n: int, parameters: int, per_product: int) -> float:
    """Estimate the seconds of ten steps with the whole Hessian, or with about 15 products of conjugate gradients."""
    whole = 1e-10 * n * parameters**2 + 1e-10 * parameters**3
    return 10 * (whole if parameters <= 600 else 1e-8 * 15 * n * per_product)


def _matrix_seconds(n: int, K: int, _options: Mapping[str, Any]) -> float:
    return 1e-2 + 1e-7 * n * K + _newton_seconds(n, K * (K + 1), K * max(K // 10, 1))


def _regularised_seconds(n: int, K: int, options: Mapping[str, Any]) -> float:
    own = "intercept_strength" in options and options["intercept_strength"] is None
    fits: int = 1 if options["strength"] is not None else options["folds"] * len(STRENGTHS) * (2 if own else 1)
    return (1 + fits / 2) / 8 * _matrix_seconds(n, K, options)


METHODS = (
    Method(
        "vector",
        "Vector scaling",
        f"{VectorScaling.formula}, that minimises the log loss; the intercepts sum to 0; "
        f"{_OPTIMUM.format('', _OF_VECTOR)}",
        _GUO,
        Traits(_LOGITS, _UNBOUNDED, "in the logit of each class if its weight is above 0", "no", "yes"),
        maps=(VectorScaling,),
        vector=_scaling(fit_vector_scaling, diagonal=True),
        options={"strength": _RIDGE},
        logarithms=True,
        seconds=lambda n, K, _: 1e-2 + 1e-7 * n * K + _newton_seconds(n, 2 * K, K),
    ),
    Method(
        "matrix",
        "Matrix scaling",
        f"{MatrixScaling.formula} that minimises the log loss (a multinomial logistic regression on logits); the "
        f"intercepts, and the off-diagonal weights of each column, sum to 0; {_OPTIMUM.format(_IF_LARGE, _OF_MATRIX)}",
        _GUO,
        Traits(_LOGITS, _UNBOUNDED, "no", "no", "yes"),
        maps=(MatrixScaling,),
        vector=_scaling(fit_matrix_scaling, diagonal=False),
        options={"strength": _RIDGE},
        logarithms=True,
        chooses=lambda K, options: K > _FEW and options["strength"] is None,
        seconds=_matrix_seconds,
    ),
    Method(
        "matrix-odir",
        "Matrix scaling with off-diagonal and intercept regularisation (MSODIR)",
        f"{MatrixScaling.formula} that minimises the mean log loss plus strength times the mean square of the "
        f"off-diagonal weights plus intercept_strength times that of the intercepts; {_CHOSEN}, first the same for "
        "both, then that of the intercepts",
        _KULL,
        Traits(_LOGITS, _UNBOUNDED, "no", "no", "yes"),
        maps=(MatrixScaling,),
        vector=_regularised(probabilities=False, off_diagonal=True),
        options=_ODIR,
        logarithms=True,
        on_device=True,
        seconds=_regularised_seconds,
    ),
    Method(
        "dirichlet-l2",
        "Dirichlet calibration with L2 regularisation",
        f"{Dirichlet.formula} that minimises the mean log loss plus strength times the mean square of all K (K + 1) "
        f"weights and intercepts; {_CHOSEN}",
        _KULL,
        Traits(_LOGARITHMS, _CLIPPED, "no", "no", "yes"),
        maps=(Dirichlet,),
        vector=_regularised(probabilities=True, off_diagonal=False),
        options=_REGULARISED,
        logarithms=True,
        on_device=True,
        seconds=_regularised_seconds,
    ),
    Method(
        "dirichlet-odir",
        "Dirichlet calibration with off-diagonal and intercept regularisation",
        f"{Dirichlet.formula} that minimises the mean log loss plus strength times the mean square of the off-diagonal "
        f"weights plus intercept_strength times that of the intercepts; {_CHOSEN}, first the same for both, then that "
        "of the intercepts",
        _KULL,
        Traits(_LOGARITHMS, _CLIPPED, "no", "no", "yes"),
        maps=(Dirichlet,),
        vector=_regularised(probabilities=True, off_diagonal=True),
        options=_ODIR,
        logarithms=True,
        on_device=True,
        seconds=_regularised_seconds,
    ),
    Method(
        "svs",
        "Structured vector scaling (SVS)",
        "softmax(diag(1 + v) ln q + b), where q is softmax(z / T) mixed with 1 / K at the weight of one row, T "
        "minimises the log loss, and v and b minimise the mean log loss plus K / n times (|v|^2 + |b|^2)",
        _BERTA,
        Traits(_LOGITS, _UNBOUNDED, "in the logit of each class", "no", "yes"),
        maps=(SoftmaxRegression,),
        vector=_structured(diagonal=True),
        seconds=lambda n, K, _: 1e-2 + 3e-7 * n * K,
    ),
    Method(
        "sms",
        "Structured matrix scaling (SMS)",
        "softmax((I + diag(v) + M) ln q + b), with q as in svs, that minimises the mean log loss plus K / n times "
        "(|v|^2 + |b|^2) plus K (K - 1) / n times the sum of the squared off-diagonal weights M",
        _BERTA,
        Traits(_LOGITS, _UNBOUNDED, "no", "no", "yes"),
        maps=(SoftmaxRegression,),
        vector=_structured(diagonal=False),
        on_device=True,
        seconds=lambda n, K, _: 1e-2 + 3e-7 * n * K + 3e-9 * n * K * K,
    ),
    Method(
        "multinomial",
        "Multinomial regression on logits, squared logits and probabilities",
        "softmax(W u + Q u^2 / 4 + R p + b), with u = z / T and T the optimal temperature, that minimises the log loss "
        "plus strength times the mean squared feature times (|W - I|^2 + |Q|^2 + |R|^2 + |b|^2), in nats; a strength "
        "of null is chosen by the held-out log loss",
        "docs/explanation/averaging.md",
        Traits(_LOGITS, _UNBOUNDED, "no", "no", "yes"),
        maps=(SoftmaxRegression,),
        vector=_multinomial,
        options={"strength": _STRENGTH, "folds": Option(5, low=2, high=20)},
        logarithms=True,
        on_device=True,
        seconds=lambda n, K, _: 2e-2 + 1e-5 * n * K + 1e-7 * n * K**3,
    ),
    Method(
        "ets",
        "Ensemble temperature scaling",
        f"{EnsembleTemperature.formula}, where first the temperature > 0 and then the weights (non-negative with "
        "sum 1) minimise the log loss",
        "Zhang, Kailkhura & Han (2020), section 3.2",
        Traits(_LOGITS, _UNBOUNDED, "yes", "yes", "yes"),
        maps=(EnsembleTemperature,),
        vector=lambda vector, context: fit_ets(vector),
        logarithms=True,
        seconds=lambda n, K, _: 4e-8 * n * K + 1e-6 * n,
    ),
    Method(
        "iop-diagonal",
        "Intra order-preserving: one function of the distance of each class from the largest logit",
        f"{OrderPreservingDiagonal.formula}, with knots at quantiles of the distances of the 10 classes that "
        f"follow the first; {_CONVEX}",
        _RAHIMI,
        Traits(_LOGITS, "the last slope is continued", "yes", "yes", "except at the knots"),
        maps=(OrderPreservingDiagonal,),
        vector=_order_preserving("diagonal"),
        options=_order_options(16),
        seconds=_order_seconds("diagonal"),
    ),
    Method(
        "iop-oi",
        "Intra order-preserving and order-invariant: a function of each gap between consecutive ranks",
        "with logits in descending order, g_i is applied to the gap between rank i and the next, and the sums of the "
        "new gaps are assigned back to the classes; g_i is piecewise linear (the same for all gaps from the tenth on) "
        f"with knots at quantiles of the first 10 gaps; {_CONVEX}",
        _RAHIMI,
        Traits(_LOGITS, "the last slope is continued", "yes", "yes", "except at knots and ties"),
        maps=(OrderInvariant,),
        vector=_order_preserving("oi"),
        options=_order_options(4),
        seconds=_order_seconds("oi"),
    ),
    Method(
        "iop-op",
        "Intra order-preserving: a function of each gap, by rank and by class",
        "as iop-oi, with a function of the class at rank i added to g_i; of equal logits the first class ranks first; "
        f"{_CONVEX}",
        _RAHIMI,
        Traits(_LOGITS, "the last slope is continued", "yes", "yes", "except at knots and ties"),
        maps=(OrderPreserving,),
        vector=_order_preserving("op"),
        options=_order_options(4),
        seconds=_order_seconds("op"),
    ),
    Method(
        "accuracy-constant",
        "Accuracy as the confidence of every prediction",
        "the largest probability becomes the accuracy, and the others are equal. For an event it is the accuracy of "
        "the decision p >= 1/2 if p >= 1/2, and 1 - accuracy if not; under confidence it is the accuracy everywhere. "
        "Measures of the top label find no error, although the map is not calibrated",
        f"{_GRUBER}, proposition D.2",
        Traits(_VECTOR + "; for an event its probability", "constant", "yes, in steps", "yes", "no"),
        maps=(
            Sides,
            AccuracyConstant,
        ),
        event=lambda event, context: (fit_event_accuracy(event), {}),
        evaluates=False,
        vector=lambda vector, context: (fit_accuracy_constant(vector), {}),
        seconds=lambda n, K, _: 1e-8 * n * K + 1e-8 * n,
    ),
    Method(
        "side-means",
        "The mean outcome on each side of 1/2",
        "c(p) = the mean outcome for p < 1/2, or for p >= 1/2; a side without rows gets the mean over all rows. It is "
        "calibrated on the rows of the fit, but loses sharpness",
        f"{_GRUBER}, E.1.1",
        Traits(_EVENT, "constant", "if the means increase, in steps", "for events only", "no"),
        maps=(Sides,),
        event=lambda event, context: (fit_side_means(event.cells), {}),
        evaluates=False,
    ),
    Method(
        "predicted-class",
        "Label frequencies by predicted class",
        "the label frequencies among the rows with the same predicted class (the first one of ties); a class that is "
        "never predicted gets the frequencies of all rows. It is calibrated on the rows of the fit, but loses "
        "sharpness",
        f"{_GRUBER}, E.1.2",
        Traits(_VECTOR, "constant", "no", "no", "no"),
        maps=(PredictedClass,),
        vector=lambda vector, context: (fit_predicted_class(vector), {}),
        evaluates=False,
        seconds=lambda n, K, _: 1e-8 * n * K + 1e-8 * n,
    ),
)
