"""The catalogue of methods of prediction sets, and their fits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from types import MappingProxyType
from typing import Any

import numpy as np

from calibrant.core.arguments import explained, refuse_misspelt
from calibrant.core.arrays import numbered_names
from calibrant.core.batch import Batch, InputScale, Integers, refuse_clusters
from calibrant.core.cells import Floats
from calibrant.core.digest import digest, label_rows, sample_of
from calibrant.core.errors import (
    InvalidOption,
    LengthMismatch,
    MissingClass,
    OneClass,
    TooFewRows,
    UnknownMethod,
    WrongShape,
    one_of,
)
from calibrant.core.groups import group_members
from calibrant.core.inputs import read_rows
from calibrant.core.options import OFF, ON, Catalogue, Described, Option, known_name, read_seed, read_values
from calibrant.core.progress import report
from calibrant.sets.class_clusters import cluster_classes
from calibrant.sets.families import (
    FALSE_NEGATIVES,
    FALSE_POSITIVES,
    FEWEST_SCORES,
    LOSSES,
    MOST_FREE_RANKS,
    MOST_IN_ALL,
    MOST_SCORES,
    NEVER,
    SET_FAMILIES,
    SetFamily,
    StoredScores,
)
from calibrant.sets.label_matrix import in_matrix, rows_of_labels
from calibrant.sets.scores import label_scores, probability_scores
from calibrant.sets.set_map import ROUNDING, SetMap

#: Estimated seconds of a fit for each number.
_NUMBER_SECONDS = 2e-8
#: The most numbers of rows that are repeated as often as their frequency weights.
MOST_REPEATED = 50_000_000
#: The most names of classes or groups in a warning.
_NAMED = 3


@dataclass(frozen=True, repr=False)
class SetMethod(Described):
    """Entry of ``calibrant.SET_METHODS``.

    Attributes
    ----------
    name, title : str
        Name in calls, and title.
    definition, source : str
        Score or loss, and the papers that define it.
    guarantee : str
        What holds for new rows that are exchangeable with those of the fit.
    options : mapping of str to Option
        Options by name.

    See Also
    --------
    fit_sets : Fits a map.

    Examples
    --------
    >>> import calibrant
    >>> calibrant.SET_METHODS["lac"].title
    'Least ambiguous set-valued classifier'
    """

    name: str
    title: str
    definition: str
    source: str
    guarantee: str
    options: Mapping[str, Option] = field(default_factory=dict)

    @property
    def family(self) -> type[SetFamily]:
        """Family of the maps.

        See Also
        --------
        SetMap : Has a ``function`` of the family.

        Examples
        --------
        >>> import calibrant
        >>> calibrant.SET_METHODS["raps"].family.family
        'raps'
        """
        return SET_FAMILIES[self.name]


_COVERAGE = (
    "the set has the label with probability at least 1 - alpha, over rows of the fit and new rows; with conditional, "
    "also given the class, the cluster of the class, or the group"
)
_ALPHA = Option(0.1, low=1e-6, high=1.0 - 1e-6, real=True)
_SETS = {
    "alpha": _ALPHA,
    "conditional": Option(None, choices=(None, "class", "cluster", "group")),
    "allow_empty": ON,
    "adjustable": OFF,
}
_ADAPTIVE = {**_SETS, "randomised": OFF}

#: The catalogue of methods of prediction sets by name.
SET_METHODS = Catalogue[SetMethod](
    "method",
    {
        entry.name: entry
        for entry in (
            SetMethod(
                "lac",
                "Least ambiguous set-valued classifier",
                "the classes whose probability is at least the k-th largest probability of a label in the fit, "
                "k = ceil((n + 1) (1 - alpha))",
                "Sadinle, Lei & Wasserman (2019); by class and group: Vovk, Gammerman & Shafer (2005), section 4.5; by "
                "cluster: Ding et al. (2023)",
                _COVERAGE,
                _SETS,
            ),
            SetMethod(
                "aps",
                "Adaptive prediction sets",
                "the first classes of a row, from the largest probability, as long as their sum is at most the k-th "
                "smallest sum up to a label in the fit; if randomised, a fraction of the last one does not count",
                "Romano, Sesia & Candes (2020)",
                _COVERAGE,
                _ADAPTIVE,
            ),
            SetMethod(
                "raps",
                "Regularised adaptive prediction sets",
                "as aps, with penalty (r - k_reg) added to the sum up to rank r above k_reg; the defaults are those of "
                "the paper for ImageNet",
                "Angelopoulos, Bates, Malik & Jordan (2021)",
                _COVERAGE,
                {
                    **_ADAPTIVE,
                    "penalty": Option(0.01, low=0.0, high=1e6, real=True),
                    "k_reg": Option(5, low=0, high=MOST_FREE_RANKS),
                },
            ),
            SetMethod(
                "crc",
                "Conformal risk control",
                "a threshold for which the mean loss of the n clusters of the fit is at most alpha - (1 - alpha) / n: "
                "the largest one if the loss of a cluster, such as an image, is the fraction of its positive rows "
                "below it; for false-positive-rate the smallest one, and the loss is the fraction of its negative rows "
                "from it on",
                "Angelopoulos, Bates, Fisch, Lei & Schuster (2024), theorem 1",
                "the expected loss of a new cluster with positive rows, or with negative ones, is at most alpha: in "
                "expectation over the rows of the fit too, not for each fit",
                {
                    "alpha": _ALPHA,
                    "conditional": Option(None, choices=(None, "group")),
                    "loss": Option(FALSE_NEGATIVES, LOSSES),
                },
            ),
        )
    },
    MappingProxyType({"thr": "lac", "lac-score": "lac", "least-ambiguous": "lac", "conformal-risk-control": "crc"}),
    public="SET_METHODS",
)


# --- A fit without its rows


@dataclass(frozen=True)
class SetFitting:
    """Checked options of ``fit_sets``, without the rows."""

    method: SetMethod
    options: Mapping[str, Any]

    @classmethod
    def read(cls, method: object, options: Mapping[str, Any], *, where: str = "") -> SetFitting:
        """Check the method and its options, whose errors name places below ``where``."""
        name = known_name(method, SET_METHODS, {}) if isinstance(method, str) else method
        entry = SET_METHODS.get(name) if isinstance(name, str) else None
        if entry is None:
            raise UnknownMethod.at("/method", one_of(method, SET_METHODS))
        values = read_values(options, entry.options, entry.name, where=where)
        if values.get("adjustable") and values["conditional"] == "cluster":
            text = "cannot be combined with conditional cluster: the clusters were chosen for this alpha"
            raise InvalidOption.at(f"{where}/adjustable", text)
        return cls(entry, values)

    @property
    def needed(self) -> int:
        """The fewest rows for a finite threshold: k <= n."""
        alpha: float = self.options["alpha"]
        return math.ceil(1.0 / alpha - 1.0 - 1e-9)

    def seconds(self, batch: Batch) -> float:
        """Estimate the seconds of ``run``."""
        return batch.predictions.given.size * _NUMBER_SECONDS

    def check(self, batch: Batch, groups: Sequence[str] | None) -> None:
        """Raise what ``run`` would raise."""
        name, by_group = self.method.name, self.options["conditional"] == "group"
        counts = np.bincount(batch.labels, batch.weights, minlength=batch.predictions.n_classes or 2)
        if batch.weights is not None and batch.weights_kind != "frequency":
            text = "must be frequencies (weights_kind): others need the likelihood ratio of each new row"
            raise InvalidOption.at("/weights", text)
        if batch.weights is not None and batch.weights.sum() * (batch.predictions.n_classes or 1) > MOST_REPEATED:
            raise InvalidOption.at("/weights", f"must repeat rows to at most {MOST_REPEATED:,} numbers")
        if (groups is not None) != by_group:
            text = "are not used; for a threshold for each group, set conditional to group"
            raise InvalidOption.at("/groups", "are needed if conditional is group" if by_group else text)
        if name == "crc":
            if batch.predictions.n_classes is not None:
                raise WrongShape.at("/predictions", "must be (n,) for crc, with the cluster of each row")
            if counts[self._lossy] == 0:
                raise MissingClass.at("/labels", f"must have rows with label {self._lossy}")
        else:
            refuse_clusters(batch, f"method {name}")
            if np.count_nonzero(counts) < 2:
                raise OneClass.at("/labels", "must have at least two classes")
        if groups is not None and len(groups) != len(batch):
            raise LengthMismatch.at("/groups", f"has {len(groups):,} rows, but /predictions has {len(batch):,}")
        if groups is not None:
            group_members(groups, len(batch))

    def run(
        self,
        batch: Batch,
        groups: Sequence[str] | None = None,
        seed: int = 0,
        class_names: tuple[str, ...] | None = None,
        n_labels: int = 1,
    ) -> SetMap:
        """Fit the map to rows, of ``n_labels`` for each prediction; ``TooFewRows`` if every set had every class."""
        self.check(batch, groups)
        own_rows = label_rows(batch)
        training, sample = digest(own_rows), sample_of(own_rows)
        if batch.weights is not None:
            repeated = np.repeat(np.arange(len(batch)), batch.weights.astype(np.int64))
            groups = None if groups is None else [groups[i] for i in repeated.tolist()]
            batch = replace(batch.rows(repeated), weights=None)
        conditional, alpha, family = self.options["conditional"], self.options["alpha"], self.method.family
        n_classes = batch.predictions.n_classes or 2
        names, part = (None, np.zeros(len(batch), np.int64)) if groups is None else numbered_names(groups)
        labels: tuple[str | int, ...] = class_names or tuple(range(n_classes))
        strata: Sequence[str | int] = ("all",) if names is None else names
        diagnostics: dict[str, Any] = {}
        report(0, 1, "scores")
        if self.method.name == "crc":
            quantiles, rows = _risk_quantiles(batch, part, len(strata), alpha, self._lossy)
        else:
            scores = self._scores(batch, seed)
            if conditional == "class":
                part, strata = batch.labels, labels
            if conditional == "cluster":
                quantiles, rows, strata, diagnostics = self._by_cluster(scores, batch.labels, labels, seed)
            else:
                quantiles, rows = _quantiles(scores, part, len(strata), alpha)
        if not np.isfinite(quantiles).any():
            raise TooFewRows.at("/labels", self._too_few(conditional))
        always = [strata[i] for i in np.flatnonzero(np.isinf(quantiles)).tolist()]
        diagnostics |= {"rows": rows.tolist()}
        if always:
            warnings = [diagnostics.get("warning"), self._warning(always, labels, by_class=names is None)]
            diagnostics |= {"always": always, "warning": "; ".join(filter(None, warnings))}
        diagnostics["fit"] = {"options": dict(self.options), "seed": seed}
        diagnostics["fit"] |= {} if sample is None else {"sample": sample}
        own = {name: self.options[name] for name in family.known_parameters() if name in self.options}
        rounding = ROUNDING if batch.predictions.scale == "logit" else 0.0
        own["groups"] = None if names is None else tuple(names)
        if self.method.name == "crc":
            own["n_labels"] = n_labels
        if self.options.get("adjustable"):
            most = min(MOST_SCORES, max(FEWEST_SCORES, MOST_IN_ALL // len(strata)))
            own["scores"] = tuple(_stored(values, most) for values in _parts(scores, part, len(strata)))
        function = family(
            by="all" if conditional is None else "group" if names is not None else "class",
            thresholds=np.array([self._threshold(quantile, rounding) for quantile in quantiles.tolist()]),
            **own,
        )
        scale, n_columns = batch.predictions.scale, batch.predictions.n_classes
        return SetMap(self.method.name, function, scale, n_columns, diagnostics, class_names, training)

    @property
    def _lossy(self) -> int:
        """The label of the rows that have a loss, of risk control."""
        return 0 if self.options.get("loss") == FALSE_POSITIVES else 1

    def _threshold(self, quantile: float, rounding: float) -> float:
        if self.options.get("loss") != FALSE_POSITIVES:
            return self.method.family.threshold(quantile, rounding)
        # Class 1 is above the quantile, and a probability that another program rounds up to it must not be.
        above = -quantile * (1.0 + rounding)
        return NEVER if abs(above) >= 1.0 else float(np.nextafter(above, 2.0))

    def _scores(self, batch: Batch, seed: int) -> Floats:
        """Return the scores of the labels, of which large ones do not conform."""
        if self.method.family.of_probability:
            return -probability_scores(batch.predictions, batch.labels)
        n = len(batch)
        u = np.random.default_rng(seed).random(n) if self.options["randomised"] else np.zeros(n)
        penalty, k_reg = self.options.get("penalty", 0.0), self.options.get("k_reg", 0)
        return label_scores(batch.predictions, batch.labels, u, float(penalty), k_reg)

    def _by_cluster(
        self, scores: Floats, y: Integers, labels: Sequence[str | int], seed: int
    ) -> tuple[Floats, Integers, Sequence[str | int], dict[str, Any]]:
        """Return the quantile of the cluster of each class, or that of all rows that did not choose the clusters."""
        of_probability = self.method.family.of_probability
        clusters = cluster_classes(scores, y, len(labels), self.needed, seed, of_probability=of_probability)
        if not clusters.count:
            text = "are of too few classes, or too few rows of them, to choose clusters; use conditional class, or none"
            raise TooFewRows.at("/labels", text)
        left, number = clusters.left, clusters.of_class
        inside = left & (number[y] >= 0)
        own, rows = _quantiles(scores[inside], number[y[inside]], clusters.count, self.options["alpha"])
        rest, all_rows = _quantiles(scores[left], np.zeros(int(left.sum()), np.int64), 1, self.options["alpha"])
        last = clusters.count
        place = np.where(number < 0, last, number)
        diagnostics: dict[str, Any] = {"clusters": [None if i < 0 else i for i in number.tolist()]}
        if alone := [labels[k] for k in np.flatnonzero(number < 0).tolist()]:
            text = f"classes without a cluster, which use the threshold of all rows: {_listed(alone)}"
            diagnostics["warning"] = f"{text}; they have too few rows to choose one"
        return np.concatenate([own, rest])[place], np.concatenate([rows, all_rows])[place], labels, diagnostics

    @property
    def _counted(self) -> str:
        if self.method.name != "crc":
            return "rows"
        return f"clusters with {'positive' if self._lossy else 'negative'} rows"

    def _too_few(self, conditional: str | None) -> str:
        where = {None: "", "class": " of a class", "cluster": " of a cluster", "group": " of a group"}[conditional]
        return f"must have at least {self.needed} {self._counted}{where} for alpha {self.options['alpha']:g}"

    def _warning(self, always: Sequence[str | int], labels: Sequence[str | int], *, by_class: bool) -> str:
        effect = "classes in every set" if by_class else "groups whose sets have every class"
        if self.method.name == "crc":
            effect = f"groups in which every row is class {labels[self._lossy]}"
        few = f"they have too few {self._counted} for alpha {self.options['alpha']:g}, which needs {self.needed}"
        return f"{effect}: {_listed(always)}; {few}"


def _listed(names: Sequence[str | int]) -> str:
    return ", ".join(str(name) for name in names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")


# --- Quantiles of scores, and of risks


def _parts(values: Floats, part: Integers, count: int) -> list[Floats]:
    """Return the values of each part."""
    order = np.argsort(part, kind="stable")
    return np.split(values[order], np.searchsorted(part[order], np.arange(1, count))) if count else []


def _quantiles(scores: Floats, part: Integers, count: int, alpha: float) -> tuple[Floats, Integers]:
    """Return the k-th smallest of n scores of each part, infinite if k > n, k = ceil((n + 1) (1 - alpha)); and n."""
    quantiles, rows = np.full(count, np.inf), np.zeros(count, np.int64)
    for i, own in enumerate(_parts(scores, part, count)):
        n = rows[i] = len(own)
        k = math.ceil((n + 1) * (1.0 - alpha) - 1e-9)
        if k <= n:
            quantiles[i] = np.partition(own, k - 1)[k - 1]
    return quantiles, rows


def _stored(scores: Floats, most: int) -> StoredScores:
    """Return the sorted scores, or at most so many evenly spaced ones, up to the largest."""
    n, values = len(scores), np.sort(scores)
    ranks = np.unique(np.round(np.linspace(min(n, 1), n, min(n, most))).astype(np.int64))
    return StoredScores(n, ranks, values[ranks - 1])


def _risk_quantiles(batch: Batch, part: Integers, count: int, alpha: float, lossy: int) -> tuple[Floats, Integers]:
    """Return minus the threshold t of each part with sum_i L_i(t) <= alpha (n + 1) - 1, and its n clusters.

    For ``lossy`` 1, L_i(t) is the fraction of the positive rows of cluster i with p < t, and t the largest one. For 0,
    it is the fraction of the negative rows with p > t, and t the smallest one. Clusters
    without such rows do not count; without clusters, every such row is one.
    """
    rows = np.flatnonzero(batch.labels == lossy)
    p = probability_scores(batch.predictions, np.ones(len(batch), np.int64))[rows]
    order_of = p if lossy else -p
    cluster = rows if batch.clusters is None else batch.clusters[rows]
    _, number, size = np.unique(np.column_stack([part[rows], cluster]), axis=0, return_inverse=True, return_counts=True)
    shares = 1.0 / size[number.ravel()]
    quantiles, clusters = np.full(count, np.inf), np.zeros(count, np.int64)
    for i, (own, share) in enumerate(
        zip(_parts(order_of, part[rows], count), _parts(shares, part[rows], count), strict=True)
    ):
        n = clusters[i] = round(float(share.sum()))
        budget = alpha * (n + 1) - 1.0 + 1e-9
        if budget >= 0.0:
            order = np.argsort(own, kind="stable")
            place = int(np.searchsorted(np.cumsum(share[order]), budget, side="right"))
            # The row at this place is the first one that may not have a loss; there is one, since alpha is below 1.
            quantiles[i] = -own[order[place]] if lossy else own[order[place]]
    return quantiles, clusters


# --- The public function


@explained
def fit_sets(
    predictions: Any,
    labels: Any,
    *,
    method: str = "lac",
    alpha: float = 0.1,
    conditional: str | None = None,
    groups: Any = None,
    clusters: Any = None,
    class_names: Sequence[Any] | Mapping[Any, Any] | None = None,
    pos_label: Any = None,
    weights: Any = None,
    scale: InputScale = "probability",
    seed: int = 0,
    **options: Any,
) -> SetMap:
    """Fit a map from predictions to sets of classes, by conformal prediction.

    Parameters
    ----------
    predictions : array_like, shape (n,) or (n, K)
        P(Y = 1), or one column per class, of rows that the model was not trained on.
    labels : array_like, shape (n,)
        As for ``fit``. With ``crc``, also (n, K): 0 or 1 for each of K labels that need not exclude each other.
    method : {"lac", "aps", "raps", "crc"}, default "lac"
        Name in ``calibrant.SET_METHODS``. ``lac`` has the smallest sets on average.
    alpha : float, default 0.1
        Error level, in (0, 1): sets have the label with probability at least 1 - alpha. For ``crc``, the largest
        expected loss.
    conditional : {"class", "cluster", "group"}, optional
        What has a threshold of its own, so that coverage holds within it: each class, each cluster of classes with
        similar scores, or each group. A class needs 1 / alpha - 1 rows; one with fewer is in every set, and
        ``diagnostics["always"]`` names it.
    groups : array_like, shape (n,), optional
        Group of each row, if ``conditional`` is ``group``.
    clusters : array_like, shape (n,), optional
        For ``crc``: cluster of each row, such as its image. Default: each positive row, or for labels (n, K) each row.
    class_names : sequence, optional
        As for ``fit``.
    pos_label : str, int or bool, optional
        As for ``fit``.
    weights : array_like, shape (n,), optional
        How often each row occurred. Other weights are not supported: they need likelihood ratios of new rows.
    scale : {"probability", "percent", "logit"}, default "probability"
        Scale of ``predictions``.
    seed : int, default 0
        Seed of random numbers and clusters.
    **options : object
        Options of the method: ``allow_empty`` (default true), ``adjustable`` (false; true keeps scores, so that
        ``at`` gives sets at other levels), ``randomised`` (false) of ``aps`` and ``raps``, and ``penalty`` (0.01) and
        ``k_reg`` (5) of ``raps``, and ``loss`` of ``crc``: ``false-negative-rate`` or ``false-positive-rate``.

    Returns
    -------
    SetMap
        The fitted map. Of two classes, a set of both or of none is an abstention.

    Raises
    ------
    CalibrationError
        If an argument is invalid (``UnknownMethod``, ``InvalidOption``), labels are of one class (``OneClass``,
        ``MissingClass``), or there are fewer than 1 / alpha - 1 rows, or too few to choose clusters (``TooFewRows``).

    See Also
    --------
    SetMap.apply : Returns the sets of new rows.

    Notes
    -----
    The guarantee of each method is in ``SET_METHODS``. It is for rows that are exchangeable with those of the fit. If
    no scores are tied, the coverage of one map is Beta(k, n + 1 - k), k = ceil((n + 1) (1 - alpha)). O(n K).

    Examples
    --------
    >>> import calibrant
    >>> logits, labels, _ = calibrant.logistic_normal(1000, n_classes=4, seed=0)
    >>> fitted = calibrant.fit_sets(logits[:500], labels[:500], scale="logit", method="aps")
    >>> sets = fitted.apply(logits[500:])
    >>> bool(sets.members[range(500), labels[500:]].mean() > 0.85)
    True
    """
    read_seed(seed)
    try:
        own = {"alpha": alpha} if conditional is None else {"alpha": alpha, "conditional": conditional}
        fitting = SetFitting.read(method, {**options, **own})
    except InvalidOption:
        refuse_misspelt("fit_sets", options, list(signature(fit_sets).parameters)[:-1])
        raise
    n_labels = 1
    if fitting.method.name == "crc" and np.ndim(labels) == 2:
        if weights is not None:
            raise InvalidOption.at("/weights", "are for labels (n,)")
        predictions, labels, groups, clusters, n_labels = rows_of_labels(predictions, labels, groups, clusters)
    with in_matrix(n_labels):
        rows = read_rows(
            predictions,
            labels,
            groups=groups,
            clusters=clusters,
            class_names=class_names,
            pos_label=pos_label,
            weights=weights,
            weights_kind="frequency",
            scale=scale,
        )
    rows.warn_of_kind()
    return fitting.run(rows.batch, rows.groups, seed, rows.class_names, n_labels)
