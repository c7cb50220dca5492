"""A scikit-learn classifier whose probabilities are calibrated. scikit-learn is loaded with this module alone."""

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
    """A classifier, and a calibration map behind it.

    Parameters
    ----------
    estimator : a classifier with ``predict_proba`` or ``decision_function``; by default a logistic regression
    method : a name of ``calibrant.METHODS``
    reduction : how many classes are mapped: ``canonical``, ``classwise``, ``top-label``, ``ranks`` or ``within-ranks``;
        by default ``canonical`` where the method maps whole vectors, else ``classwise``. Of two classes it is
        ``binary`` by default, where the method maps events
    options : the method's options
    cv : the map is fitted to predictions that the classifier made out of fold, and the classifier then to all rows:
        a number of folds or a splitter, as scikit-learn's ``cross_val_predict`` takes it; or ``"prefit"`` for an
        estimator that is fitted already, whose map is fitted to all of the rows given, which it must not have seen
    seed : of the map's folds and draws

    Attributes
    ----------
    classes_ : ``(K,)`` the labels; estimator_ : the classifier; map_ : the ``CalibrationMap``

    Notes
    -----
    Decision functions are taken as logits: of the positive class ``(n,)``, or of each class ``(n, K)``.

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
        """What the estimator accepts; ``get_tags`` of scikit-learn calls this."""
        tags = super().__sklearn_tags__()
        inner = get_tags(LogisticRegression() if self.estimator is None else self.estimator)
        tags.input_tags.sparse, tags.input_tags.allow_nan = inner.input_tags.sparse, inner.input_tags.allow_nan
        return tags

    def fit(self, X: Any, y: Any, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Fit the classifier and its map to ``X (n, d)`` and labels ``y (n,)``, with ``sample_weight (n,)``.

        Raises ``CalibrationError``, a ``ValueError``, where the map cannot be fitted.
        """
        X, y = validate_data(self, X, y, accept_sparse=True, dtype=None, ensure_all_finite=False)
        check_classification_targets(y)
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise OneClass.at("/labels", "hold one class only, where a classifier needs two")
        estimator = LogisticRegression() if self.estimator is None else self.estimator
        if isinstance(self.cv, str) and self.cv == "prefit":
            check_is_fitted(estimator)
            if not np.array_equal(estimator.classes_, self.classes_):
                raise CalibrationError("the estimator was fitted to other classes than these labels hold")
            self.estimator_ = estimator
            scores, scale = _scores(self.estimator_, X)
        else:
            name = "predict_proba" if hasattr(estimator, "predict_proba") else "decision_function"
            given = {} if weights is None else {"sample_weight": weights}
            scores = cross_val_predict(clone(estimator), X, y, cv=self.cv, method=name, params=given or None)
            scale = "probability" if name == "predict_proba" else "logit"
            self.estimator_ = clone(estimator).fit(X, y, **given)
        self.scale_ = scale
        predictions, reduction = self._asked(np.asarray(scores, dtype=np.float64))
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
        """Calibrated probabilities ``(n, K)`` of ``X (n, d)``, in the order of ``classes_``."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse=True, dtype=None, ensure_all_finite=False, reset=False)
        scores, _ = _scores(self.estimator_, X)
        predictions, _ = self._asked(np.asarray(scores, dtype=np.float64))
        found = self.map_.apply(predictions)
        return np.column_stack([1.0 - found, found]) if found.ndim == 1 else found

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The label of the largest calibrated probability, ``(n,)``."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        found: npt.NDArray[Any] = self.classes_[likeliest]
        return found

    def _asked(self, scores: Floats) -> tuple[Floats, str | None]:
        """The predictions that the map takes, and its reduction."""
        entry = read_method(self.method)
        of_event = len(self.classes_) == 2 and entry.event is not None
        if of_event and self.reduction in (None, "binary"):
            return (scores if scores.ndim == 1 else scores[:, 1]), "binary"
        if scores.ndim == 1:  # of the second class alone
            scores = np.column_stack([np.zeros_like(scores) if self.scale_ == "logit" else 1.0 - scores, scores])
        return scores, self.reduction or ("classwise" if entry.vector is None else "canonical")


def _scores(estimator: Any, X: Any) -> tuple[Any, Scale]:
    if hasattr(estimator, "predict_proba"):
        return estimator.predict_proba(X), "probability"
    return estimator.decision_function(X), "logit"
