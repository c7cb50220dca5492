"""Calibration measures of a Calibrant server as metrics of an Evidently report.

It connects to ``CALIBRANT_SERVER`` with ``CALIBRANT_API_KEY``. See evidently.md.
"""

from __future__ import annotations

from evidently import Dataset
from evidently.core.metric_types import SingleValue, SingleValueCalculation, SingleValueMetric
from evidently.core.report import Context

from calibrant.client import Calibrant


class CalibrationMeasure(SingleValueMetric):
    """A measure, such as ``ece``, of a column of P(Y=1) and a column of labels; debiased if the measure is."""

    prediction: str
    label: str
    measure: str = "ece"


class CalibrationMeasureCalculation(SingleValueCalculation[CalibrationMeasure]):
    """Evaluates the current rows, and the reference rows if there are any."""

    def calculate(
        self,
        context: Context,  # noqa: ARG002
        current_data: Dataset,
        reference_data: Dataset | None,
    ) -> tuple[SingleValue, SingleValue | None]:
        """Return the values of the current and the reference rows."""
        with Calibrant() as client:
            reference = None if reference_data is None else self._measured(client, reference_data)
            return self._measured(client, current_data), reference

    def display_name(self) -> str:
        """Return the name shown in the report."""
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
