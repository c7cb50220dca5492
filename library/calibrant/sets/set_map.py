"""Fitted set maps: from predictions to prediction sets, and their documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from calibrant.core.applied import remember
from calibrant.core.arguments import explained
from calibrant.core.arrays import group_names
from calibrant.core.batch import Batch, Predictions, Scale, read_predictions
from calibrant.core.cells import Floats
from calibrant.core.digest import label_rows
from calibrant.core.errors import InvalidDocument, InvalidOption, LengthMismatch, WrongShape
from calibrant.core.inputs import prediction_array
from calibrant.core.options import read_real, read_seed
from calibrant.core.results import ShownMap, Table, map_table, n_rows
from calibrant.maps.calibration_map import MOST_CLASSES, check_scale
from calibrant.maps.documents import SETS, read_document, read_head
from calibrant.sets.families import SET_FAMILIES, RiskControl, SetFamily, StoredScores
from calibrant.sets.label_matrix import in_matrix
from calibrant.sets.prediction_sets import PredictionSets
from calibrant.sets.scores import blocks, uniform_numbers

#: Thresholds of maps of logits are larger than the quantile by this, so that a program whose softmax rounds differently
#: has the same sets. Sums of probabilities are exactly the same everywhere.
ROUNDING = 2.0**-48
#: Error levels of documents are between 0 and 1 by this much.
_LEAST_ALPHA = 1e-9
#: The most names of classes that a text lists.
_LISTED = 3


@dataclass(frozen=True, eq=False, repr=False)
class SetMap(ShownMap):
    """Map the predictions of a model to sets of classes.

    ``fit_sets`` and ``load_sets`` create maps; the constructor is not meant to be called directly.

    Parameters
    ----------
    method : str
        Name in ``calibrant.SET_METHODS``.
    function : SetFamily
        Score of a class, thresholds, and what each of them applies to.
    scale : {"probability", "logit"}
        Scale of the predictions.
    n_classes : int or None
        Number of classes K; None if the map was fitted to predictions of shape (n,).
    diagnostics : mapping, optional
        Diagnostics of the fit as plain JSON; they do not affect ``apply``. ``always`` names the classes, or groups,
        whose sets are whole because they have too few rows.
    class_names : tuple of str, optional
        Names of the classes in the order of the columns.
    training_digest : str, optional
        Digest of the rows that the map was fitted to.

    See Also
    --------
    fit_sets : Fits a map.
    load_sets : Reads a map from its document or file.

    Examples
    --------
    >>> import calibrant
    >>> p, y = [k / 20 for k in range(20)], [0] * 10 + [1] * 10
    >>> fitted = calibrant.fit_sets(p, y)
    >>> fitted.method, fitted.alpha, fitted.apply([0.02, 0.5]).to_lists()
    ('lac', 0.1, [[0], []])
    """

    method: str
    function: SetFamily
    scale: Scale
    n_classes: int | None
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    class_names: tuple[str, ...] | None = None
    training_digest: str | None = None

    _familiar = MappingProxyType(
        {
            **dict.fromkeys(("predict", "predict_set", "predict_with_logits", "transform"), "apply(predictions)"),
            "quantiles_": 'to_document()["parameters"]["thresholds"]',
            "q_hat": 'to_document()["parameters"]["thresholds"]',
        }
    )
    #: As for other maps, what is calibrated.
    reduction = SETS

    @property
    def alpha(self) -> float:
        """Error level: about 1 - alpha of the sets have the label of their row; of ``crc``, the largest expected loss.

        See Also
        --------
        apply : Returns the sets.

        Examples
        --------
        >>> import calibrant
        >>> calibrant.fit_sets([k / 20 for k in range(20)], [0] * 10 + [1] * 10, alpha=0.2).alpha
        0.2
        """
        return self.function.alpha

    @property
    def groups(self) -> tuple[str, ...] | None:
        """Names of the groups with a threshold each; None if there are no groups.

        See Also
        --------
        apply : Takes the group of each row.

        Examples
        --------
        >>> import calibrant
        >>> p, y = [k / 40 for k in range(40)], [0] * 20 + [1] * 20
        >>> calibrant.fit_sets(p, y, conditional="group", groups=["a", "b"] * 20).groups
        ('a', 'b')
        """
        return getattr(self.function, "groups", None)

    def at(self, alpha: float) -> SetMap:
        """Return the map with another error level, from the scores that an ``adjustable`` map keeps.

        Parameters
        ----------
        alpha : float
            Error level. Up to 0 sets have all classes, and from 1 on none, unless ``allow_empty`` is false: so the
            levels of ``start_adaptive`` are valid.

        Returns
        -------
        SetMap
            The map. Of more than 1,000 rows, or fewer with many thresholds, a threshold is that of the next stored
            score, so that sets may be larger.

        Raises
        ------
        CalibrationError
            If ``alpha`` is not a finite number (``InvalidOption``), or the map was fitted without ``adjustable``.

        See Also
        --------
        start_adaptive : Follows the error level of a stream.

        Examples
        --------
        >>> import calibrant
        >>> fitted = calibrant.fit_sets([k / 20 for k in range(20)], [0] * 10 + [1] * 10, adjustable=True)
        >>> [len(fitted.at(alpha).apply([0.3]).to_lists()[0]) for alpha in (0.0, 0.1, 1.0)]
        [2, 1, 0]
        """
        scores: tuple[StoredScores, ...] | None = getattr(self.function, "scores", None)
        if scores is None:
            raise InvalidOption.at("/alpha", "cannot be changed: fit the map with adjustable=True")
        level = read_real(alpha, "/alpha")
        rounding, quantiles = ROUNDING if self.scale == "logit" else 0.0, [own.quantile(level) for own in scores]
        thresholds = np.array([self.function.threshold(quantile, rounding) for quantile in quantiles])
        level = min(max(level, _LEAST_ALPHA), 1.0 - _LEAST_ALPHA)
        return replace(self, function=replace(self.function, alpha=level, thresholds=thresholds))

    def apply(self, predictions: Any, *, groups: Any = None, seed: int | None = None) -> PredictionSets:
        """Return the prediction sets of new rows.

        Parameters
        ----------
        predictions : array_like, shape (n,) or (n, K)
            Predictions on the scale of the map. A map of ``crc`` also takes the probabilities of K labels that exclude
            each other or not, (n, K), if it was fitted to them.
        groups : array_like, shape (n,), optional
            Group of each row, for a map by group.
        seed : int, optional
            Seed of the random number of each row, for a randomised map. It needs another seed for each call, since row
            i of every call with one seed gets the same number.

        Returns
        -------
        PredictionSets
            The set of each row.

        Raises
        ------
        CalibrationError
            If the predictions are invalid, or their number of classes differs from that of the map (``WrongShape``); if
            a group is not among those of the map, or a seed is missing or not needed (``InvalidOption``).

        See Also
        --------
        fit_sets : Fits a map.

        Notes
        -----
        Sets of ``lac`` and of marginal ``aps`` and ``raps`` cost O(n K), others O(n K log K).

        Examples
        --------
        >>> import calibrant
        >>> fitted = calibrant.fit_sets([k / 20 for k in range(20)], [0] * 10 + [1] * 10, class_names=["no", "yes"])
        >>> fitted.apply([0.02, 0.97]).to_lists()
        [['no'], ['yes']]
        """
        values, columns = prediction_array(predictions, self.class_names)
        names = None if groups is None else group_names(groups)
        if self.n_classes is None and isinstance(self.function, RiskControl) and values.ndim == 2:
            n, n_labels = values.shape
            if self.function.n_labels not in (None, n_labels):
                wanted = "(n,)" if self.function.n_labels == 1 else f"(n, {self.function.n_labels})"
                raise WrongShape.at("/predictions", f"must have shape {wanted}, like those that the map was fitted to")
            own = None if names is None else list(np.repeat(names, n_labels))
            with in_matrix(n_labels):
                flat = self.apply_checked(read_predictions(values.ravel(), scale=self.scale), groups=own)
            labels = tuple(range(n_labels)) if columns is None else tuple(columns)
            return PredictionSets(flat.members[:, 1].reshape(n, n_labels), labels, flat.alpha)
        sets = self.apply_checked(read_predictions(values, scale=self.scale), groups=names, seed=seed)
        if self.training_digest is not None:
            remember(predictions, sets, self.training_digest, self.class_names, self.scale)
        return sets

    def apply_checked(
        self, predictions: Predictions, *, groups: Sequence[str] | None = None, seed: int | None = None
    ) -> PredictionSets:
        """Return the sets of predictions that are already checked.

        Parameters
        ----------
        predictions : Predictions
            Checked predictions.
        groups : sequence of str, optional
            As for ``apply``.
        seed : int, optional
            As for ``apply``.

        Returns
        -------
        PredictionSets
            The set of each row.

        See Also
        --------
        apply : Checks the predictions first.

        Examples
        --------
        >>> import calibrant
        >>> from calibrant.core.batch import read_predictions
        >>> fitted = calibrant.fit_sets([k / 20 for k in range(20)], [0] * 10 + [1] * 10)
        >>> fitted.apply_checked(read_predictions([0.02])).to_lists()
        [[0]]
        """
        limits, n = self.check(predictions, groups), len(predictions)
        u = self._random_numbers(seed, n)
        members = np.empty((n, self.n_classes or 2), np.bool_)
        for rows, p in blocks(predictions):
            members[rows] = self.function.members(p, limits[rows] if limits.ndim == 2 else limits, u[rows])
        alpha = self.alpha if self.function.covers else None
        return PredictionSets(members, self.class_names or tuple(range(members.shape[1])), alpha)

    def is_in_sample(self, batch: Batch) -> bool | None:
        """Return whether the map was fitted to checked rows, or to a quarter of them or more; None if unknown.

        Parameters
        ----------
        batch : Batch
            Checked rows.

        Returns
        -------
        bool or None
            Whether the labels and their predictions are those of the fit.

        See Also
        --------
        evaluate_sets : Evaluates sets.

        Examples
        --------
        >>> import calibrant
        >>> from calibrant.core.batch import read_batch
        >>> p, y = [k / 20 for k in range(20)], [0] * 10 + [1] * 10
        >>> calibrant.fit_sets(p, y).is_in_sample(read_batch(p, y))
        True
        """
        from calibrant.measures.cross_fitting import Training, sample_in  # which no program that applies maps needs

        training = Training(self.training_digest, sample=sample_in(self.diagnostics))
        known = training.is_in_sample(label_rows(batch))
        return known if known is None or batch.predictions.n_classes is None else known or training.is_in_sample(batch)

    def check(self, predictions: Predictions, groups: Sequence[str] | None = None) -> Floats:
        """Check that checked predictions and groups match the map, and return the thresholds of the rows.

        Parameters
        ----------
        predictions : Predictions
            Checked predictions.
        groups : sequence of str, optional
            As for ``apply``.

        Returns
        -------
        ndarray
            The thresholds of the rows, (n, 1), or those of the classes, (K,).

        Raises
        ------
        CalibrationError
            As by ``apply``.

        See Also
        --------
        apply : Checks and applies.

        Examples
        --------
        >>> import calibrant
        >>> from calibrant.core.batch import read_predictions
        >>> fitted = calibrant.fit_sets([k / 20 for k in range(20)], [0] * 10 + [1] * 10)
        >>> fitted.check(read_predictions([0.02])).round(3)
        array([[0.55]])
        """
        check_scale(predictions, self.scale)
        if predictions.n_classes != self.n_classes:
            wanted = "(n,)" if self.n_classes is None else f"(n, {self.n_classes})"
            raise WrongShape.at("/predictions", f"must have shape {wanted}, like those that the map was fitted to")
        return self._limits(groups, len(predictions))

    def _limits(self, groups: Sequence[str] | None, n: int) -> Floats:
        """The thresholds of the rows, (n, 1), or those of the classes, (K,)."""
        thresholds, known = self.function.thresholds, self.groups
        if known is None:
            if groups is not None:
                raise InvalidOption.at("/groups", "are not used: the map has the same thresholds for all groups")
            return np.broadcast_to(thresholds, (n, 1)) if self.function.by == "all" else thresholds
        if groups is None:
            raise InvalidOption.at("/groups", "are needed: the map has a threshold for each group")
        if len(groups) != n:
            raise LengthMismatch.at("/groups", f"has {n_rows(len(groups))}, but /predictions has {n:,}")
        place = {name: i for i, name in enumerate(known)}
        numbers = np.array([place.get(name, -1) for name in groups])
        unseen = np.flatnonzero(numbers < 0)
        if len(unseen):
            are = "is not a group" if len(unseen) == 1 else "are not groups"
            message = f"{len(unseen)} of {n} {are} of the map"
            raise InvalidOption.at_places("/groups", unseen, "must be a group of the map", message)
        limits: Floats = thresholds[numbers][:, None]
        return limits

    def _random_numbers(self, seed: int | None, n: int) -> Floats:
        if not self.function.is_random:
            if seed is not None:
                raise InvalidOption.at("/seed", "is not used: the map draws no random numbers")
            return np.zeros(n)
        if seed is None:
            raise InvalidOption.at(
                "/seed", "is needed, another one for each call: the map draws a random number for each row"
            )
        return uniform_numbers(read_seed(seed), n)

    def _head(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("reduction", "scale", "n_classes")}
        return {"method": self.method, "family": self.function.family, **own}

    def _table(self) -> Table:
        of_classes = "" if self.n_classes is None else f" of {self.n_classes} classes"
        takes = ("logits" if self.scale == "logit" else "probabilities") + of_classes
        always = [str(name) for name in self.diagnostics.get("always", ())]
        rows = [
            ("alpha", f"{self.alpha:g}"),
            ("thresholds", f"{len(self.function.thresholds)}, by {self.function.by}"),
            ("takes", takes),
            ("class names", ", ".join(self.class_names or ())),
            ("always in the set", ", ".join(always[:_LISTED]) + (", ..." if len(always) > _LISTED else "")),
        ]
        return map_table(self.method, rows, self.diagnostics)


@explained
def load_sets(document: Mapping[str, Any] | str | Path) -> SetMap:
    """Read a set map from its document or from a file.

    Parameters
    ----------
    document : mapping, str or pathlib.Path
        Document as written by ``SetMap.to_document``, or path of a file as written by ``SetMap.save``.

    Returns
    -------
    SetMap
        The map.

    Raises
    ------
    InvalidDocument
        If the file holds no JSON, or a field is missing or invalid; the error names the first field.
    OSError
        If the file cannot be read.

    See Also
    --------
    fit_sets : Fits a map.

    Examples
    --------
    >>> import calibrant
    >>> document = {"format": 1, "method": "lac", "family": "lac", "reduction": "sets", "scale": "probability",
    ...             "n_classes": 3, "parameters": {"alpha": 0.1, "by": "all", "thresholds": [0.2], "allow_empty": True}}
    >>> calibrant.load_sets(document).apply([[0.7, 0.2, 0.1]]).to_lists()
    [[0, 1]]
    """
    document = read_document(document)
    head = read_head(document, SET_FAMILIES)
    if document.get("reduction") != SETS:
        raise InvalidDocument.at("/reduction", f"must be {SETS}; load reads other maps")
    if head.method != head.family:
        raise InvalidDocument.at("/method", "must be that of the family")
    K = head.n_classes or 2
    if K > MOST_CLASSES:
        raise InvalidDocument.at("/n_classes", f"must be at most {MOST_CLASSES:,}")
    function = SET_FAMILIES[head.family].from_parameters(head.parameters, K)
    if function.by == "class" and len(function.thresholds) != K:
        raise InvalidDocument.at("/parameters/thresholds", f"must contain {K} numbers")
    if isinstance(function, RiskControl) and head.n_classes is not None:
        raise InvalidDocument.at("/n_classes", "must be null: the map is of one event")
    return SetMap(head.method, function, head.scale, head.n_classes, head.diagnostics, head.class_names, head.digest)
