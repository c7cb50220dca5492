"""A reliability diagram with the interface of scikit-learn's displays."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from calibrant.core.arguments import meant_by
from calibrant.core.errors import InvalidLabel, InvalidOption, requires
from calibrant.core.options import plain
from calibrant.core.results import Suggesting, counted, n_rows
from calibrant.diagrams.catalogue import DIAGRAMS
from calibrant.evaluation import Report, evaluate
from calibrant.plots.axes import BINNINGS, draw_reliability, entries_of
from calibrant.plots.panel import data_of, values

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class CalibrationDisplay(Suggesting):
    """Reliability diagram with intervals, made like ``sklearn.calibration.CalibrationDisplay``.

    Parameters
    ----------
    report : Report
        Report of ``calibrant.evaluate``.
    name : str, optional
        Name of the model, for the title.
    options : mapping, optional
        Options of the reliability diagram.

    Attributes
    ----------
    prob_true, prob_pred : ndarray, shape (b,)
        Observed frequency and mean prediction of each bin.
    ax_ : Axes
        Axes of the last drawing.
    figure_ : Figure
        Their figure.

    See Also
    --------
    evaluate : Measures calibration; ``report.plot()`` draws the same diagram.

    Examples
    --------
    >>> from calibrant import CalibrationDisplay
    >>> display = CalibrationDisplay.from_predictions([0, 1, 1, 1], [0.1, 0.4, 0.6, 0.9], n_bins=2, name="model")
    >>> display.ax_.get_title()
    'model'
    """

    def __init__(self, report: Report, *, name: str | None = None, options: dict[str, Any] | None = None) -> None:
        if not isinstance(report, Report):
            text = "must be a report of calibrant.evaluate; use CalibrationDisplay.from_predictions(y_true, y_prob)"
            raise InvalidOption.at("/report", text)
        self.report = report
        self.name = name
        self.options = options or {}
        data = data_of(entries_of(report, "reliability", self.options)[1][-1])
        self.prob_true, self.prob_pred = values(data["observed_frequency"]), values(data["mean_prediction"])

    def __getstate__(self) -> dict[str, Any]:
        """Keep the diagram, because a pickled report does not have its rows."""
        before, *after = entries_of(self.report, "reliability", self.options)[1]
        report = replace(
            self.report,
            diagrams={**self.report.diagrams, "reliability": before},
            after_diagrams={**(self.report.after_diagrams or {}), "reliability": after[0]} if after else None,
        )
        return vars(self) | {"report": report, "options": {}}

    def __repr__(self) -> str:
        name = "" if self.name is None else f"{self.name}, "
        return f"CalibrationDisplay: {name}{n_rows(self.report.n)}, {counted(len(self.prob_true), 'bin')}"

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        *,
        n_bins: int = 15,
        strategy: str = "quantile",
        pos_label: Any = None,
        class_names: Any = None,
        sample_weight: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        ref_line: bool = True,
        **line: Any,
    ) -> Self:
        """Draw the reliability diagram of predictions, in scikit-learn's order of arguments.

        Parameters
        ----------
        y_true : array_like, shape (n,)
            Labels.
        y_prob : array_like, shape (n,) or (n, K)
            P(Y = 1), or one column per class, of which the confidence is drawn.
        n_bins : int, default 15
            Number of bins.
        strategy : {"quantile", "uniform"}, default "quantile"
            Bins of equal mass or of equal width.
        pos_label : str, int or bool, optional
            Label of the positive class; columns are in the order of the sorted labels.
        class_names : sequence, optional
            Labels of the classes in the order of the columns.
        sample_weight : array_like, shape (n,), optional
            Importance weights.
        name : str, optional
            Title.
        ax : Axes, optional
            Axes to draw on, which may belong to another display; by default, those of a new figure.
        ref_line, **line : object
            As in ``plot``.

        Returns
        -------
        CalibrationDisplay
            The display, already drawn.

        Raises
        ------
        CalibrationError
            If an argument is invalid.

        See Also
        --------
        from_estimator : Predicts with an estimator.

        Examples
        --------
        >>> from calibrant import CalibrationDisplay
        >>> CalibrationDisplay.from_predictions([0, 1, 1, 1], [0.1, 0.4, 0.6, 0.9]).report.n
        4
        """
        if not isinstance(strategy, str) or strategy not in BINNINGS:
            raise InvalidOption.at("/strategy", f"must be one of: {', '.join(BINNINGS)}")
        if not (allowed := DIAGRAMS["reliability"].options["n_bins"]).accepts(plain(n_bins)):
            raise InvalidOption.at("/n_bins", f"must be {allowed.allowed}")
        if not isinstance(name, str | None):
            raise InvalidOption.at("/name", "must be a string, the title")
        options = {"n_bins": n_bins, "binning": BINNINGS[strategy]}
        try:
            report = evaluate(
                y_prob,
                y_true,
                measures=[{"name": "ece", **options}],
                pos_label=pos_label,
                class_names=class_names,
                sample_weight=sample_weight,
            )
        except InvalidLabel as error:
            order = error.detail.replace("predictions are the first argument", "labels are the first argument here")
            raise InvalidLabel(order, error.offences) from None
        return cls(report, name=name, options=options).plot(ax, ref_line=ref_line, **line)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        n_bins: int = 15,
        strategy: str = "quantile",
        pos_label: Any = None,
        sample_weight: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        ref_line: bool = True,
        **line: Any,
    ) -> Self:
        """Draw the reliability diagram of a fitted classifier.

        Parameters
        ----------
        estimator : estimator object
            Fitted classifier with ``predict_proba``.
        X : array_like, shape (n, d)
            Features.
        y : array_like, shape (n,)
            Labels.
        n_bins : int, default 15
            Number of bins.
        strategy : {"quantile", "uniform"}, default "quantile"
            Bins of equal mass or of equal width.
        pos_label : str, int or bool, optional
            Label of the positive class; by default the second of ``estimator.classes_``.
        sample_weight : array_like, shape (n,), optional
            Importance weights.
        name : str, optional
            Title; by default the class of the estimator.
        ax : Axes, optional
            Axes to draw on, which may belong to another display; by default, those of a new figure.
        ref_line, **line : object
            As in ``plot``.

        Returns
        -------
        CalibrationDisplay
            The display, already drawn.

        Raises
        ------
        CalibrationError
            If an argument is invalid.
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.

        See Also
        --------
        from_predictions : Takes the predictions.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from calibrant import CalibrationDisplay
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> CalibrationDisplay.from_estimator(GaussianNB().fit(X, y), X, y).name
        'GaussianNB'
        """
        if not (hasattr(estimator, "classes_") and hasattr(estimator, "predict_proba")):
            if hasattr(estimator, "fit"):
                with requires("sklearn", "an estimator"):
                    from sklearn.utils.validation import check_is_fitted
                check_is_fitted(estimator)
            raise InvalidOption.at("/estimator", "must be a fitted classifier with classes_ and predict_proba")
        classes, predicted = list(estimator.classes_), np.asarray(estimator.predict_proba(X))
        names: Any = classes
        if len(classes) == 2:
            if pos_label is not None and pos_label not in classes:
                raise InvalidOption.at("/pos_label", "must be one of estimator.classes_")
            positive = 1 if pos_label is None else classes.index(pos_label)
            names, predicted = [classes[1 - positive], classes[positive]], predicted[:, positive]
        elif pos_label is not None:
            raise InvalidOption.at("/pos_label", "is for two classes")
        return cls.from_predictions(
            y,
            predicted,
            n_bins=n_bins,
            strategy=strategy,
            class_names=names,
            sample_weight=sample_weight,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            ref_line=ref_line,
            **line,
        )

    def plot(self, ax: Axes | None = None, *, ref_line: bool = True, **line: Any) -> Self:
        """Draw the diagram again; on the axes of another display, it is overlaid in a different color.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on, which may have other reliability diagrams; by default, those of a new figure.
        ref_line : bool, default True
            Whether to draw the diagonal.
        **line : object
            Properties of the line, such as ``color``. Without any, the first model on the axes is drawn with bars.

        Returns
        -------
        CalibrationDisplay
            This display, with ``ax_`` and ``figure_``.

        See Also
        --------
        from_predictions : Draws predictions.

        Examples
        --------
        >>> from calibrant import CalibrationDisplay
        >>> display = CalibrationDisplay.from_predictions([0, 1, 1, 1], [0.1, 0.4, 0.6, 0.9])
        >>> display.plot() is display
        True
        """
        with requires("plots", "a diagram"):
            from matplotlib.cbook import normalize_kwargs
            from matplotlib.lines import Line2D
        known = list(signature(self.from_predictions).parameters)[:-1]
        for key in normalize_kwargs(dict(line), Line2D):
            if not hasattr(Line2D, f"set_{key}"):
                raise TypeError(f"the display has no argument {key}; {meant_by(key, known)}")
        axes = None if "axes" in self.options else "linear"  # as in scikit-learn, so that other lines fit
        self.ax_ = draw_reliability(
            self.report, ax, self.options, name=self.name, diagonal=ref_line, style=line, axes=axes
        )
        self.figure_ = self.ax_.figure
        return self
