"""Fitted maps of predictive distributions, and their documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from calibrant.core.arguments import explained, refuse_unknown
from calibrant.core.arrays import group_names
from calibrant.core.cells import Floats
from calibrant.core.errors import CalibrationError, InvalidDocument, LengthMismatch, WrongShape
from calibrant.core.options import read_seed
from calibrant.core.results import FORMAT, ShownMap, Table, map_table, n_rows
from calibrant.distributions.forecasts import ARGUMENTS, KINDS, ForecastKind, Forecasts, read_forecasts
from calibrant.distributions.maps.combined import Groups, applied, needs_groups, read_function, result_of
from calibrant.distributions.maps.tables import interval_of, quantiles_of
from calibrant.distributions.maps.trial import try_map
from calibrant.maps.documents import read_digest, read_document_file
from calibrant.maps.parameters import read_array

#: Lowest and highest possible outcome; None if there is no bound.
Support = tuple[float | None, float | None]


@dataclass(frozen=True, eq=False)
class DistributionMap(ShownMap):
    """Map predictive distributions of a number to calibrated ones.

    ``fit_distribution`` and ``load_distribution`` create maps; the constructor is not meant to be called directly.

    Parameters
    ----------
    method : str
        Name of the method.
    function : object
        Fitted function; its ``family`` and ``parameters`` are those of the document.
    kind : {"normal", "quantiles", "samples", "interval"}
        Kind of the forecasts that the map accepts.
    levels : ndarray, shape (Q,), or None
        Levels of the accepted quantiles, or of the accepted interval (2,); None for other kinds.
    support : tuple of (float or None, float or None)
        Lowest and highest possible outcome. Quantiles are clipped to it.
    diagnostics : mapping, optional
        Diagnostics of the fit as plain JSON; they do not affect ``apply``.
    training_digest : str, optional
        Digest of the rows that the map was fitted to.

    See Also
    --------
    fit_distribution : Fits a map.
    load_distribution : Reads a map from its document or file.

    Examples
    --------
    >>> import calibrant
    >>> fitted = calibrant.fit_distribution("variance-scaling", [1.0, -3.0], mean=[0.0, 0.0], variance=[1.0, 1.0])
    >>> fitted.method, fitted.kind, fitted.apply(mean=[0.0], variance=[2.0]).variance
    ('variance-scaling', 'normal', array([10.]))
    """

    method: str
    function: Any = field(repr=False)
    kind: ForecastKind
    levels: Floats | None = field(default=None, repr=False)
    support: Support = (None, None)
    diagnostics: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    training_digest: str | None = field(default=None, repr=False)

    def _table(self) -> Table:
        low, high = ("" if end is None else f"{end:g}" for end in self.support)
        rows = [("takes", self.kind), ("support", f"{low} to {high}" if low or high else "")]
        return map_table(self.method, rows, self.diagnostics)

    @explained
    def apply(self, *, by: Any = None, seed: int = 0, **forecasts: Any) -> Forecasts:
        """Apply the map to forecasts.

        Parameters
        ----------
        by : array_like, shape (n,), optional
            As in the fit, for a map that was fitted with ``by``. For other values, the function that was fitted to all
            rows is used.
        seed : int, default 0
            Seed for ``conformal`` with ``ties="random"``, which excludes tied bounds at random.
        **forecasts : array_like
            The forecasts by name, of the kind of the map: ``mean`` and ``variance`` or ``std``; ``quantiles`` and
            ``levels``; ``samples``; or ``lower``, ``upper`` and ``level``.

        Returns
        -------
        Forecasts
            Means and variances, quantiles or intervals. Bounds of ``conformal`` are infinite if it was fitted to too
            few rows.

        Raises
        ------
        CalibrationError
            If the forecasts are invalid, or of another kind or at other levels than those of the fit.

        See Also
        --------
        apply_checked : Applies the map to checked forecasts.

        Examples
        --------
        >>> import calibrant
        >>> fitted = calibrant.fit_distribution("variance-scaling", [1.0, -3.0], mean=[0.0, 0.0], variance=[1.0, 1.0])
        >>> fitted.apply(mean=[7.0], variance=[1.0]).mean
        array([7.])
        """
        refuse_unknown("apply", forecasts, ["by", "seed", *ARGUMENTS])
        names = None if by is None else group_names(by)
        return self.apply_checked(read_forecasts(**forecasts), by=names, seed=read_seed(seed))

    def apply_checked(self, forecasts: Forecasts, *, by: Groups = None, seed: int = 0) -> Forecasts:
        """Apply the map to forecasts that are already checked.

        Parameters
        ----------
        forecasts : Forecasts
            Checked forecasts.
        by : sequence of str, length n, optional
            As for ``apply``.
        seed : int, default 0
            As for ``apply``.

        Returns
        -------
        Forecasts
            Calibrated forecasts.

        See Also
        --------
        apply : Checks the forecasts first.

        Examples
        --------
        >>> import calibrant
        >>> from calibrant.distributions.forecasts import read_forecasts
        >>> fitted = calibrant.fit_distribution("variance-scaling", [1.0, -3.0], mean=[0.0, 0.0], variance=[1.0, 1.0])
        >>> fitted.apply_checked(read_forecasts(mean=[7.0], variance=[1.0])).variance
        array([5.])
        """
        self._check(forecasts, by)
        with np.errstate(over="ignore"):  # of forecasts near the largest double
            return clipped(applied(self.function, forecasts, by, seed), self.support)

    def _check(self, forecasts: Forecasts, by: Groups) -> None:
        if forecasts.kind != self.kind:
            raise WrongShape.at(
                f"/{_FIELDS[forecasts.kind]}", f"are {_WORDS[forecasts.kind]}, but the map takes {_WORDS[self.kind]}"
            )
        levels = levels_of(forecasts)
        if levels is not None and not _same(levels, self.levels):
            field = "level" if self.kind == "interval" else "levels"
            raise WrongShape.at(f"/{field}", "must be those that the map was fitted to")
        if needs_groups(self.function) and by is None:
            raise LengthMismatch.at("/by", "is missing: the map was fitted with it")
        if by is not None and len(by) != len(forecasts):
            raise LengthMismatch.at("/by", f"must have {n_rows(len(forecasts))}, like the forecasts")

    def _head(self) -> dict[str, Any]:
        return {
            "prediction_kind": "regression",
            "method": self.method,
            "family": self.function.family,
            "kind": self.kind,
            "levels": None if self.levels is None else self.levels.tolist(),
            "support": list(self.support),
        }


def _same(of_forecasts: Floats, levels: Floats | None) -> bool:
    """Whether levels are equal up to rounding, as those of an interval are."""
    return (
        levels is not None
        and len(of_forecasts) == len(levels)
        and bool(np.allclose(of_forecasts, levels, rtol=0.0, atol=1e-12))
    )


_FIELDS = {"normal": "mean", "quantiles": "quantiles", "samples": "samples", "interval": "lower"}
_WORDS = {
    "normal": "means and variances",
    "quantiles": "quantiles",
    "samples": "samples",
    "interval": "lower and upper bounds",
}


def levels_of(forecasts: Forecasts) -> Floats | None:
    """Return the levels of quantiles, or the two of an interval; None for other kinds."""
    if forecasts.kind == "quantiles":
        return forecasts.levels
    if forecasts.kind == "interval":
        return np.array([(1.0 - forecasts.level) / 2.0, (1.0 + forecasts.level) / 2.0])
    return None


def clipped(forecasts: Forecasts, support: Support) -> Forecasts:
    """Return the forecasts with quantiles and bounds within the support."""
    low, high = support
    if low is None and high is None:
        return forecasts
    if forecasts.kind == "quantiles":
        return quantiles_of(np.clip(forecasts.quantiles, low, high), forecasts.levels)
    return interval_of(np.clip(forecasts.lower, low, high), np.clip(forecasts.upper, low, high), forecasts.level)


def check_support(support: Any, error: type[CalibrationError]) -> Support:
    """Check a support: a pair of numbers or None, in order; raises ``error``."""
    pair = tuple(support) if isinstance(support, list | tuple) else ()
    numbers = [bound for bound in pair if bound is not None]
    good = all(
        isinstance(bound, int | float) and not isinstance(bound, bool) and np.isfinite(bound) for bound in numbers
    )
    if len(pair) != 2 or not good or (len(numbers) == 2 and numbers[0] >= numbers[1]):
        raise error.at("/support", "must be two numbers in order, or null for no bound")
    low, high = (None if bound is None else float(bound) for bound in pair)
    return low, high


@explained
def load_distribution(document: Mapping[str, Any] | str | Path) -> DistributionMap:
    """Read a map of predictive distributions from its document or from a file.

    Parameters
    ----------
    document : mapping, str or pathlib.Path
        Document as written by ``DistributionMap.to_document``, or path of a file as written by
        ``DistributionMap.save``.

    Returns
    -------
    DistributionMap
        The map.

    Raises
    ------
    InvalidDocument
        If the file holds no JSON, a field is missing or invalid, or the map does not return finite forecasts; the error
        names the first field.
    OSError
        If the file cannot be read.

    See Also
    --------
    fit_distribution : Fits a map.

    Examples
    --------
    >>> import calibrant
    >>> document = {"format": 1, "prediction_kind": "regression", "method": "variance-scaling", "kind": "normal",
    ...             "family": "variance-line", "levels": None, "support": [None, None],
    ...             "parameters": {"factor": 4.0, "offset": 0.0}}
    >>> calibrant.load_distribution(document).apply(mean=[0.0], variance=[0.5]).variance
    array([2.])
    """
    loaded = read_distribution_map(document)
    try_map(loaded)
    return loaded


def read_distribution_map(document: Mapping[str, Any] | str | Path) -> DistributionMap:
    """Read a map as ``load_distribution`` does, without trying whether its parameters overflow together."""
    if isinstance(document, str | Path):
        document = read_document_file(Path(document))
    if not isinstance(document, Mapping):
        raise InvalidDocument.at("", "must be an object")
    if type(document.get("format")) is not int or document["format"] != FORMAT:
        raise InvalidDocument.at("/format", f"must be {FORMAT}")
    if document.get("prediction_kind") != "regression":
        raise InvalidDocument.at("/prediction_kind", "must be regression; load reads maps of classifiers")
    method, kind, diagnostics = document.get("method"), document.get("kind"), document.get("diagnostics", {})
    if not isinstance(method, str) or not method:
        raise InvalidDocument.at("/method", "must be the name of a method")
    if kind not in KINDS:
        raise InvalidDocument.at("/kind", f"must be one of: {', '.join(KINDS)}")
    if not isinstance(diagnostics, dict):
        raise InvalidDocument.at("/diagnostics", "must be an object")
    function = read_function({name: document.get(name) for name in ("family", "parameters")})
    levels = None
    if kind in ("quantiles", "interval"):
        levels = read_array(document, "levels", where="", numeric=True, low=0.0, high=1.0, increasing=True)
    support = check_support(document.get("support"), InvalidDocument)
    if result_of(function, kind, levels)[0] == "normal" and support != (None, None):
        raise InvalidDocument.at("/support", "must be null: the map returns means and variances")
    return DistributionMap(method, function, kind, levels, support, diagnostics, read_digest(document))
