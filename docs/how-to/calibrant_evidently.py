"""Calibration measures of a Calibrant server as metrics of an Evidently report.

The server and the key to it are those of ``CALIBRANT_SERVER`` and ``CALIBRANT_API_KEY``. See evidently.md.
"""

from __future__ import annotations

from evidently import Dataset
from evidently.core.metric_types import SingleValue, SingleValueCalculation, SingleValueMetric
from evidently.core.report import Context

from calibrant.client import Calibrant


class CalibrationMeasure(SingleValueMetric):
    """A measure, such as ``ece``, of a column of P(Y=1) and one of labels, 0 or 1: debiased, where it has that."""

    prediction: str
    label: str
    measure: str = "ece"


class CalibrationMeasureCalculation(SingleValueCalculation[CalibrationMeasure]):
    """One evaluation of the current rows, and one of the reference's."""

    def calculate(
        self,
        context: Context,  # noqa: ARG002
        current_data: Dataset,
        reference_data: Dataset | None,
    ) -> tuple[SingleValue, SingleValue | None]:
        """The value of the current rows, and of the reference's where there are any."""
        with Calibrant() as client:
            reference = None if reference_data is None else self._measured(client, reference_data)
            return self._measured(client, current_data), reference

    def display_name(self) -> str:
        """What the report calls it."""
        return f"Calibration: {self.metric.measure} of {self.metric.prediction}"

    def _measured(self, client: Calibrant, rows: Dataset) -> SingleValue:
        frame, metric = rows.as_dataframe(), self.metric
        report = client.evaluate(
            predictions=frame[metric.prediction], labels=frame[metric.label], measures=[metric.measure]
        )
        found = report.measures[metric.measure]
        if found.problem is not None or found.value is None:
            raise ValueError(f"{metric.measure} has no value on these rows: {found.problem}")
        return self.result(found.value if found.debiased is None else found.debiased)
