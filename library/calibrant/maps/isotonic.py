"""Isotonic regression, and Venn-Abers predictors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import scipy
from scipy.special import expit

from calibrant.core.cells import Cells, Floats, take
from calibrant.core.errors import InvalidDocument
from calibrant.core.progress import report, step
from calibrant.maps.curves import check_outcomes, interpolate, interpolate_logits, mean_logit
from calibrant.maps.parameters import AT_LOGITS, KNOTS, Knots, ParameterChoice, Parametric, Probability

# --- Isotonic regression


@dataclass(frozen=True)
class Isotonic(Parametric):
    """Linear interpolation between the ends of the fitted blocks, constant outside them.

    ``thresholds (t,)`` are ascending in [0, 1], ``heights (t,)`` non-decreasing in [0, 1]. ``at_logits (t,)`` are the
    logits of the thresholds, if the map was fitted to logits. Interpolation between blocks, in the probability, is the
    convention of scikit-learn.
    """

    family: ClassVar[str] = "isotonic"
    formula: ClassVar[str] = "linear between the thresholds"
    thresholds: Annotated[Floats, KNOTS]
    heights: Annotated[Floats, Probability("calibrated probabilities there", shape="t", order="not decreasing")]
    at_logits: Annotated[Floats | None, AT_LOGITS] = None

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]. O(n log t)."""
        return interpolate(p, self.thresholds, self.heights)

    def of_logits(self, z: Floats) -> Floats:
        """Return the calibrated probability of each logit ``z (n,)``. O(n log t)."""
        return self(expit(z)) if self.at_logits is None else interpolate_logits(z, self.at_logits, self.heights)


def fit_isotonic(cells: Cells) -> Isotonic:
    """Fit by pooling adjacent violators (Zadrozny & Elkan 2002; Busing 2022's algorithm in SciPy). O(m).

    Raises ``OneClass`` if all labels are equal.
    """
    check_outcomes(cells)
    fitted = scipy.optimize.isotonic_regression(cells.wy / cells.w, weights=cells.w)
    # Only the first and last prediction of a block affect the map.
    heights = np.clip(fitted.x, 0.0, 1.0)
    differs = heights[1:] != heights[:-1]
    corners = np.concatenate(([True], differs)) | np.concatenate((differs, [True]))
    return Isotonic(cells.p[corners], heights[corners], take(cells.logit, corners))


def fit_centred_isotonic(cells: Cells) -> Isotonic:
    """Fit isotonic regression and join the means of its blocks (Oron & Flournoy 2017). O(m).

    A block is represented by the weighted mean of its predictions, so that the curve is strictly increasing between
    the first and the last block. Raises ``OneClass`` if all labels are equal.
    """
    check_outcomes(cells)
    ends = scipy.optimize.isotonic_regression(cells.wy / cells.w, weights=cells.w).blocks[:-1]
    mass = np.add.reduceat(cells.w, ends)
    centres = np.maximum.accumulate(np.clip(np.add.reduceat(cells.w * cells.p, ends) / mass, 0.0, 1.0))
    at_logits = None if cells.logit is None else mean_logit(cells.logit, cells.w, ends)
    heights = np.maximum.accumulate(np.clip(np.add.reduceat(cells.wy, ends) / mass, 0.0, 1.0))
    distinct = np.append(True, np.diff(centres if at_logits is None else at_logits) > 0.0)
    return Isotonic(centres[distinct], heights[distinct], take(at_logits, distinct))


# --- Inductive Venn-Abers predictors: isotonic regressions with the score itself added under label 0 and under 1

Merge = Literal["log-loss", "brier"]
_MERGES = ("log-loss", "brier")
#: Steps between two progress reports, minus one: a power of two minus one.
_BETWEEN = (1 << 16) - 1


@dataclass(frozen=True)
class VennAbers(Parametric):
    """Step functions p0 and p1 of the score, and the probability merged from them (Vovk, Petej & Fedorova 2015).

    ``scores (t,)`` are ascending in [0, 1], and ``at_logits (t,)`` their logits, if the map was fitted to logits.
    ``p0`` and ``p1 (2 t + 1,)`` are the values below the first score, at it, between it and the next, and so on to
    above the last. The merged probability is p1 / (1 - p0 + p1) for ``log-loss``, and p1 + p0^2 / 2 - p1^2 / 2 for
    ``brier``; it is non-decreasing. Valid on rows held out from the classifier.
    """

    family: ClassVar[str] = "venn-abers"
    formula: ClassVar[str] = (
        "merge of the two probabilities of an isotonic regression with p added as label 0 and as label 1"
    )
    scores: Annotated[Floats, Knots("distinct predicted probabilities of the fit", shape="t", order="increasing")]
    p0: Annotated[
        Floats, Probability("calibrated probabilities with p as label 0", shape="2 t + 1", order="not decreasing")
    ]
    p1: Annotated[
        Floats, Probability("calibrated probabilities with p as label 1", shape="2 t + 1", order="not decreasing")
    ]
    merge: Annotated[Merge, ParameterChoice("the score whose largest regret is smallest", choices=_MERGES)] = "log-loss"
    at_logits: Annotated[Floats | None, AT_LOGITS] = None

    def __call__(self, p: Floats) -> Floats:
        """Return the merged probability of each ``p (n,)`` in [0, 1]. O(n log t)."""
        return self._merged(self._steps_at(p))

    def of_logits(self, z: Floats) -> Floats:
        """Return the merged probability of each logit ``z (n,)``. O(n log t)."""
        return self._merged(self._steps(z))

    def check(self) -> None:
        """Raise ``InvalidDocument`` if the merged probability is not defined."""
        if np.any(self.p0 > self.p1):
            raise InvalidDocument.at("/parameters/p0", "must not exceed p1")
        if not np.all(1.0 - self.p0 + self.p1 > 0.0):
            raise InvalidDocument.at("/parameters/p1", "must be above 0 if p0 is 1")

    def bounds(self, p: Floats) -> tuple[Floats, Floats]:
        """Return p0 <= p1 for each ``p (n,)`` in [0, 1]: ``(n,)`` each. O(n log t)."""
        steps = self._steps_at(p)
        return self.p0[steps], self.p1[steps]

    def bounds_of_logits(self, z: Floats) -> tuple[Floats, Floats]:
        """Return p0 <= p1 for each logit ``z (n,)``: ``(n,)`` each. O(n log t)."""
        steps = self._steps(z)
        return self.p0[steps], self.p1[steps]

    def _merged(self, steps: Any) -> Floats:
        p0, p1 = self.p0, self.p1
        merged = p1 / (1.0 - p0 + p1) if self.merge == "log-loss" else p1 + (p0 * p0 - p1 * p1) / 2
        of_steps: Floats = merged[steps]
        return of_steps

    def _steps_at(self, p: Floats) -> Any:
        return _step_of(self.scores, p, _SAME_SHARE * p)

    def _steps(self, z: Floats) -> Any:
        if self.at_logits is None:
            return self._steps_at(expit(z))
        return _step_of(self.at_logits, z, _rounding_of_logits(z))


#: Predictions whose distance from a score is at most these shares, of p or of 1 + |logit|, are at the score, and such
#: scores are one: programs that compute logits of several classes in another order differ by rounding.
_SAME_SHARE, _SAME_LOGIT = 1e-12, 1e-11


def _rounding_of_logits(z: Floats) -> Floats:
    return _SAME_LOGIT * (1.0 + np.abs(z))


def _step_of(scores: Floats, x: Floats, rounding: Floats) -> Any:
    """Return the step of each ``x (n,)``: even between two scores, odd at a score, up to ``rounding (n,)``."""
    up_to = np.searchsorted(scores, x + rounding, side="right")
    return 2 * up_to - ((up_to > 0) & (scores.take(up_to - 1, mode="clip") >= x - rounding))


def fit_venn_abers(cells: Cells, *, merge: Merge = "log-loss") -> VennAbers:
    """Fit p0 and p1 at all scores and between them (Vovk, Petej & Fedorova 2015, section 2). O(m) after the sort.

    The added row has weight 1; importance weights are scaled to the effective number of rows. Scores at which neither
    p0 nor p1 changes are left out. Raises ``OneClass`` if all labels are
    equal.
    """
    check_outcomes(cells)
    scale = cells.rows_per_weight
    scores, rounding = (
        (cells.p, _SAME_SHARE * cells.p) if cells.logit is None else (cells.logit, _rounding_of_logits(cells.logit))
    )
    last = np.flatnonzero(np.append(np.diff(scores) > rounding[1:], True))  # of the cells that are the same score
    ends = np.append(0, last + 1)
    w, s = (cells.cumulative_w[ends] * scale).tolist(), (cells.cumulative_wy[ends] * scale).tolist()
    with step(0, 3):
        following = _following(w, s)
    pair = []
    for part, y in enumerate((0.0, 1.0), 1):
        with step(part, 3):
            pair.append(np.clip(_steps(w, s, following, y), 0.0, 1.0))
    # Up to rounding the steps are non-decreasing, and p0 <= p1.
    p0, p1 = (np.maximum.accumulate(steps) for steps in pair)
    p0 = np.minimum(p0, p1)
    same = (p0[:-1] == p0[1:]) & (p1[:-1] == p1[1:])
    changes = ~(same[0::2] & same[1::2])
    changes[0] |= not changes.any()
    steps = np.append(0, np.flatnonzero(np.repeat(changes, 2)) + 1)
    return VennAbers(cells.p[last[changes]], p0[steps], p1[steps], merge, take(cells.logit, last[changes]))


def _following(w: list[float], s: list[float]) -> list[int]:
    """Return for each point (w_i, s_i) the next corner of the greatest convex minorant of it and the later points."""
    last = len(w) - 1
    following = [last] * (last + 1)
    for i in range(last - 1, -1, -1):
        if not i & _BETWEEN:
            report(last - i, last, "corners")
        j = i + 1
        while j < last:
            k = following[j]
            if (s[j] - s[i]) * (w[k] - w[j]) < (s[k] - s[j]) * (w[j] - w[i]):
                break
            j = k
        following[i] = j
    return following


def _steps(w: list[float], s: list[float], following: list[int], y: float) -> Floats:
    """Return the regression at an added row with weight 1 and label y: below the first cell, in it, after it, ...

    ``w`` and ``s`` are the sums of weights and of positives up to each point of the cumulative sum diagram. An added
    row divides it into two parts, the right one shifted by (1, y). The result is the slope of the line that touches
    both parts from below. As the row moves to the right, the slope increases and both points of contact move right: on
    the left along ``corners``, the corners of the points so far, and on the right along ``following``.
    """
    count = len(w) - 1
    heights = np.empty(2 * count + 1)
    corners, head, right = [0], 0, 0
    for place in range(2 * count + 1):
        if not place & _BETWEEN:
            report(place, 2 * count, f"added rows of label {y:.0f}")
        begins = (place + 1) // 2  # first point of the right part
        if place and place % 2 == 0:  # add a point to the left part
            new = place // 2
            while len(corners) - head > 1:
                a, b = corners[-2], corners[-1]
                if (s[b] - s[a]) * (w[new] - w[b]) < (s[new] - s[b]) * (w[b] - w[a]):
                    break
                corners.pop()
            corners.append(new)
        right = max(right, begins)
        while True:
            left = corners[head]
            down, along = s[right] + y - s[left], w[right] + 1.0 - w[left]
            while right < count:  # the point of contact minimises the slope from the left point
                after = following[right]
                if (s[after] - s[right]) * along >= down * (w[after] - w[right]):
                    break
                right = after
                down, along = s[right] + y - s[left], w[right] + 1.0 - w[left]
            if head + 1 == len(corners):
                break
            after = corners[head + 1]
            if (s[after] - s[left]) * along >= down * (w[after] - w[left]):
                break
            head += 1
        heights[place] = down / along
    return heights
