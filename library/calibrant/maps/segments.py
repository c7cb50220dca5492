"""Segments: effects of categories, of bins of numbers and of their combinations are added to the logit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidDocument, InvalidOption, LengthMismatch, NotANumber, token
from calibrant.core.features import MAX_CATEGORIES, MAX_FEATURES, MAX_LENGTH, Feature, Features, is_longer_number
from calibrant.core.results import n_rows
from calibrant.maps.curves import fast_logistic
from calibrant.maps.parameters import Parameter, Parametric, read_array

Codes = npt.NDArray[np.int64]
#: What is added to the logit in a cell: a number, a number times the position, or a curve over the position.
Shape = Literal["level", "slope", "curve"]
#: The most features that a term combines, the most terms, cells and knots, and the largest effect in a document.
MOST_COMBINED, MOST_TERMS, MOST_CELLS, MOST_KNOTS, LARGEST_EFFECT = 3, 1000, 1_000_000, 1000, 1e3
#: The largest size of a knot in a document.
LARGEST_KNOT = 1e300
#: Positions are uniform on an interval of variance 1.
_WIDTH = float(np.sqrt(12.0))
#: Up to this many combinations of codes, cells are found by a table.
_DENSE = 1 << 20


class Places(NamedTuple):
    """The places of values among knots: ``left (n,)`` is the knot before, ``share (n,)`` the way to the next one.

    ``known (n,)`` is None if no value is missing; missing values add nothing.
    """

    left: npt.NDArray[np.int32]
    share: Floats
    known: npt.NDArray[np.bool_] | None = None

    def rows(self, chosen: npt.NDArray[Any]) -> Places:
        """Return the places of the chosen rows."""
        return Places(self.left[chosen], self.share[chosen], None if self.known is None else self.known[chosen])

    def positions(self, n_knots: int) -> Floats:
        """Return the positions among the knots, of mean 0 and variance 1 if they are uniform; 0 if missing."""
        x: Floats = ((self.left + self.share) / (n_knots - 1) - 0.5) * _WIDTH
        return x if self.known is None else np.where(self.known, x, 0.0)


def places_among(knots: Floats, values: Floats) -> Places:
    """Return the places of values, which are moved to the outer ``knots (m,)``, m >= 2, if they are outside."""
    missing = np.isnan(values)
    inside = np.clip(np.where(missing, knots[0], values), knots[0], knots[-1])
    left = np.minimum(np.searchsorted(knots, inside, side="right") - 1, len(knots) - 2)
    share: Floats = (inside - knots[left]) / (knots[left + 1] - knots[left])
    return Places(left.astype(np.int32), share, ~missing if missing.any() else None)


@dataclass(frozen=True)
class SegmentFeature:
    """How a map reads a feature: its ``categories``; or, of numbers, the ``cuts`` between bins, and ``knots``."""

    name: str
    categories: tuple[str, ...] | None = None
    cuts: Floats | None = None
    knots: Floats | None = None

    @property
    def size(self) -> int:
        """The number of codes; the last one is that of missing values."""
        return len(self.cuts if self.categories is None else self.categories) + (2 if self.categories is None else 1)  # type: ignore[arg-type]

    @cached_property
    def _code(self) -> Mapping[str, int]:
        return {text: code for code, text in enumerate(self.categories or ())}

    @cached_property
    def _is_ambiguous(self) -> bool:
        """Whether a number may be another category than the text that wrote it."""
        return any(map(is_longer_number, self.categories or ()))

    def read(self, feature: Feature) -> Feature:
        """Return the feature in the kind of the map; raises ``NotANumber`` for texts in place of numbers."""
        if self.categories is not None:
            if feature.codes is None and self._is_ambiguous:
                text = "must be texts: the map has categories that are numbers in a longer form, such as 2.0"
                raise NotANumber.at(f"/features/{token(self.name)}", text)
            return feature.as_categories()
        if feature.codes is not None and not feature.missing.all():
            row = int(np.flatnonzero(~feature.missing)[0])
            raise NotANumber.at(f"/features/{token(self.name)}/{row}", "must be a number, as in the fit of the map")
        return feature if feature.codes is None else Feature(self.name, numbers=np.full(len(feature), np.nan))

    def codes(self, feature: Feature) -> Codes:
        """Return the code of each row, -1 of categories that the fit has not seen."""
        if feature.codes is not None:
            table = np.array(
                [*(self._code.get(text, -1) for text in feature.categories), self.size - 1], dtype=np.int64
            )
            return table[feature.codes]
        codes = np.searchsorted(_numbers(self.cuts), _numbers(feature.numbers), side="right")
        return np.where(feature.missing, self.size - 1, codes)

    def places(self, feature: Feature) -> Places:
        """Return the places of numbers among the knots."""
        return places_among(_numbers(self.knots), _numbers(feature.numbers))

    def fallbacks(self, feature: Feature) -> dict[str, npt.NDArray[np.bool_]]:
        """Return which rows are missing, and of a category not in the fit or beyond the outer knots.

        Of more than 8 distinct numbers, the outer knots of a fit are the quantiles at 1 % and 99 % of its rows.
        """
        if self.categories is not None:
            return {"missing": feature.missing, "unseen": self.codes(feature) < 0}
        values, knots = _numbers(feature.numbers), _numbers(self.knots)
        return {"missing": feature.missing, "outside": (values < knots[0]) | (values > knots[-1])}


def _numbers(values: Floats | None) -> Floats:
    if values is None:
        raise TypeError("a numeric feature needs cuts, knots and numbers")
    return values


@dataclass(frozen=True)
class SegmentTerm:
    """Effects in the cells of up to three features.

    ``cells (c, k)`` are the codes of the features with these numbers; rows in other cells get 0. ``values`` are
    ``(c,)``, or ``(c, m)`` for a curve over m knots. The position of a slope or a curve is ``along`` a feature, or with
    None along the logit of the prediction.
    """

    features: tuple[int, ...]
    shape: Shape
    cells: Codes
    values: Floats
    along: int | None = None

    def places_of(self, sizes: Sequence[int], codes: Sequence[Codes]) -> Codes:
        """Return the cell of each row, or -1 if it is in none; O(n log c)."""
        if not self.features:
            return np.zeros(0, np.int64)
        own = [sizes[f] for f in self.features]
        factors = np.array([int(np.prod(own[k + 1 :], dtype=object)) for k in range(len(own))], dtype=np.int64)
        keys, known = self.cells @ factors, (self.cells < own).all(axis=1)
        key = sum(codes[f] * factor for f, factor in zip(self.features, factors.tolist(), strict=True))
        seen = np.logical_and.reduce([codes[f] >= 0 for f in self.features])
        order = np.argsort(keys, kind="stable")
        if (total := int(np.prod(own, dtype=object))) <= _DENSE:
            table = np.full(total, -1, np.int64)
            table[keys[known]] = np.flatnonzero(known)
            return np.where(seen, table[np.where(seen, key, 0)], -1)
        place = np.minimum(np.searchsorted(keys[order], key), len(keys) - 1)
        cell = order[place]
        return np.where(seen & (keys[cell] == key), cell, -1)

    def effect(self, cell: Codes | None, places: Places | None, n_knots: int) -> Floats | float:
        """Return what is added to the logit of each row, given its ``cell (n,)``; None if there is only one."""
        at: Any = 0 if cell is None else cell
        if self.shape == "curve" and places is not None:
            before, after = self.values[at, places.left], self.values[at, places.left + 1]
            effect = before + places.share * (after - before)
            effect = effect if places.known is None else np.where(places.known, effect, 0.0)
        else:
            effect = self.values[at] * (1.0 if places is None else places.positions(n_knots))
        return effect if cell is None else np.where(cell >= 0, effect, 0.0)


@dataclass(frozen=True)
class _FeatureList(Parameter):
    """How features are read."""

    def read(self, parameters: Mapping[str, Any], name: str, sizes: dict[str, int]) -> Any:  # noqa: ARG002 - it has none
        """Read the features; raises ``InvalidDocument``."""
        documents = parameters.get(name)
        where = f"/parameters/{name}"
        if not isinstance(documents, list) or not 0 < len(documents) <= MAX_FEATURES:
            raise InvalidDocument.at(where, f"must contain from 1 to {MAX_FEATURES} features")
        features = tuple(_read_feature(document, f"{where}/{i}") for i, document in enumerate(documents))
        if len({feature.name for feature in features}) < len(features):
            raise InvalidDocument.at(where, "must have different names")
        return features

    def plain(self, value: Any) -> Any:
        """Return the features as plain JSON."""
        return [
            {"name": f.name, "categories": list(f.categories)}
            if f.categories is not None
            else {"name": f.name, "cuts": _numbers(f.cuts).tolist(), "knots": _numbers(f.knots).tolist()}
            for f in value
        ]


def _read_feature(document: Any, where: str) -> SegmentFeature:
    name = document.get("name") if isinstance(document, dict) else None
    if not isinstance(name, str) or not 0 < len(name) <= MAX_LENGTH:
        raise InvalidDocument.at(f"{where}/name", f"must be a text of 1 to {MAX_LENGTH} characters")
    if "categories" in document:
        listed = document["categories"]
        if not isinstance(listed, list) or not len(listed) <= MAX_CATEGORIES or not all(map(_is_category, listed)):
            raise InvalidDocument.at(f"{where}/categories", f"must be at most {MAX_CATEGORIES} texts, none empty")
        if len(set(listed)) < len(listed):
            raise InvalidDocument.at(f"{where}/categories", "must be different")
        return SegmentFeature(name, tuple(listed))
    if not isinstance(document.get("cuts"), list) or len(document["cuts"]) > MOST_KNOTS:
        raise InvalidDocument.at(f"{where}/cuts", f"must be an array of at most {MOST_KNOTS} numbers")
    empty = not document["cuts"]
    cuts = np.zeros(0) if empty else read_array(document, "cuts", numeric=True, where=where, increasing=True)
    return SegmentFeature(name, cuts=cuts, knots=_read_knots(document, where))


def _is_category(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_LENGTH


def _read_knots(document: Any, where: str) -> Floats:
    knots = read_array(
        document, "knots", numeric=True, where=where, low=-LARGEST_KNOT, high=LARGEST_KNOT, increasing=True
    )
    if not 2 <= len(knots) <= MOST_KNOTS:
        raise InvalidDocument.at(f"{where}/knots", f"must contain from 2 to {MOST_KNOTS} numbers")
    return knots


@dataclass(frozen=True)
class _Knots(Parameter):
    """Knots of the prediction."""

    def read(self, parameters: Mapping[str, Any], name: str, sizes: dict[str, int]) -> Any:  # noqa: ARG002 - it has none
        """Read the knots."""
        return _read_knots({"knots": parameters.get(name)}, "/parameters")


@dataclass(frozen=True)
class _TermList(Parameter):
    """Terms, each with its features, shape, cells and values."""

    def read(self, parameters: Mapping[str, Any], name: str, sizes: dict[str, int]) -> Any:  # noqa: ARG002 - it has none
        """Read the terms; ``Segments.check`` compares them with the features."""
        documents, where = parameters.get(name), f"/parameters/{name}"
        if not isinstance(documents, list) or not len(documents) <= MOST_TERMS:
            raise InvalidDocument.at(where, f"must be an array of at most {MOST_TERMS} terms")
        return tuple(_read_term(document, f"{where}/{i}") for i, document in enumerate(documents))

    def plain(self, value: Any) -> Any:
        """Return the terms as plain JSON."""
        return [
            {
                "features": list(term.features),
                "shape": term.shape,
                **({} if term.shape == "level" else {"along": term.along}),
                "cells": term.cells.tolist(),
                "values": term.values.tolist(),
            }
            for term in value
        ]


def _read_term(document: Any, where: str) -> SegmentTerm:
    if not isinstance(document, dict) or document.get("shape") not in get_args(Shape):
        raise InvalidDocument.at(f"{where}/shape", f"must be one of: {', '.join(get_args(Shape))}")
    features, along, cells = document.get("features"), document.get("along"), document.get("cells")
    if not isinstance(features, list) or not all(map(_is_index, features)) or len(set(features)) < len(features):
        raise InvalidDocument.at(f"{where}/features", "must be the numbers of different features")
    if len(features) > MOST_COMBINED:
        raise InvalidDocument.at(f"{where}/features", f"must be at most {MOST_COMBINED}")
    if along is not None and (not _is_index(along) or document["shape"] == "level"):
        raise InvalidDocument.at(f"{where}/along", "must be null, or the number of a feature")
    if not isinstance(cells, list) or not 0 < len(cells) <= MOST_CELLS:
        raise InvalidDocument.at(f"{where}/cells", f"must contain from 1 to {MOST_CELLS} cells")
    for i, cell in enumerate(cells):
        if not isinstance(cell, list) or len(cell) != len(features) or not all(map(_is_index, cell)):
            raise InvalidDocument.at(f"{where}/cells/{i}", "must have the code of each feature of the term")
    if len(set(map(tuple, cells))) < len(cells):
        raise InvalidDocument.at(f"{where}/cells", "must be different")
    values, is_curve = document.get("values"), document["shape"] == "curve"
    if not isinstance(values, list) or len(values) != len(cells):
        raise InvalidDocument.at(f"{where}/values", "must have one element per cell")
    pairs = [({str(i): row}, str(i)) for i, row in enumerate(values)] if is_curve else [(document, "values")]
    place = f"{where}/values" if is_curve else where
    rows = [
        read_array(own, key, numeric=True, where=place, low=-LARGEST_EFFECT, high=LARGEST_EFFECT) for own, key in pairs
    ]
    if len({len(row) for row in rows}) > 1:
        raise InvalidDocument.at(f"{where}/values", "must have one number per knot")
    numbers = np.array(rows) if is_curve else rows[0]
    table = np.array(cells, dtype=np.int64).reshape(len(cells), len(features))
    return SegmentTerm(tuple(features), document["shape"], table, numbers, along)


def _is_index(value: object) -> bool:
    return type(value) is int and 0 <= value <= 2**31


@dataclass(frozen=True)
class Segments(Parametric):
    """A logit plus terms that depend on features. Not monotone; continuous in the prediction within a segment."""

    family: ClassVar[str] = "segments"
    formula: ClassVar[str] = "logistic(logit(p) + sum of terms of features and logit(p)), p clipped to clip, 1 - clip"
    clip: Annotated[float, Parameter("predictions are clipped at this distance from 0 and 1", low=2.0**-52, high=0.5)]
    knots: Annotated[Floats, _Knots("logits between which terms of the prediction are linear", "logit", "m")]
    features: Annotated[
        tuple[SegmentFeature, ...], _FeatureList("name, and categories, or cuts between bins and knots", shape="f")
    ]
    terms: Annotated[tuple[SegmentTerm, ...], _TermList("features, shape, place along, cells and values", "logit", "t")]

    def __call__(self, p: Floats) -> Floats:  # noqa: ARG002 - it needs features
        """Raise ``InvalidOption``, since the map needs features."""
        raise InvalidOption.at("/features", f"are missing; the map needs: {self.needed}")

    def of_logits(self, z: Floats) -> Floats:
        """Raise ``InvalidOption``, since the map needs features."""
        return self(z)

    @property
    def needed(self) -> str:
        """The names of the features."""
        return ", ".join(feature.name for feature in self.features)

    def check_features(self, features: Features | None, n: int) -> Features:
        """Return the features of ``n`` rows if they are those of the map; raises ``InvalidOption``."""
        if features is None:
            raise InvalidOption.at("/features", f"are missing; the map needs: {self.needed}")
        columns = features.by_name
        lacking = [feature.name for feature in self.features if feature.name not in columns]
        if lacking:
            raise InvalidOption.at("/features", f"have no {', '.join(lacking)}; the map needs: {self.needed}")
        unknown = len(columns) - len(self.features)
        if unknown:
            extra = next(name for name in columns if all(name != feature.name for feature in self.features))
            raise InvalidOption.at(f"/features/{token(extra)}", f"is no feature of the map, which has: {self.needed}")
        if len(features) != n:
            raise LengthMismatch.at("/features", f"have {n_rows(len(features))}, but predictions have {n:,}")
        return features

    def read(self, features: Features | None, n: int) -> list[Feature]:
        """Return the features of ``n`` rows in the order of the map; raises as ``check_features``."""
        columns = self.check_features(features, n).by_name
        return [feature.read(columns[feature.name]) for feature in self.features]

    def of_rows(self, z: Floats, features: Features | None) -> Floats:
        """Return the calibrated probability of rows with logits ``z (n,)``, clipped already. O(n terms)."""
        columns = self.read(features, len(z))
        codes = [own.codes(column) for own, column in zip(self.features, columns, strict=True)]
        sizes = [feature.size for feature in self.features]
        along: dict[int | None, Places] = {}
        f = np.array(z, dtype=np.float64)
        for term in self.terms:
            if term.shape != "level" and term.along not in along:
                own = term.along
                along[own] = places_among(self.knots, z) if own is None else self.features[own].places(columns[own])
            places = None if term.shape == "level" else along[term.along]
            cell = term.places_of(sizes, codes) if term.features else None
            f += term.effect(cell, places, len(self.knots_along(term.along)))
        return fast_logistic(f, out=f)

    def knots_along(self, feature: int | None) -> Floats:
        """Return the knots of a numeric feature, or with None those of the prediction."""
        return self.knots if feature is None else _numbers(self.features[feature].knots)

    def fallbacks(self, features: Features | None, n: int) -> dict[str, Any]:
        """Count the ``rows`` with a fallback, and by feature those that are missing, unseen or outside."""
        columns = self.read(features, n)
        rows, counts = np.zeros(n, np.bool_), {}
        for own, column in zip(self.features, columns, strict=True):
            of = own.fallbacks(column)
            rows |= np.logical_or.reduce(list(of.values()))
            counts[own.name] = {what: int(which.sum()) for what, which in of.items()}
        return {"rows": int(rows.sum()), "features": counts}

    def unknown_rows(self, n: int) -> Features:
        """Return ``n`` rows without any value, to try the map."""
        return Features(tuple(Feature(f.name, numbers=np.full(n, np.nan)) for f in self.features))

    def check(self) -> None:
        """Raise ``InvalidDocument`` if terms do not fit the features."""
        for i, term in enumerate(self.terms):
            where = f"/parameters/terms/{i}"
            if any(f >= len(self.features) for f in term.features):
                raise InvalidDocument.at(f"{where}/features", "must be the numbers of different features")
            if term.along is not None and (term.along >= len(self.features) or self.features[term.along].knots is None):
                raise InvalidDocument.at(f"{where}/along", "must be null, or the number of a numeric feature")
            sizes = [self.features[f].size for f in term.features]
            if (term.cells >= sizes).any():
                raise InvalidDocument.at(f"{where}/cells", "must have codes of the features")
            if term.shape == "curve" and term.values.shape[1] != len(self.knots_along(term.along)):
                raise InvalidDocument.at(f"{where}/values", "must have one number per knot")
