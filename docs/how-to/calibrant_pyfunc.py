"""An MLflow model that calibrates another model's probabilities with a map of a Calibrant server.

Log it as a file: ``mlflow.pyfunc.log_model(python_model="calibrant_pyfunc.py", ...)``. The artifact ``model`` is any
MLflow model that returns probabilities, or the logits that the map was fitted on. The model config has ``map`` (a name,
id or alias) and optionally ``scale`` and ``column``. The environment that serves it sets ``CALIBRANT_SERVER`` and
``CALIBRANT_API_KEY``. See mlflow.md.
"""

from __future__ import annotations

from typing import Any

import mlflow.models
import mlflow.pyfunc
import numpy as np

from calibrant.client import Calibrant


class Calibrated(mlflow.pyfunc.PythonModel):
    """Calibrated predictions: (n,) with a map of one event, (n, K) with a map of the whole vector."""

    def load_context(self, context: Any) -> None:
        """Load the wrapped model and connect to the server."""
        self._model = mlflow.pyfunc.load_model(context.artifacts["model"])
        self._map = context.model_config["map"]
        self._scale = context.model_config.get("scale")
        self._column = context.model_config.get("column")
        self._calibrant = Calibrant()

    # Without annotations: MLflow would read one of model_input as a schema.
    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]  # noqa: ARG002
        """Return calibrated probabilities; raise ``ProblemResponse`` if the server refuses them."""
        predictions = np.asarray(self._model.predict(model_input))
        if self._column is not None:  # such as 1, P(Y=1) of a binary classifier
            predictions = predictions[:, self._column]
        return self._calibrant.calibrate(self._map, predictions, scale=self._scale)


mlflow.models.set_model(Calibrated())
