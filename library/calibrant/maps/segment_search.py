"""The fit of ``Segments``: terms are chosen by their evidence, and shrunk by empirical Bayes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from calibrant.core.cells import Floats
from calibrant.core.features import Feature, Features
from calibrant.core.progress import report
from calibrant.maps.segments import Codes, Places, SegmentFeature, Segments, SegmentTerm, Shape, places_among

#: Bins of numbers in combinations, and knots of curves; the outer knots leave this share of the rows outside.
_BINS, _KNOTS, _OUTSIDE = 8, 12, 0.01
#: Prior variances of an effect, in squared logits.
_VARIANCES = np.geomspace(1e-3, 2.0, 8)
#: Correlation length of a curve, in units of the range of its knots.
_LENGTH = 4.0
#: A mixture of prior variances, of which the first is none, starts with half on it, and has this prior count of it.
_MIXED, _NULLS, _EM_STEPS = np.concatenate([[0.0], np.geomspace(1e-3, 2.0, 9)]), 2.0, 30
#: Cells with less information, the sum of p (1 - p), have no effect: their log-likelihood is not quadratic.
_LEAST_INFORMATION = 1.0
#: The least log evidence of a term, and how it grows with the logarithm of the number of candidates.
_EVIDENCE, _RATE = 1.0, 0.5
#: Candidates are compared on at most this many rows.
SCREENED_ROWS = 100_000
#: The most candidates that combine the same number of features.
_MOST_CANDIDATES = 4_000
#: Curves over the cells of a feature have at most this many values for each row.
_VALUES_PER_ROW = 0.2
#: The most terms, and the passes over the chosen terms at the end.
_MOST_TERMS, _SWEEPS = 40, 6
#: Steps of the logits of a row beyond this are halved, at most so often, until the likelihood increases.
_LARGE_STEP, _HALVINGS = 1.0, 10


@dataclass(frozen=True)
class SegmentRows:
    """Rows of a fit: logits ``z``, outcomes ``y`` and weights ``w (n,)``, with codes and places of each feature."""

    z: Floats
    y: Floats
    w: Floats | None
    sizes: tuple[int, ...]
    codes: tuple[Codes, ...]
    along: dict[int | None, Places]
    n_knots: dict[int | None, int]

    def rows(self, chosen: npt.NDArray[np.int64]) -> SegmentRows:
        """Return the chosen rows."""
        return replace(
            self,
            z=self.z[chosen],
            y=self.y[chosen],
            w=None if self.w is None else self.w[chosen],
            codes=tuple(codes[chosen] for codes in self.codes),
            along={key: places.rows(chosen) for key, places in self.along.items()},
        )

    def __len__(self) -> int:
        return len(self.z)

    def log_likelihood(self, f: Floats) -> float:
        """Return the log-likelihood of the logits ``f (n,)``."""
        terms = self.y * f - np.logaddexp(0.0, f)
        return float((terms if self.w is None else terms * self.w).sum())

    def slopes(self, f: Floats) -> tuple[Floats, Floats]:
        """Return the derivative of the log-likelihood by the logits ``f (n,)``, and its negative second one."""
        p = expit(f)
        first, second = self.y - p, p * (1.0 - p)
        return (first, second) if self.w is None else (first * self.w, second * self.w)


@dataclass
class CandidateTerm:
    """A candidate; once chosen it has the ``values`` of its cells, and their ``keys``."""

    features: tuple[int, ...]
    shape: Shape
    along: int | None = None
    values: Floats = field(default_factory=lambda: np.zeros(0))
    keys: Codes | None = field(default=None, repr=False)

    def cell(self, rows: SegmentRows) -> tuple[Codes, int]:
        """Return the cell of each row and the number of cells; those of many combinations are the ones that occur."""
        if not self.features:
            return np.zeros(len(rows), np.int64), 1
        own, key = [rows.sizes[f] for f in self.features], rows.codes[self.features[0]]
        for f in self.features[1:]:
            key = key * rows.sizes[f] + rows.codes[f]
        total = math.prod(own)
        if self.keys is None and total > 2 * len(rows):
            self.keys = np.unique(key)
        if self.keys is None:
            return key, total
        place = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        return np.where(self.keys[place] == key, place, len(self.keys)), len(self.keys)


class _Evidence:
    """Sums of a term over rows, from which its evidence and its effects follow.

    With an effect u in a cell, the log-likelihood is about g u - h u^2 / 2. Of a curve, h is tridiagonal: ``across``
    has its elements beside the diagonal.
    """

    def __init__(self, term: CandidateTerm, rows: SegmentRows, first: Floats, second: Floats) -> None:
        cell, count = term.cell(rows)
        self.cell, self.count = cell, count
        places = rows.along[term.along] if term.shape != "level" else None
        self.n_knots = rows.n_knots[term.along] if term.shape == "curve" else 1
        self.across: Floats | None = None
        if term.shape == "level" or places is None:
            self.g, self.h = self._sum(first), self._sum(second)
        elif term.shape == "slope":
            x = places.positions(rows.n_knots[term.along])
            self.g, self.h = self._sum(first * x), self._sum(second * x * x)
        else:
            if places.known is not None:
                first, second = first * places.known, second * places.known
            m, t = self.n_knots, places.share
            index = cell * m + places.left
            size = (count + 1) * m
            left, right = 1.0 - t, t
            sums = [_summed(index, v, size) for v in (first * left, first * right)]
            squares = [_summed(index, v, size) for v in (second * left * left, second * right * right)]
            self.across = _summed(index, second * left * right, size)[: count * m]
            for sum_ in (sums, squares):
                sum_[0][1:] += sum_[1][:-1]
            self.g, self.h = sums[0][: count * m], squares[0][: count * m]

    def _sum(self, values: Floats) -> Floats:
        return _summed(self.cell, values, self.count + 1)[: self.count]

    def add(self, values: Floats) -> None:
        """Take the current ``values`` of the effects into account, around which the sums were taken."""
        u = values.ravel()
        self.g = self.g + self.h * u
        if self.across is not None:
            self.g[:-1] += self.across[:-1] * u[1:]
            self.g[1:] += self.across[:-1] * u[:-1]

    def best(self, *, single: bool) -> tuple[float, Floats]:
        """Return the largest log evidence against no effect, and posterior means: ``(cells,)`` or ``(cells, m)``."""
        if (across := self.across) is not None:
            curves = (self._curve(across, variance) for variance in _VARIANCES.tolist())
            evidence, values = max(curves, key=lambda pair: pair[0])
            return evidence, values.reshape(self.count, self.n_knots)
        live = self.h > (0.0 if single else _LEAST_INFORMATION)
        values = np.zeros(self.count)
        if not live.any():
            return 0.0, values
        g, h = self.g[live], self.h[live]
        spread = 1.0 + np.outer(_VARIANCES, h)
        logs = (0.5 * g * g * _VARIANCES[:, None] / spread - 0.5 * np.log(spread)).sum(axis=1)
        k = int(logs.argmax())
        evidence, values[live] = float(logs[k]), g * _VARIANCES[k] / spread[k]
        if not single:
            mixed, means = _mixture(g, h)
            if mixed > evidence:
                evidence, values[live] = mixed, means
        return evidence, values

    def _curve(self, across: Floats, variance: float) -> tuple[float, Floats]:
        """Return the log evidence and the posterior mean of curves with an Ornstein-Uhlenbeck prior."""
        from scipy.linalg import cho_solve_banded, cholesky_banded  # which a start would import for no other use

        m = self.n_knots
        rho = math.exp(-1.0 / ((m - 1) * _LENGTH))
        scale = variance * (1.0 - rho * rho)
        diagonal = np.full(m, (1.0 + rho * rho) / scale)
        diagonal[[0, -1]] = 1.0 / scale
        beside = np.append(np.full(m - 1, -rho / scale), 0.0)
        band = np.stack([self.h + np.tile(diagonal, self.count), across + np.tile(beside, self.count)])
        band[1, m - 1 :: m] = 0.0
        factor = cholesky_banded(band, lower=True, check_finite=False)
        means = cho_solve_banded((factor, True), self.g, check_finite=False)
        prior = -self.count * (m * math.log(variance) + (m - 1) * math.log1p(-rho * rho))
        return float(0.5 * self.g @ means - np.log(factor[0]).sum() + 0.5 * prior), means


def _summed(cell: Codes, values: Floats, size: int) -> Floats:
    """Return the sum of the values in each cell."""
    return np.bincount(cell, values, size).astype(np.float64, copy=False)


def _mixture(g: Floats, h: Floats) -> tuple[float, Floats]:
    """Return the log evidence of a mixture of normal priors around 0 (Stephens 2017), and the posterior means."""
    spread = 1.0 + np.outer(_MIXED, h)
    logs = 0.5 * g * g * _MIXED[:, None] / spread - 0.5 * np.log(spread)
    top = logs.max(axis=0)
    likelihood = np.exp(logs - top)
    share = np.full(len(_MIXED), 0.5 / (len(_MIXED) - 1))
    share[0] = 0.5
    for _ in range(_EM_STEPS):
        posterior = share[:, None] * likelihood
        counts = (posterior / posterior.sum(axis=0)).sum(axis=1)
        counts[0] += _NULLS
        share = counts / counts.sum()
    mixed = share @ likelihood
    posterior = share[:, None] * likelihood / mixed
    means = (posterior * (_MIXED[:, None] / spread)).sum(axis=0) * g
    return float((np.log(mixed) + top).sum() + _NULLS * math.log(share[0])), means


def candidates(rows: SegmentRows, combined: int, ranked: Sequence[int]) -> list[CandidateTerm]:
    """Return the candidates that combine so many of the ``ranked`` features, of which the first are the likeliest.

    If there would be too many, slopes and curves are along the prediction alone; if there still are, the last features
    are left out.
    """
    places: list[int | None] = list(rows.along)
    shapes: tuple[Shape, ...] = ("slope", "curve") if combined < 2 else ("slope",) if combined == 2 else ()
    if math.comb(len(ranked), combined) * (1 + len(shapes) * len(places)) > _MOST_CANDIDATES:
        places = [None]
    count = len(ranked)
    while count > combined and math.comb(count, combined) * (1 + len(shapes) * len(places)) > _MOST_CANDIDATES:
        count -= 1
    terms = []
    for features in itertools.combinations(sorted(ranked[:count]), combined):
        terms.append(CandidateTerm(features, "level"))
        cells = math.prod(rows.sizes[f] for f in features)
        for along in (along for along in places if along not in features):
            few = not features or cells * rows.n_knots[along] <= _VALUES_PER_ROW * len(rows)
            terms += [CandidateTerm(features, shape, along) for shape in shapes if shape != "curve" or few]
    return terms


def search(rows: SegmentRows, order: int) -> list[CandidateTerm]:
    """Choose terms greedily by their evidence, combinations of more features later; the terms have values."""
    f, chosen, ranked = rows.z.copy(), list[CandidateTerm](), list(range(len(rows.sizes)))
    for combined in range(order + 1):
        terms = candidates(rows, combined, ranked)
        least = _EVIDENCE + (_RATE * math.log(len(terms)) if combined and terms else 0.0)
        slopes = rows.slopes(f)
        gains = []
        for term in terms:
            gains.append(_Evidence(term, rows, *slopes).best(single=not term.features)[0])
            report(0, 1, "terms")
        if combined == 1:
            likeliest = {f: max(g for g, t in zip(gains, terms, strict=True) if t.features == (f,)) for f in ranked}
            ranked.sort(key=lambda f: -likeliest[f])
        queue = sorted(((gain, -i) for i, gain in enumerate(gains) if gain >= least), reverse=True)
        while queue and len(chosen) < _MOST_TERMS:
            _, place = queue.pop(0)
            term = terms[-place]
            sums = _Evidence(term, rows, *rows.slopes(f))
            gain, values = sums.best(single=not term.features)
            if gain < least:
                continue
            if queue and gain < queue[0][0]:  # others are now better
                queue.append((gain, place))
                queue.sort(reverse=True)
                continue
            effect = _effect(term, rows, values, sums.cell)
            share = _share_of_step(effect, rows, f)
            f += share * effect
            term.values = share * values
            chosen.append(term)
            f = refined(chosen, rows, f)
    return chosen


def estimated_seconds(n: int, features: int, order: int) -> float:
    """Estimate the seconds of a search of terms of ``n`` rows."""
    counts = [(2 * features + 3) * features, features**2 * (features + 2) // 4, features**3 // 6][:order]
    return sum(min(count, _MOST_CANDIDATES) for count in counts) * (2e-4 + 4e-8 * min(n, SCREENED_ROWS)) + 4e-6 * n


def _effect(term: CandidateTerm, rows: SegmentRows, values: Floats, cell: Codes) -> Floats:
    """Return the effect of ``values`` on each row."""
    whole = np.concatenate([values, np.zeros_like(values[:1])])
    places = rows.along[term.along] if term.shape != "level" else None
    n_knots = rows.n_knots[term.along] if term.shape != "level" else 1
    effect = SegmentTerm((), term.shape, np.zeros((0, 0), np.int64), whole, term.along).effect(cell, places, n_knots)
    return np.asarray(effect)


def refined(terms: Sequence[CandidateTerm], rows: SegmentRows, f: Floats) -> Floats:
    """Update the values of all terms, one after the other, given and returning the logits ``f (n,)``."""
    for term in terms:
        sums = _Evidence(term, rows, *rows.slopes(f))
        if len(term.values):
            sums.add(term.values)
        _, values = sums.best(single=not term.features)
        before = term.values if len(term.values) else np.zeros_like(values)
        effect = _effect(term, rows, values - before, sums.cell)
        share = _share_of_step(effect, rows, f)
        f = f + share * effect
        term.values = values if share == 1.0 else before + share * (values - before)
    return f


def _share_of_step(effect: Floats, rows: SegmentRows, f: Floats) -> float:
    """Return 1, or the share of a large step that increases the likelihood, which is not quadratic far away."""
    share = 1.0
    if np.abs(effect).max(initial=0.0) <= _LARGE_STEP:
        return share
    before = rows.log_likelihood(f)
    while share > 0.5**_HALVINGS and rows.log_likelihood(f + share * effect) < before:
        share /= 2.0
    return share


# --- How features are read


def read_feature(feature: Feature) -> SegmentFeature:
    """Return how a map reads a feature."""
    if feature.codes is not None:
        return SegmentFeature(feature.name, feature.categories)
    values = feature.numbers[~feature.missing]  # type: ignore[index]
    distinct = np.unique(values)
    if not len(distinct):  # in a part of the rows
        return SegmentFeature(feature.name, cuts=distinct, knots=np.array([0.0, 1.0]))
    if len(distinct) <= _BINS:
        knots = distinct if len(distinct) > 1 else distinct[0] + np.array([0.0, 1.0]) * max(1.0, abs(distinct[0]))
        return SegmentFeature(feature.name, cuts=distinct[1:], knots=knots)
    cuts = np.unique(np.quantile(_thinned(values, _BINS), np.arange(1, _BINS) / _BINS))
    inner = np.quantile(_thinned(values, _KNOTS), np.linspace(_OUTSIDE, 1.0 - _OUTSIDE, _KNOTS)[1:-1])
    outer = np.quantile(values, [_OUTSIDE, 1.0 - _OUTSIDE])
    knots = np.unique(np.concatenate([outer, np.clip(inner, *outer)]))
    if len(knots) < 2:
        knots = distinct[[0, -1]]
    return SegmentFeature(feature.name, cuts=cuts[cuts > distinct[0]], knots=knots)


def _thinned(values: Floats, parts: int) -> Floats:
    """Return sorted values in which none has more than its part of the rows, so that quantiles tell the others apart.

    The values that have more, such as the zeros of a sum of money, are repeated as often as a part of the others.
    """
    distinct, counts = np.unique(values, return_counts=True)
    largest = np.sort(counts)[::-1][:parts]
    others = len(values) - np.concatenate([[0], np.cumsum(largest)[:-1]])
    part = others / (parts - np.arange(len(largest)))
    most = math.ceil(part[np.argmax(largest <= part)])
    return np.repeat(distinct, np.minimum(counts, most))


def knots_of_logits(z: Floats) -> Floats:
    """Return evenly spaced knots between the outer quantiles of logits."""
    low, high = np.quantile(z, [_OUTSIDE, 1.0 - _OUTSIDE]).tolist()
    if not high - low > 1e-9 * max(1.0, abs(low)):
        low, high = low - 0.5, low + 0.5
    return np.linspace(low, high, _KNOTS)


def rows_of(map: Segments, z: Floats, y: Floats, w: Floats | None, features: Features) -> SegmentRows:
    """Return the rows of a fit, read as the map reads them."""
    columns = [own.read(features.by_name[own.name]) for own in map.features]
    along: dict[int | None, Places] = {None: places_among(map.knots, z)}
    along |= {i: own.places(columns[i]) for i, own in enumerate(map.features) if own.knots is not None}
    return SegmentRows(
        z,
        y,
        w,
        tuple(own.size for own in map.features),
        tuple(own.codes(column) for own, column in zip(map.features, columns, strict=True)),
        along,
        {key: len(map.knots_along(key)) for key in along},
    )


def settled(terms: Sequence[CandidateTerm], rows: SegmentRows) -> tuple[SegmentTerm, ...]:
    """Fit the chosen terms to all rows, from no effects on, and return them."""
    fresh = [CandidateTerm(term.features, term.shape, term.along) for term in terms]
    f = rows.z
    for _ in range(_SWEEPS):
        f = refined(fresh, rows, f)
    return tuple(term for term in (_with_cells(term, rows) for term in fresh) if len(term.cells))


def _with_cells(term: CandidateTerm, rows: SegmentRows) -> SegmentTerm:
    """Return a term with the codes of its cells; cells without an effect are left out."""
    keys = np.arange(len(term.values)) if term.keys is None else term.keys
    any_: Any = term.values if term.values.ndim == 1 else np.abs(term.values).sum(axis=1)
    live = np.flatnonzero(any_ != 0.0)
    codes, rest = [], keys[live]
    for f in reversed(term.features):
        rest, code = np.divmod(rest, rows.sizes[f])
        codes.append(code)
    cells = np.stack(codes[::-1], axis=1) if codes else np.zeros((len(live), 0), np.int64)
    return SegmentTerm(term.features, term.shape, cells.astype(np.int64), term.values[live], term.along)
