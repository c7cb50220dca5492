"""An MLflow model whose probabilities are calibrated by a map of a Calibrant server.

It is logged by this file, not pickled: ``mlflow.pyfunc.log_model(python_model="calibrant_pyfunc.py", ...)``. Its
artifact ``model`` is any MLflow model that answers probabilities, or logits that the map was fitted on. Its model
config holds ``map``, a name, id or alias, and may hold ``scale`` and ``column``. Where it is served,
``CALIBRANT_SERVER`` and ``CALIBRANT_API_KEY`` say where the map is. See mlflow.md.
"""

from __future__ import annotations

from typing import Any

import mlflow.models
import mlflow.pyfunc
import numpy as np

from calibrant.client import Calibrant


class Calibrated(mlflow.pyfunc.PythonModel):
    """What a model predicts, calibrated: (n,) for a map of one event, (n, K) for one of the whole vector."""

    def load_context(self, context: Any) -> None:
        """Load the model, and connect to the server that has the map."""
        self._model = mlflow.pyfunc.load_model(context.artifacts["model"])
        self._map = context.model_config["map"]
        self._scale = context.model_config.get("scale")
        self._column = context.model_config.get("column")
        self._calibrant = Calibrant()

    # MLflow takes an annotation of model_input for a schema.
    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]  # noqa: ARG002
        """Calibrated probabilities; raises ``ProblemResponse`` rather than answer others."""
        predictions = np.asarray(self._model.predict(model_input))
        if self._column is not None:  # of a classifier of two classes: the probability of class 1
            predictions = predictions[:, self._column]
        return self._calibrant.calibrate(self._map, predictions, scale=self._scale)


mlflow.models.set_model(Calibrated())
