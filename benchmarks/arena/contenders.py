"""The contenders: every distinct map of Calibrant, probmetrics, scikit-learn and netcal that runs, one adapter each."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
#: From calibration probabilities ``(n, K)``, labels ``(n,)`` and test probabilities ``(m, K)`` to those calibrated.
Run = Callable[[Array, Array, Array], Array]
BASE = "base-model"
#: Methods of Calibrant left out: the predictions as given or with a known correction, Platt scaling after a test,
#: references that ignore the predictions, one that takes minutes, and one that is dirichlet-odir for probabilities.
LEFT_OUT = (
    *("identity", "prior-shift", "update", "accuracy-constant", "predicted-class", "side-means", "pl-de"),
    "matrix-odir",
)


class Contender(NamedTuple):
    """A method of a package.

    ``map`` names the fitted function, of which a board has one implementation: for two classes before a ``|``, for
    more after it.
    """

    name: str
    package: str
    map: str
    run: Run
    binary: bool = True
    multiclass: bool = True

    def fitted_map(self, *, two: bool) -> str:
        """The name of the fitted function for two classes, or for more."""
        parts = self.map.split("|")
        return parts[0] if two else parts[-1]

    def plays(self, n_classes: int) -> bool:
        """Whether it takes part in experiments with so many classes."""
        return self.binary if n_classes == 2 else self.multiclass


def base() -> Contender:
    """The predictions as given."""
    return Contender(BASE, "", "identity", lambda _p_cal, _y_cal, p_test: p_test)


#: Maps of Calibrant that a peer implements too -> the name of the map.
_SHARED = {
    "temperature": "temperature",
    "platt": "affine",
    "ets": "ets-ce",
    "spline": "cdf-spline",
    "histogram": "hist-quantile",
    "scaling-binning": "scaling-binning",
    "isotonic": "isotonic",
    "beta": "beta",
    "affine": "affine",
    "quadratic": "quadratic",
    "centered-isotonic": "centered-isotonic",
    "mli-spline": "mli-spline",
    "vector": "vector",
    "matrix": "matrix",
    "svs": "svs",
    "sms": "sms",
    "bbq": "bbq",
    "venn-abers": "venn-abers",
}


def ours() -> list[Contender]:
    """Methods of the catalogue: whole vectors if they map these, else the event of class 1, or class by class."""
    import calibrant

    def run(name: str, whole: bool) -> Run:
        def apply(p_cal: Array, y_cal: Array, p_test: Array) -> Array:
            two = p_cal.shape[1] == 2
            reduction = "canonical" if whole and not (two and event) else "binary" if two else "classwise"
            if reduction == "binary":
                fitted = calibrant.fit(name, p_cal[:, 1], y_cal, reduction="binary")
                return np.asarray(fitted.apply(p_test[:, 1]))
            return np.asarray(calibrant.fit(name, p_cal, y_cal, reduction=reduction).apply(p_test))

        event = calibrant.METHODS[name].event is not None
        return apply

    return [
        Contender(
            name,
            "calibrant",
            _SHARED.get(name, f"calibrant {name}"),
            run(name, method.vector is not None),
            binary=method.event is not None,
        )
        for name, method in calibrant.METHODS.items()
        if name not in LEFT_OUT
    ]


def _probmetrics(make: Callable[[], Any]) -> Run:
    def apply(p_cal: Array, y_cal: Array, p_test: Array) -> Array:
        fitted = make()
        fitted.fit(p_cal, y_cal)
        return np.asarray(fitted.predict_proba(p_test))

    return apply


def probmetrics() -> list[Contender]:
    """The calibrators of probmetrics 1.3 with CalArena's settings, then those that CalArena does not run."""
    import probmetrics.calibrators as c
    from probmetrics.calibrators.orderpreserving import IntraOrderPreservingCalibrator

    def rest(binary: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: c.MulticlassOneVsRestCalibrator(binary())

    def both(name: str, map_name: str, make: Callable[[], Any]) -> Contender:
        return Contender(name, "probmetrics", map_name, _probmetrics(make))

    def two(name: str, map_name: str, make: Callable[[], Any]) -> Contender:
        return Contender(name, "probmetrics", map_name, _probmetrics(make), multiclass=False)

    def many(name: str, map_name: str, make: Callable[[], Any]) -> Contender:
        return Contender(name, "probmetrics", map_name, _probmetrics(make), binary=False)

    return [
        many("SMS", "sms", lambda: c.SMSCalibrator(print_init_info=False)),
        many("SVS", "svs", lambda: c.SVSCalibrator(print_init_info=False)),
        both("logistic-mix", "affine-mix|sms-mix", lambda: c.get_calibrator("logistic-mix")),
        both("TS", "temperature", c.TemperatureScalingCalibrator),
        both("TS-mix", "temperature-mix", lambda: c.get_calibrator("ts-mix")),
        two("Platt-logits", "affine", lambda: c.BinaryLogisticCalibrator(type="affine")),
        two("Quadratic", "quadratic", lambda: c.BinaryLogisticCalibrator(type="quadratic")),
        two("Beta", "beta", c.BetacalCalibrator),
        two("Affine-SAGA", "affine", lambda: c.RegularizedAffineScalingCalibrator(print_init_info=False)),
        two("Quadratic-SAGA", "quadratic", lambda: c.RegularizedQuadraticScalingCalibrator(print_init_info=False)),
        both("ETS", "ets", c.ETSCalibrator),
        both("ETS-ce", "ets-ce", lambda: c.ETSCalibrator(loss="ce")),
        many("VS", "vector", c.VectorScalingCalibrator),
        many("MS", "matrix", c.MatrixScalingCalibrator),
        both("CIR", "centered-isotonic", rest(c.CenteredIsotonicRegressionCalibrator)),
        two("Venn-Abers", "venn-abers", c.BinaryVennAbersCalibrator),
        many("Venn-Abers", "venn-abers", c.VennAbersCalibrator),
        many("Venn-Abers-ovo", "venn-abers-ovo", lambda: c.VennAbersCalibrator(use_ovo=True)),
        both("Spline", "mli-spline", c.MLISplineCalibrator),
        both("CDF-Spline", "cdf-spline", rest(c.CDFSplineCalibrator)),
        both("Kernel", "kernel", c.KernelCalibrator),
        both("Hist-uniform", "hist-uniform", rest(lambda: c.BinaryHistogramBinningCalibrator(strategy="uniform"))),
        both("Hist-quantile", "hist-quantile", rest(lambda: c.BinaryHistogramBinningCalibrator(strategy="quantile"))),
        both("Scaling-Binning", "scaling-binning", rest(c.BinaryPlattBinnerCalibrator)),
        both("BBQ", "bbq", c.NetcalBBQCalibrator),
        both("LightGBM", "lightgbm", c.LightGBMCalibrator),
        both("XGBoost", "xgboost", c.XGBoostCalibrator),
        both("CatBoost", "catboost", c.CatBoostCalibrator),
        two("CatBoost-tiny-monotone", "catboost-tiny", lambda: c.BinaryCatBoostCalibrator(tiny=True, monotone=True)),
        two("ENIR", "enir", c.NetcalENIRCalibrator),
        both("SoftPlus", "softplus", c.SoftPlusCalibrator),
        both("Intra-order-preserving", "intra-order-preserving", IntraOrderPreservingCalibrator),
        *(
            both(name, "temperature", lambda name=name: c.get_calibrator(name))  # type: ignore[misc]
            for name in ("guo-ts", "torchunc-ts", "torchcal-ts", "autogluon-ts", "autogluon-inv-ts")
        ),
    ]


def scikit_learn() -> list[Contender]:
    """The methods of ``CalibratedClassifierCV`` around frozen predictions."""
    from probmetrics.calibrators import SklearnCalibrator

    def one(method: str, map_name: str) -> Contender:
        return Contender(
            f"sklearn-{method}", "scikit-learn", map_name, _probmetrics(lambda: SklearnCalibrator(method=method))
        )

    return [one("isotonic", "isotonic"), one("sigmoid", "sigmoid"), one("temperature", "temperature")]


def netcal() -> list[Contender]:
    """Scaling and binning methods of netcal; for two classes they take the probability of class 1."""
    from netcal import binning, scaling

    def run(make: Callable[[], Any], seeded: bool) -> Run:
        def apply(p_cal: Array, y_cal: Array, p_test: Array) -> Array:
            fitted = make()
            two = p_cal.shape[1] == 2
            options = {"random_state": 0} if seeded else {}
            fitted.fit(p_cal[:, 1] if two else p_cal, y_cal, **options)
            return np.asarray(fitted.transform(p_test[:, 1] if two else p_test))

        return apply

    return [
        Contender(f"netcal-{name}", "netcal", map_name, run(make, seeded), multiclass=name != "near-isotonic")
        for name, map_name, make, seeded in (
            ("temperature", "temperature", scaling.TemperatureScaling, True),
            ("logistic", "affine|netcal-logistic", scaling.LogisticCalibration, True),
            ("beta", "beta|netcal-beta", scaling.BetaCalibration, True),
            ("histogram", "hist-uniform", binning.HistogramBinning, False),
            ("isotonic", "isotonic", binning.IsotonicRegression, False),
            ("bbq", "bbq", binning.BBQ, False),
            ("enir", "enir", binning.ENIR, False),
            ("near-isotonic", "near-isotonic", binning.NearIsotonicRegression, False),
        )
    ]


def contenders() -> list[Contender]:
    """All contenders, peers first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [base(), *probmetrics(), *scikit_learn(), *netcal(), *ours()]


def versions() -> dict[str, str]:
    """The version of each package."""
    return {name: version(name) for name in ("calibrant", "probmetrics", "scikit-learn", "netcal")}
