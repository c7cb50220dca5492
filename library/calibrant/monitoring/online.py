"""Online recalibration: maps that follow a stream, and their Bayes mixture."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple, Self, get_args

import numpy as np
from scipy.special import expit

from calibrant.core.arguments import explained
from calibrant.core.arrays import Compared
from calibrant.core.batch import Scale, read_predictions
from calibrant.core.cells import Cells, Floats
from calibrant.core.errors import InvalidDocument, InvalidOption, NotConverged, OneClass, WrongShape
from calibrant.core.inputs import read_rows
from calibrant.core.options import plain
from calibrant.core.reductions import Event, reduce, resolve_event
from calibrant.core.results import counted, n_rows
from calibrant.maps.averaged import tabulate
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.maps.curves import PROBABILITY_CLIP, Curve, Identity
from calibrant.maps.families import curves_document, read_curves
from calibrant.maps.platt import fit_platt
from calibrant.monitoring.online_documents import (
    CELLS,
    Block,
    read_block,
    read_integer,
    read_list,
    read_memories,
    read_numbers,
)

# **Experts.** Identity, static map, sliding-window Platt scaling, and for both families (Platt, beta) and each memory
# an online Newton step map and its calibeaten version. For each finite memory also the static map with a shift of its
# logit, the change of a new event rate: one parameter varies less than two or three. The last expert is a mixture of
# the others that may switch.
#
# **Online Newton step** (Hazan, Agarwal & Kale 2007; Gupta & Ramdas 2023, "Online Platt Scaling with Calibeating").
# With f = logistic(theta x) and g = (f - y) x,
#
#     A <- lambda A + (g g' + f (1 - f) x x') / 2,
#     theta <- theta - (A + P)^-1 (g + (1 - lambda) P (theta - theta_0)),
#
# with the prior precision P, and lambda = 2^(-1/memory). The papers have g g' alone, which bounds the step of a row
# that is unlikely under the map; the mean with its expectation under the map is less noisy, and bounds it as well.
#
# **Calibeating** (Foster & Hart 2023): add to f the mean of y - f over the earlier rows with a similar f. Rows belong
# to two neighbouring knots with linear weights instead of one bin, so that the map stays continuous.
#
# **Mixture.** The weights are the prior 1/N times the likelihood, so that its cumulative log loss is at most
# -log sum_i exp(-L_i) / N <= min L_i + log N. If labels are d rounds late, d + 1 mixtures alternate, each with the
# labels of its own rounds, which have all arrived (Weinberger & Ordentlich 2002): + (d + 1) log N. In a round of up to
# R rows all have the same weights. With the likelihood to the power 1/R, Hoelder's inequality
#
#     sum_i w_i prod_r p_i(r)^(1/R) <= prod_r (sum_i w_i p_i(r))^(1/R)
#
# gives R times the bound.

#: Version of the state document. States of version 1 have no shifts, and stay without.
FORMAT = 2
#: Rows in which the weight of a row halves; None forgets nothing.
MEMORIES: tuple[int | None, ...] = (None, 2000, 500, 125)
#: Rows of the sliding window.
WINDOW = 1000
#: Probabilities are clipped here for the features of online maps.
_CLIP = 1e-7
#: From the prior standard deviations of slopes and intercept.
_PRECISION = 1.0 / np.array([0.3, 0.3, 1.0]) ** 2
_DIAGONAL = np.diag(_PRECISION)
#: Knots of calibeating, even in arcsin(sqrt(f)), and the rows that the prior correction of 0 counts.
_KNOTS, _SHRINKAGE = 17, 100.0
#: Rate at which the tracking expert switches, per row.
_SWITCH = 1e-3
#: Blocks of the sliding window.
_BLOCKS = 10


@dataclass(frozen=True, eq=False, repr=False)
class OnlinePredictions(Compared):
    """Predictions of a followed stream.

    Attributes
    ----------
    probabilities : ndarray, shape (n,)
        Probability of the mixture for each row, before its label was used.
    log_losses : ndarray, shape (N,)
        Cumulative log loss of each expert, in nats.
    experts : tuple of str
        Names of the experts.
    state : OnlineMap
        State that made the last prediction.

    See Also
    --------
    follow_stream : Makes these predictions.

    Examples
    --------
    >>> import calibrant
    >>> found = calibrant.follow_stream([0.5, 0.5], [1, 1])
    >>> found.probabilities.round(2).tolist(), found.state.rounds
    ([0.5, 0.59], 2)
    """

    probabilities: Floats
    log_losses: Floats
    experts: tuple[str, ...]
    state: OnlineMap

    def __repr__(self) -> str:
        return f"OnlinePredictions: {n_rows(len(self.probabilities))}, {counted(len(self.experts), 'expert')}"


class _Maps(NamedTuple):
    """Maps ``static (n,)``, ``online (E, n)`` before calibeating and ``shifted (S, n)``; ``features (E, 3, n)``."""

    static: Floats
    features: Floats
    online: Floats
    shifted: Floats


@dataclass(frozen=True, eq=False)
class OnlineMap:
    """The state of a calibration map that follows a stream.

    ``start_online`` creates the first one; the constructor is not meant to be called directly. Objects are immutable:
    ``update`` returns the next state, and every prediction can be repeated from the state that made it.

    Parameters
    ----------
    static : Curve
        Static map, which the online maps correct.
    memories : tuple of (int or None)
        Half-lives of the online maps, in rows.
    window : int
        Rows of the sliding window.
    delay : int
        Number of rounds by which labels are late.
    rows_per_round : int
        Maximum number of rows of a round.
    rounds : int
        Number of updates.
    log_weights : ndarray, shape (delay + 1, N)
        Logarithms of the weights of the experts.
    tracking : ndarray, shape (N - 1,)
        Logarithms of the weights of the tracking expert.
    theta : ndarray, shape (E, 3)
        Coefficients of the online maps.
    information : ndarray, shape (E, 3, 3)
        Curvatures of the log losses of the online maps, summed with forgetting.
    residuals : ndarray, shape (E, knots, 2)
        Rows, and sums of label minus prediction, at the knots of calibeating.
    shifts : ndarray, shape (S, 2)
        Shifts of the logit of the static map, and their curvatures, for each finite memory; S is 0 for states of
        earlier versions.
    refit : Curve
        Map of the sliding window.
    blocks : tuple
        Rows of the sliding window; the last block is not yet complete.

    See Also
    --------
    start_online : Starts following a stream.
    follow_stream : Follows rows in memory.

    Examples
    --------
    >>> import calibrant
    >>> online = calibrant.start_online().update([0.2, 0.9], [0, 1])
    >>> online.rounds, online.predict([0.5]).round(2).tolist()
    (1, [0.48])
    """

    static: Curve
    memories: tuple[int | None, ...]
    window: int
    delay: int
    rows_per_round: int
    rounds: int
    log_weights: Floats = field(repr=False)
    tracking: Floats = field(repr=False)
    theta: Floats = field(repr=False)
    information: Floats = field(repr=False)
    residuals: Floats = field(repr=False)
    shifts: Floats = field(repr=False)
    refit: Curve
    blocks: tuple[Block, ...] = field(repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OnlineMap) and self.to_document() == other.to_document()

    __hash__ = None  # type: ignore[assignment]

    @property
    def experts(self) -> tuple[str, ...]:
        """Names of the N experts.

        See Also
        --------
        weights : Weights of the experts.

        Examples
        --------
        >>> import calibrant
        >>> calibrant.start_online().experts[-2:]
        ('shift-125', 'tracking')
        """
        return _names(self.memories, len(self.shifts))

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each expert in the next prediction; they sum to 1.

        See Also
        --------
        experts : Names of the experts.

        Examples
        --------
        >>> import calibrant
        >>> round(calibrant.start_online().weights["static"], 2)
        0.04
        """
        return dict(zip(self.experts, np.exp(self._current).tolist(), strict=True))

    @property
    def _current(self) -> Floats:
        # A round uses the mixture that got the label d + 1 rounds before: the one updated last.
        current: Floats = self.log_weights[(self.rounds - 1) % (self.delay + 1)]
        return current

    def predict(self, predictions: Any) -> Floats:
        """Return the probabilities of the mixture for the rows of the next round.

        Parameters
        ----------
        predictions : array_like, shape (n,)
            Probabilities of the event.

        Returns
        -------
        ndarray, shape (n,)
            Calibrated probabilities, in [2^-52, 1 - 2^-52].

        Raises
        ------
        CalibrationError
            If the predictions are invalid.

        See Also
        --------
        to_map : Returns the same function as a calibration map.

        Notes
        -----
        O(N n).

        Examples
        --------
        >>> import calibrant
        >>> calibrant.start_online().predict([0.25, 0.75]).round(6).tolist()
        [0.25, 0.75]
        """
        values = read_predictions(predictions).values
        if values.ndim > 1:
            raise WrongShape.at("/predictions", "must have shape (n,), the probabilities of one event")
        return self._mixed(self._predicted(values.astype(np.float64)))

    def update(
        self,
        predictions: Any,
        labels: Any,
        *,
        class_names: Sequence[Any] | None = None,
        weights: Any = None,
        predicted_by: OnlineMap | None = None,
    ) -> OnlineMap:
        """Return the state after the labels of one round.

        Parameters
        ----------
        predictions : array_like, shape (n,)
            Probabilities of the event that the model predicted in this round, before calibration.
        labels : array_like, shape (n,)
            Outcomes, as for ``evaluate``.
        class_names : sequence, optional
            Labels of the negative and the positive class.
        weights : array_like, shape (n,), optional
            Number of rows that each row stands for, such as the counts of a tally.
        predicted_by : OnlineMap, optional
            State whose predictions were used in the round; by default this one. With late labels it is an earlier one.

        Returns
        -------
        OnlineMap
            The next state.

        Raises
        ------
        CalibrationError
            If an argument is invalid.

        See Also
        --------
        follow_stream : Updates a state row by row.

        Notes
        -----
        With constant delay d, update with the labels of round t before round t + d + 1. O(N n + E), E online maps.

        Examples
        --------
        >>> import calibrant
        >>> online = calibrant.start_online()
        >>> for _ in range(200):
        ...     online = online.update([0.2, 0.2, 0.2, 0.2, 0.2], [1, 1, 0, 0, 0])
        >>> online.predict([0.2]).round(1).tolist()
        [0.4]
        """
        event = _event(predictions, labels, class_names=class_names, weights=weights, weights_kind="frequency")
        count = np.ones(len(event.p)) if event.w is None else event.w
        predictor = self if predicted_by is None else _same_stream(self, predicted_by)
        y = event.y.astype(np.float64)
        maps = self._maps(event.p)
        predicted = predictor._predicted(event.p, maps if predictor is self else None)
        return self._updated(event.p, y, count, maps, _log_losses(predicted, y, count))

    def to_map(
        self, *, reduction: str = "binary", scale: Scale = "probability", n_classes: int | None = None
    ) -> CalibrationMap:
        """Return the function in force as a calibration map.

        Parameters
        ----------
        reduction : str, default "binary"
            Event whose probabilities the stream holds.
        scale : {"probability", "logit"}, default "probability"
            Scale of the predictions that the map will be applied to.
        n_classes : int, optional
            Number of classes K; by default the map is for predictions of shape (n,).

        Returns
        -------
        CalibrationMap
            Map with the mixture as a table of 1,067 knots, interpolated linearly on the logit scale.

        Raises
        ------
        CalibrationError
            If the reduction is not a single event.

        See Also
        --------
        predict : Computes the mixture without the table.

        Examples
        --------
        >>> import calibrant
        >>> calibrant.start_online().to_map().apply([0.25, 0.75]).round(6).tolist()
        [0.25, 0.75]
        """
        if scale not in get_args(Scale):
            raise InvalidOption.at("/scale", f"must be one of: {', '.join(get_args(Scale))}")
        n_classes = plain(n_classes)
        event = resolve_event(reduction, n_classes)
        curve = tabulate(lambda p: self._mixed(self._predicted(p)))
        weights = {name: weight for name, weight in self.weights.items() if weight >= 0.001}
        return CalibrationMap("online", curve, event, scale, n_classes, {"rounds": self.rounds, "weights": weights})

    def to_document(self) -> dict[str, Any]:
        """Return the state as plain JSON; ``from_document`` restores it bit for bit.

        Returns
        -------
        dict
            State of about 10 to 40 kB.

        See Also
        --------
        from_document : Reads the document.

        Examples
        --------
        >>> import calibrant
        >>> calibrant.start_online().to_document()["window"]
        1000
        """
        arrays = {name: getattr(self, name).tolist() for name in _ARRAYS}
        return {
            "format": FORMAT,
            "memories": list(self.memories),
            **{name: getattr(self, name) for name in _INTEGERS},
            **arrays,
            "curves": curves_document([self.static, self.refit]),
            "blocks": [[[cell, *sums] for cell, sums in block.items()] for block in self.blocks],
        }

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """Read a state.

        Parameters
        ----------
        document : mapping
            Result of ``to_document``.

        Returns
        -------
        OnlineMap
            The state.

        Raises
        ------
        InvalidDocument
            If the document is not a state of a format that this version reads.

        See Also
        --------
        to_document : Writes the document.

        Examples
        --------
        >>> import calibrant
        >>> document = calibrant.start_online(delay=2).to_document()
        >>> calibrant.OnlineMap.from_document(document).delay
        2
        """
        if not isinstance(document, Mapping) or type(document.get("format")) is not int:
            raise InvalidDocument.at("/format", f"must be an integer from 1 to {FORMAT}")
        if not 1 <= document["format"] <= FORMAT:
            raise InvalidDocument.at("/format", f"must be from 1 to {FORMAT}")
        memories = read_memories(document.get("memories"))
        values = {name: read_integer(document, name, low) for name, low in _INTEGERS.items()}
        # States of the first format have no shifts, and neither do their successors.
        without = document["format"] == 1 or document.get("shifts") == []
        shapes = _shapes(memories, values["delay"], 0 if without else len(_finite(memories)))
        arrays = {
            name: np.zeros(shape) if without and name == "shifts" else read_numbers(document, name, shape)
            for name, shape in shapes.items()
        }
        static, refit = read_curves(document, 2, 2)
        blocks = tuple(read_block(block, f"/blocks/{i}") for i, block in enumerate(read_list(document, "blocks")))
        return cls(static=static, refit=refit, memories=memories, blocks=blocks, **values, **arrays)  # type: ignore[arg-type]

    # --- OnlinePredictions

    def _mixed(self, predicted: Floats) -> Floats:
        return _clipped(np.exp(self._current) @ predicted)

    def _predicted(self, p: Floats, maps: _Maps | None = None) -> Floats:
        """Return the prediction of each expert: ``(N, n)``, inside (0, 1)."""
        maps = self._maps(p) if maps is None else maps
        others = [p[None], maps.static[None], self.refit(p)[None], maps.online, self._calibeaten(maps.online)]
        clipped = _clipped(np.concatenate([*others, maps.shifted]))
        return np.concatenate([clipped, _clipped(np.exp(self.tracking) @ clipped)[None]])

    def _maps(self, p: Floats) -> _Maps:
        static = _clipped(self.static(p))
        features = _features(static, len(self.memories))
        online = _clipped(expit(np.einsum("ed,edn->en", self.theta, features)))
        # The first feature of Platt scaling is the logit.
        return _Maps(static, features, online, _clipped(expit(self.shifts[:, :1] + features[0, 0])))

    def _calibeaten(self, f: Floats) -> Floats:
        knot, upper = _knots(f)
        mean = self.residuals[:, :, 1] / (self.residuals[:, :, 0] + _SHRINKAGE)
        rows = np.arange(len(f))[:, None]
        added = (1.0 - upper) * mean[rows, knot] + upper * mean[rows, knot + 1]
        # The log loss of a row is at most log 4 above that without calibeating.
        bounded: Floats = np.minimum(np.maximum(f + added, f / 4.0), 1.0 - (1.0 - f) / 4.0)
        return bounded

    # --- Update

    def _updated(self, p: Floats, y: Floats, count: Floats, maps: _Maps, losses: Floats) -> Self:
        """Return the state after a round in which the experts had these ``losses (N,)``; ``maps`` are of this state."""
        rows = float(count.sum())
        mixture = self.rounds % (self.delay + 1)
        log_weights = self.log_weights.copy()
        log_weights[mixture] = _normalised(log_weights[mixture] - losses / self.rows_per_round)
        tracking = _normalised(self.tracking - losses[:-1])
        stay = (1.0 - _SWITCH) ** rows
        shared = math.log1p(-stay) - math.log(len(tracking)) if stay < 1.0 else -math.inf
        tracking = _normalised(np.logaddexp(tracking + (math.log(stay) if stay else -math.inf), shared))
        theta, information, residuals = self._stepped(maps, y, count, rows)
        blocks, refit = self._windowed(p, y, count)
        return replace(
            self,
            rounds=self.rounds + 1,
            log_weights=log_weights,
            tracking=tracking,
            theta=theta,
            information=information,
            residuals=residuals,
            shifts=self._moved(maps.shifted, y, count, rows),
            blocks=blocks,
            refit=refit,
        )

    def _stepped(self, maps: _Maps, y: Floats, count: Floats, rows: float) -> tuple[Floats, Floats, Floats]:
        """Return the coefficients and sums of the online maps after these rows."""
        rates = [0.0 if memory is None else 1.0 / memory for memory in self.memories] * 2
        remaining = np.exp2(np.array(rates) * -rows)[:, None]
        features, f = maps.features, maps.online
        gradient = (features @ (count * (f - y))[:, :, None])[:, :, 0]
        curvature = count * ((f - y) ** 2 + f * (1.0 - f)) / 2.0
        outer = (features * curvature[:, None, :]) @ features.transpose(0, 2, 1)
        information = self.information * remaining[:, :, None] + outer
        pull = (1.0 - remaining) * _PRECISION * (self.theta - _start(len(self.memories)))
        step = np.linalg.solve(information + _DIAGONAL, (gradient + pull)[:, :, None])[:, :, 0]
        theta = self.theta - step
        np.maximum(theta[:, :2], 0.0, out=theta[:, :2])  # non-decreasing maps
        knot, upper = _knots(f)
        place = (knot + _KNOTS * np.arange(len(f))[:, None]).ravel()
        residuals = self.residuals * remaining[:, :, None]
        for i, masses in enumerate((count, count * (y - f))):
            added = np.bincount(place, ((1.0 - upper) * masses).ravel(), _KNOTS * len(f))
            added += np.bincount(place + 1, (upper * masses).ravel(), _KNOTS * len(f))
            residuals[:, :, i] += added.reshape(len(f), _KNOTS)
        return theta, information, residuals

    def _moved(self, f: Floats, y: Floats, count: Floats, rows: float) -> Floats:
        """Return the shifts after these rows, by the Newton step of the online maps with an intercept alone."""
        remaining = np.array([2.0 ** (-rows / memory) for memory in _finite(self.memories)])[: len(self.shifts)]
        shift, information = self.shifts.T
        precision = _PRECISION[-1]
        information = information * remaining + (((f - y) ** 2 + f * (1.0 - f)) / 2.0) @ count
        gradient = (f - y) @ count + (1.0 - remaining) * precision * shift
        return np.array([shift - gradient / (information + precision), information]).T

    def _windowed(self, p: Floats, y: Floats, count: Floats) -> tuple[tuple[Block, ...], Curve]:
        """Return the sliding window with these rows, and its map, refitted if a block is complete."""
        last = dict(self.blocks[-1])
        at = np.minimum((np.arcsin(np.sqrt(p)) * (2.0 / np.pi * CELLS)).astype(np.int64), CELLS - 1)
        for cell in sorted(set(at.tolist())):
            inside = at == cell
            w, (n_held, y_held, p_held) = count[inside], last.get(cell, (0.0, 0.0, 0.0))
            new = float(w.sum()), float((y[inside] * w).sum()), float((p[inside] * w).sum())
            last[cell] = (n_held + new[0], y_held + new[1], p_held + new[2])
        if _rows_of(last) < self.window / _BLOCKS:
            return (*self.blocks[:-1], last), self.refit
        held = [*self.blocks[:-1], last]
        sizes = [_rows_of(block) for block in held]
        while sum(sizes[1:]) >= self.window:
            held, sizes = held[1:], sizes[1:]
        return (*held, {}), _fit(held, self.refit)


#: Integers of a state, and their smallest values.
_INTEGERS = {"window": 10, "delay": 0, "rows_per_round": 1, "rounds": 0}
_ARRAYS = ("log_weights", "tracking", "theta", "information", "residuals", "shifts")


@explained
def start_online(
    static: CalibrationMap | None = None,
    *,
    memories: Sequence[int | None] = MEMORIES,
    window: int = WINDOW,
    delay: int = 0,
    rows_per_round: int = 1,
) -> OnlineMap:
    """Start a calibration map that follows a stream.

    Parameters
    ----------
    static : CalibrationMap, optional
        Map of one event that was in use before; by default the identity.
    memories : sequence of (int or None), default (None, 2000, 500, 125)
        Half-lives of the online maps in rows: at most 8, each at least 1; None never forgets.
    window : int, default 1000
        Rows of the sliding window, from 10.
    delay : int, default 0
        Number d of rounds by which labels are late, up to 10,000: the labels of round t arrive before round t + d + 1.
    rows_per_round : int, default 1
        Maximum number R of rows that are predicted between two updates.

    Returns
    -------
    OnlineMap
        State before the first label.

    Raises
    ------
    CalibrationError
        If an argument is invalid.

    See Also
    --------
    follow_stream : Follows rows in memory.
    fit : Fits a static map.

    Notes
    -----
    The map is a Bayes mixture of N experts: the identity, the static map, Platt scaling of the sliding window, online
    Platt and online beta scaling with each memory, without and with calibeating [1]_ [2]_, the static map with a shift
    of its logit for each finite memory, and a mixture that switches between them [3]_. For every sequence of rows its
    cumulative log loss is at most that of the best expert plus
    R (d + 1) ln N nats, with predictions clipped to [2^-52, 1 - 2^-52].

    References
    ----------
    .. [1] Gupta & Ramdas (2023). Online Platt scaling with calibeating. ICML.
    .. [2] Foster & Hart (2023). "Calibeating": beating forecasters at their own game. Theoretical Economics 18.
    .. [3] Herbster & Warmuth (1998). Tracking the best expert. Machine Learning 32.

    Examples
    --------
    >>> import calibrant
    >>> online = calibrant.start_online()
    >>> len(online.experts), online.experts[:4]
    (23, ('identity', 'static', 'window', 'platt-all'))
    """
    listed = [plain(memory) for memory in memories] if np.iterable(memories) else memories
    chosen = read_memories(listed, InvalidOption)
    options = {"window": plain(window), "delay": plain(delay), "rows_per_round": plain(rows_per_round)}
    integers = {name: read_integer(options, name, _INTEGERS[name], InvalidOption) for name in options}
    if static is not None and (not isinstance(static, CalibrationMap) or static.of_vector):
        raise InvalidOption.at("/static", "must be a calibration map of one event")
    shifts = len(_finite(chosen))
    n = len(_names(chosen, shifts))
    first = {name: np.zeros(shape) for name, shape in _shapes(chosen, integers["delay"], shifts).items()}
    first["log_weights"] -= math.log(n)
    first["tracking"] -= math.log(n - 1)
    first["theta"] += _start(len(chosen))
    curve = Identity() if static is None else static.curve
    return OnlineMap(static=curve, refit=curve, memories=chosen, rounds=0, blocks=({},), **integers, **first)  # type: ignore[arg-type]


@explained
def follow_stream(
    predictions: Any,
    labels: Any,
    *,
    class_names: Sequence[Any] | Mapping[Any, Any] | None = None,
    pos_label: Any = None,
    online: OnlineMap | None = None,
) -> OnlinePredictions:
    """Predict rows in their order, each from the labels that arrived before it.

    Parameters
    ----------
    predictions : array_like, shape (n,)
        Probabilities of the event, in the order of prediction. Each row is a round.
    labels : array_like, shape (n,)
        Outcomes, as for ``evaluate``.
    class_names, pos_label : optional
        As for ``evaluate``.
    online : OnlineMap, optional
        State returned by ``start_online``, or, if its ``delay`` is 0, a later state; by default ``start_online()``.

    Returns
    -------
    OnlinePredictions
        Probabilities, cumulative log losses of the experts, and the state with which a stream goes on.

    Raises
    ------
    CalibrationError
        If an argument is invalid.

    See Also
    --------
    start_online : Has the options.

    Notes
    -----
    O(n N), some 0.2 ms per row.

    Examples
    --------
    >>> import calibrant, numpy as np
    >>> random = np.random.default_rng(0)
    >>> p = random.random(500)
    >>> labels = (random.random(500) < p).astype(int)
    >>> found = calibrant.follow_stream(p, labels)
    >>> loss = -np.log(np.where(labels, found.probabilities, 1 - found.probabilities)).sum()
    >>> bool(loss <= found.log_losses.min() + np.log(len(found.experts)))
    True
    """
    event = _event(predictions, labels, class_names=class_names, pos_label=pos_label)
    state = start_online() if online is None else online
    if not isinstance(state, OnlineMap):
        raise InvalidOption.at("/online", "must be a state; of a map, pass start_online(map)")
    if state.delay and state.rounds:
        raise InvalidOption.at("/online", "must have no updates if its labels are late")
    mixture, total, single_count = np.empty(len(event.p)), np.zeros(len(state.experts)), np.ones(1)
    late: deque[tuple[Floats, Floats, _Maps, Floats]] = deque()
    for t, (p, y) in enumerate(zip(event.p[:, None], event.y.astype(np.float64)[:, None], strict=True)):
        maps = state._maps(p)
        predicted = state._predicted(p, maps)
        mixture[t] = state._mixed(predicted)[0]
        late.append((p, y, maps, _log_losses(predicted, y, single_count)))
        total += late[-1][-1]
        if len(late) > state.delay:
            then, label, maps, losses = late.popleft()
            state = state._updated(then, label, single_count, state._maps(then) if state.delay else maps, losses)
    return OnlinePredictions(mixture, total, state.experts, state)


# --- Parts


def _event(predictions: Any, labels: Any, **options: Any) -> Event:
    batch = read_rows(predictions, labels, **options).batch
    if batch.predictions.n_classes is not None:
        raise WrongShape.at("/predictions", "must have shape (n,), the probabilities of one event")
    return reduce(batch, "binary")


def _clipped(p: Floats) -> Floats:
    return np.minimum(np.maximum(p, PROBABILITY_CLIP), 1.0 - PROBABILITY_CLIP)


def _log_losses(predicted: Floats, y: Floats, count: Floats) -> Floats:
    """Return the log loss of each expert over the rows of a round: ``(N,)``."""
    return -np.log(np.where(y == 1.0, predicted, 1.0 - predicted)) @ count


def _normalised(log_weights: Floats) -> Floats:
    shifted: Floats = log_weights - log_weights.max()
    shifted -= math.log(float(np.exp(shifted).sum()))  # faster than logsumexp for few weights
    return shifted


def _finite(memories: Sequence[int | None]) -> list[int]:
    return [memory for memory in memories if memory is not None]


def _names(memories: Sequence[int | None], shifts: int) -> tuple[str, ...]:
    online = [f"{family}-{memory or 'all'}" for family in ("platt", "beta") for memory in memories]
    shifted = [f"shift-{memory}" for memory in _finite(memories)][:shifts]
    calibeaten = [f"{name}-calibeaten" for name in online]
    return ("identity", "static", "window", *online, *calibeaten, *shifted, "tracking")


def _shapes(memories: Sequence[int | None], delay: int, shifts: int) -> dict[str, tuple[int, ...]]:
    n, maps = len(_names(memories, shifts)), 2 * len(memories)
    return {
        "log_weights": (delay + 1, n),
        "tracking": (n - 1,),
        "theta": (maps, 3),
        "information": (maps, 3, 3),
        "residuals": (maps, _KNOTS, 2),
        "shifts": (shifts, 2),
    }


@cache
def _start(memories: int) -> Floats:
    """Return the coefficients of the identity: ``(E, 3)``."""
    return np.repeat([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]], memories, axis=0)


def _features(p: Floats, memories: int) -> Floats:
    """Return the features of the online maps: ``(E, 3, n)``, logit p, 0, 1 (Platt) or ln p, -ln(1 - p), 1 (beta)."""
    p = np.minimum(np.maximum(p, _CLIP), 1.0 - _CLIP)  # faster than np.clip for few rows
    low, high = np.log(p), -np.log1p(-p)
    features = np.empty((2 * memories, 3, len(p)))
    platt, beta = features[:memories], features[memories:]
    platt[:, 0], platt[:, 1], beta[:, 0], beta[:, 1], features[:, 2] = low + high, 0.0, low, high, 1.0
    return features


def _knots(f: Floats) -> tuple[Any, Floats]:
    """Return the knot below each f, and the weight of the next one."""
    place = np.arcsin(np.sqrt(f)) * (2.0 / np.pi * (_KNOTS - 1))
    knot = np.minimum(place.astype(np.int64), _KNOTS - 2)
    return knot, place - knot


def _rows_of(block: Block) -> float:
    return sum(sums[0] for sums in block.values())


def _fit(blocks: Sequence[Block], before: Curve) -> Curve:
    """Return Platt scaling of the window; the map before if it has one class."""
    totals = np.zeros((CELLS, 3))
    for block in blocks:
        for cell, sums in block.items():
            totals[cell] += sums
    n, y, p = totals[totals[:, 0] > 0.0].T
    try:
        return fit_platt(Cells(p / n, n, n, n, y, y))
    except (OneClass, NotConverged):
        return before


def _same_stream(state: OnlineMap, other: object) -> OnlineMap:
    if not isinstance(other, OnlineMap) or other.experts != state.experts:
        raise InvalidOption.at("/predicted_by", "must be an earlier state of the same stream")
    return other
