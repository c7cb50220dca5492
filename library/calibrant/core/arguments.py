"""Errors for arguments that a public function does not have, in place of Python's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, Signature, signature
from types import MappingProxyType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_OPTION = "an option of a measure"
#: The most arguments without a place in the order that are listed.
_FEW = 6
#: Options of measures, with a value each.
_VALUES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("bins", "n_bins", "num_bins"), '"n_bins": 20'),
        **dict.fromkeys(("binning", "strategy"), '"binning": "equal-width"'),
        "norm": '"norm": 2',
    }
)
#: The measures of forecasts that have them.
_OF_FORECASTS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("bins", "n_bins", "num_bins"), "variance-calibration-error"),
        "norm": "quantile-calibration-error",
    }
)
_LABELS, _PREDICTIONS = "labels, the second argument", "predictions, the first argument"
#: Names that other libraries use -> what to pass here.
_FAMILIAR: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(_VALUES, _OPTION),
        **dict.fromkeys(("outcomes", "target", "targets", "y", "y_test", "y_true"), _LABELS),
        **dict.fromkeys(("p", "prediction", "preds", "probs", "proba", "y_pred", "y_prob", "y_score"), _PREDICTIONS),
        **dict.fromkeys(("from_logits", "logits"), 'scale="logit"'),
        **dict.fromkeys(("metric", "metrics"), "measures"),
        **dict.fromkeys(("ci", "confidence", "confidence_level"), "interval"),
        **dict.fromkeys(("n_bootstrap", "n_resamples"), "resamples"),
        **dict.fromkeys(("period", "periods", "time", "timestamps", "times"), "groups, such as the month of each row"),
        **dict.fromkeys(("pos_weight", "scale_pos_weight"), "positive_weight"),
        "class_weight": "class_weights",
        **dict.fromkeys(("cutoff", "threshold"), "thresholds"),
        **dict.fromkeys(("k", "n_positive", "top", "top_k", "top_n"), "capacity"),
        **dict.fromkeys(("min_precision", "ppv", "target_precision"), "precision"),
        **dict.fromkeys(("min_recall", "sensitivity", "target_recall", "tpr"), "recall"),
        **dict.fromkeys(("cost", "cost_matrix"), "costs, of a false positive and of a false negative"),
        "groups": "clusters",
        "random_state": "seed",
        "target_names": "class_names",
        "title": "name",
    }
)
_OBSERVED, _STD = "observed, the outcomes", "std or variance"
#: The same for functions of predictive distributions.
_FAMILIAR_OF_FORECASTS: Mapping[str, str] = MappingProxyType(
    {
        **_FAMILIAR,
        **dict.fromkeys(("labels", "outcomes", "target", "targets", "y", "y_test", "y_true"), _OBSERVED),
        **dict.fromkeys(("sd", "sigma", "std_dev", "stddev", "stdev", "y_std"), _STD),
        **dict.fromkeys(("sigma2", "var"), "variance"),
        **dict.fromkeys(("loc", "mu", "prediction", "predictions", "y_mean", "y_pred"), "mean"),
        **dict.fromkeys(("alphas", "q", "quantile_levels", "taus"), "levels"),
        **dict.fromkeys(("quantile_forecasts", "y_quantiles"), "quantiles"),
        "ensemble": "samples",
        "map": "mean, quantiles and so on after the map: **map.apply(...)",
        "sample_weight": "weights",
        **dict.fromkeys(("alpha", "significance", "significance_level"), "level, which is 1 - alpha"),
        **dict.fromkeys(("confidence", "confidence_level", "coverage"), "level of the intervals, or interval"),
    }
)
#: Names that functions of other libraries have -> what to do if there is no such argument here.
_NEITHER: Mapping[str, str] = MappingProxyType(
    {
        "cv": "pass predictions made out of fold, as by cross_val_predict, or use CalibrantClassifier(cv=5)",
        "n_jobs": "leave it out: a call runs in one process",
        "pos_label": "pass labels that are 0 and 1, or columns in the order of the classes",
        "random_state": "leave it out: nothing is random",
        "sample_weight": "leave it out: this call has no weights",
    }
)


def explained(function: Callable[P, R]) -> Callable[P, R]:
    """Raise ``TypeError`` with what to pass instead, if an argument is unknown, missing or given twice.

    >>> @explained
    ... def measure(predictions, labels, *, measures=None): ...
    >>> measure([0.5], y_true=[1])
    Traceback (most recent call last):
    TypeError: measure() has no argument y_true; pass labels, the second argument
    """
    parameters = signature(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            parameters.bind(*args, **kwargs)
        except TypeError as error:
            name = function.__name__ if function.__name__ != "__init__" else function.__qualname__.split(".")[-2]
            raise TypeError(_explanation(name, parameters, kwargs, str(error))) from None
        return function(*args, **kwargs)

    return call


def _explanation(name: str, parameters: Signature, passed: Mapping[str, object], problem: str) -> str:
    known = parameters.parameters
    takes_any = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in known.values())
    unknown = next((key for key in passed if key not in known), None)
    if unknown is not None and not takes_any:
        others = [parameter for parameter in known if parameter != "self"]
        return f"{name}() has no argument {unknown}; {meant_by(unknown, others)}"
    kinds = {parameter.name: parameter.kind for parameter in known.values() if parameter.name != "self"}
    order = ", ".join(parameter for parameter, kind in kinds.items() if kind is Parameter.POSITIONAL_OR_KEYWORD)
    of_map = "by" in kinds and "forecasts" in kinds and not order
    if problem == "too many positional arguments" and ({"mean", "samples"} <= kinds.keys() or of_map):
        by_name = "quantiles=..., levels=..., or samples=..., or lower=..., upper=..., level=..."
        return (
            f"{problem}; pass forecasts by name: {name}({order}{', ' if order else ''}mean=..., std=...), or {by_name}"
        )
    named = [parameter for parameter, kind in kinds.items() if kind is Parameter.KEYWORD_ONLY]
    if problem == "too many positional arguments" and 0 < len(named) <= _FEW:
        return f"{problem}; the order is {name}({order}), and these have names: {', '.join(named)}"
    return f"{problem}; the order is {name}({order})"


def refuse_unknown(name: str, passed: Iterable[str], known: list[str]) -> None:
    """Raise ``TypeError`` with what to pass instead, if an argument of a function of forecasts is unknown."""
    unknown = next((name_passed for name_passed in passed if name_passed not in known), None)
    if unknown is not None:
        raise TypeError(f"{name}() has no argument {unknown}; {meant_by(unknown, known)}")


def refuse_misspelt(name: str, options: Iterable[str], known: list[str]) -> None:
    """Raise ``TypeError`` if an option is a familiar name, or the misspelt name, of another argument of a function."""
    familiar = _familiar_to(known)
    for option in options:
        if option == "options":
            raise TypeError(f"{name}() has no argument options; pass each as an argument: {name}(..., **options)")
        meant = familiar.get(option, _OPTION) != _OPTION or option in _NEITHER
        if meant or get_close_matches(option[:64], known, n=1, cutoff=0.85):
            raise TypeError(f"{name}() has no argument {option}; {meant_by(option, known)}")


def _familiar_to(known: Iterable[str]) -> Mapping[str, str]:
    return _FAMILIAR_OF_FORECASTS if {"observed", "samples"} & {*known} else _FAMILIAR


def meant_by(unknown: str, known: list[str]) -> str:
    """Return what to pass in place of an unknown argument: the nearest one, or else all."""
    familiar = _familiar_to(known).get(unknown)
    if familiar == _OPTION and "n_bins" in known and unknown.endswith("bins"):
        return "pass n_bins"
    if familiar == _OPTION and "options" in known:
        return f'it is an option of a method: options={{"{unknown}": ...}}'
    if familiar == _OPTION:
        measure = "ece" if "observed" not in known else _OF_FORECASTS.get(unknown)
        if measure is not None:
            return f'{unknown} is {_OPTION}: measures=[{{"name": "{measure}", {_VALUES[unknown]}}}]'
    elif familiar is not None and any(familiar.startswith(argument) for argument in known):
        return f"pass {familiar}"
    if unknown in _NEITHER and unknown not in known:
        return _NEITHER[unknown]
    near = get_close_matches(unknown[:64], known, n=1)
    return f"did you mean {near[0]}?" if near else f"the arguments are: {', '.join(known)}"
