"""A scikit-learn classifier with calibrated probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from calibrant.batch import Scale
from calibrant.calibrators import fit, read_method
from calibrant.cells import Floats
from calibrant.errors import CalibrationError, OneClass, requires

with requires("sklearn", "CalibrantClassifier"):
    from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict
    from sklearn.utils import get_tags
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data


class CalibrantClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Combine a classifier with a calibration map.

    Parameters
    ----------
    estimator : estimator object, optional
        Classifier with ``predict_proba`` or ``decision_function``. By default a logistic regression.
    method : str, default "averaged"
        Name in ``calibrant.METHODS``. The default needs the extra ``torch``.
    reduction : {"binary", "canonical", "classwise", "top-label", "ranks", "within-ranks"}, optional
        Reduction of the map. For two classes the default is ``binary`` if the method maps events. Otherwise it is
        ``canonical`` if the method maps whole vectors, and ``classwise`` if not.
    options : mapping, optional
        Options of the method and of the reduction.
    cv : int, cross-validation splitter or "prefit", default 5
        As in ``sklearn.model_selection.cross_val_predict``: the map is fitted to out-of-fold predictions, and the
        classifier then to all rows. With ``"prefit"`` the estimator is already fitted, and ``fit`` must get rows that
        it was not fitted to.
    seed : int, default 0
        Seed of the map.

    Attributes
    ----------
    classes_ : ndarray, shape (K,)
        Class labels.
    estimator_ : estimator object
        Fitted classifier.
    map_ : CalibrationMap
        Fitted calibration map.

    See Also
    --------
    fit : Fits a map to predictions and labels.
    sklearn.calibration.CalibratedClassifierCV : Counterpart in scikit-learn.

    Notes
    -----
    Values of ``decision_function`` are used as logits: of the positive class, shape (n,), or of each class, (n, K).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from calibrant import CalibrantClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> CalibrantClassifier(GaussianNB(), method="beta").fit(X, y).predict_proba(X).shape
    (569, 2)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: str = "averaged",
        reduction: str | None = None,
        options: Mapping[str, Any] | None = None,
        cv: Any = 5,
        seed: int = 0,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.reduction = reduction
        self.options = options
        self.cv = cv
        self.seed = seed

    def __sklearn_tags__(self) -> Any:
        """Return the tags of the estimator, for scikit-learn's ``get_tags``."""
        tags = super().__sklearn_tags__()
        inner = get_tags(LogisticRegression() if self.estimator is None else self.estimator)
        tags.input_tags.sparse, tags.input_tags.allow_nan = inner.input_tags.sparse, inner.input_tags.allow_nan
        return tags

    def fit(self, X: Any, y: Any, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Fit the classifier and its calibration map.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (n, d)
            Features.
        y : array_like, shape (n,)
            Class labels: numbers or strings.
        sample_weight : array_like, shape (n,), optional
            Frequency weights for the classifier and the map. With ``cv="prefit"`` only the map uses them.

        Returns
        -------
        CalibrantClassifier
            The fitted estimator itself.

        Raises
        ------
        CalibrationError
            If the map cannot be fitted. It is a ``ValueError``.

        See Also
        --------
        predict_proba : Returns calibrated probabilities.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from calibrant import CalibrantClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> CalibrantClassifier(GaussianNB(), method="platt").fit(X, y).map_.method
        'platt'
        """
        X, y = validate_data(self, X, y, accept_sparse=True, dtype=None, ensure_all_finite=False)
        check_classification_targets(y)
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise OneClass.at("/labels", "contain one class, but a classifier needs at least two")
        estimator = LogisticRegression() if self.estimator is None else self.estimator
        if isinstance(self.cv, str) and self.cv == "prefit":
            check_is_fitted(estimator)
            if not np.array_equal(estimator.classes_, self.classes_):
                raise CalibrationError("the estimator was fitted to other classes than those of these labels")
            self.estimator_ = estimator
            scores, scale = _scores(self.estimator_, X)
        else:
            name = "predict_proba" if hasattr(estimator, "predict_proba") else "decision_function"
            given = {} if weights is None else {"sample_weight": weights}
            scores = cross_val_predict(clone(estimator), X, y, cv=self.cv, method=name, params=given or None)
            scale = "probability" if name == "predict_proba" else "logit"
            self.estimator_ = clone(estimator).fit(X, y, **given)
        self.scale_ = scale
        predictions, reduction = self._map_input(np.asarray(scores, dtype=np.float64))
        self.map_ = fit(
            self.method,
            predictions,
            labels,
            reduction=reduction,
            weights=weights,
            scale=scale,
            seed=self.seed,
            **dict(self.options or {}),
        )
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Predict calibrated probabilities.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (n, d)
            Features.

        Returns
        -------
        ndarray, shape (n, K)
            Calibrated probabilities, with columns in the order of ``classes_``.

        See Also
        --------
        predict : Returns the most probable class.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from calibrant import CalibrantClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> CalibrantClassifier(GaussianNB(), method="platt").fit(X, y).predict_proba(X[:3]).shape
        (3, 2)
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse=True, dtype=None, ensure_all_finite=False, reset=False)
        scores, _ = _scores(self.estimator_, X)
        predictions, _ = self._map_input(np.asarray(scores, dtype=np.float64))
        found = self.map_.apply(predictions)
        return np.column_stack([1.0 - found, found]) if found.ndim == 1 else found

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict the class with the largest calibrated probability.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (n, d)
            Features.

        Returns
        -------
        ndarray, shape (n,)
            Class labels.

        See Also
        --------
        predict_proba : Returns calibrated probabilities.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from calibrant import CalibrantClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> CalibrantClassifier(GaussianNB(), method="platt").fit(X, y).predict(X[:3]).tolist()
        [0, 0, 0]
        """
        likeliest = self.predict_proba(X).argmax(axis=1)
        found: npt.NDArray[Any] = self.classes_[likeliest]
        return found

    def _map_input(self, scores: Floats) -> tuple[Floats, str | None]:
        """Return the predictions for the map, and its reduction."""
        entry = read_method(self.method)
        of_event = len(self.classes_) == 2 and entry.event is not None
        if of_event and self.reduction in (None, "binary"):
            return (scores if scores.ndim == 1 else scores[:, 1]), "binary"
        if scores.ndim == 1:  # scores of the second class only
            scores = np.column_stack([np.zeros_like(scores) if self.scale_ == "logit" else 1.0 - scores, scores])
        return scores, self.reduction or ("classwise" if entry.vector is None else "canonical")


def _scores(estimator: Any, X: Any) -> tuple[Any, Scale]:
    if hasattr(estimator, "predict_proba"):
        return estimator.predict_proba(X), "probability"
    return estimator.decision_function(X), "logit"
