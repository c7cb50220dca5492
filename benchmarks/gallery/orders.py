"""How measures order calibrated models, beside the order of their true errors.

The models, calibrators and rows are those of ``make pseudo-real``: real classifiers on generated data, whose true error
a million unseen rows tell. The figures stand in orders.json, which ``make gallery-orders`` writes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import calibrant
from benchmarks.pseudo_real import experiment, model
from benchmarks.pseudo_real.calibrators import calibrated
from benchmarks.pseudo_real.truth import TrueMaps
from benchmarks.records import save
from calibrant.core.reductions import Event

KEPT = Path(__file__).with_name("orders.json")
#: What orders the models, by the words that the picture has for it; an object asks for the debiased value too.
MEASURES = {
    "ECE, equal width": {"name": "ece", "binning": "equal-width", "as": "ECE, equal width"},
    "ECE, equal mass": {"name": "ece", "as": "ECE, equal mass"},
    "ECE, sweep": {"name": "ece-sweep", "as": "ECE, sweep"},
    "KS": {"name": "ks", "as": "KS"},
    "ECE, PL": {"name": "ece-pl", "as": "ECE, PL"},
    "ECE, averaged": {"name": "ece-averaged", "as": "ECE, averaged"},
    "log loss": {"name": "log-loss", "as": "log loss"},
}
TRUTH = "true error"
#: The calibrators, by the names of the picture.
CALIBRATORS = {
    "vector scaling": "VecS",
    "beta": "beta",
    "Platt": "Platt",
    "PL3": "PL3 CE",
    "scaling-binning": "Scaling-Binning",
    "isotonic": "isotonic",
}
_N, _SEED, _EVENT = 10_000, 0, "confidence"


def measured() -> dict[str, dict[str, dict[str, float]]]:
    """Model -> calibrator -> the true error and every measure of its output on 10,000 rows."""
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for name in model.MODELS:
        experiment.predict(name)
        held_out = experiment.held_out(name)
        shown = held_out[experiment.training_rows(0)]
        figures[name] = {}
        for calibrator, own in CALIBRATORS.items():
            event = calibrated(own, shown, held_out, _EVENT)
            true = Event(event.p[-experiment.TRUTH_ROWS :], event.y[-experiment.TRUTH_ROWS :])
            part = experiment.evaluated_rows(_N, _SEED)
            p, y = event.p[part], event.y[part]
            report = calibrant.evaluate(p, y, measures=list(MEASURES.values()))
            values = {key: value for key, m in report.measures.items() if (value := m.value) is not None}
            error = float(np.abs(p - TrueMaps.fit(true).isotonic(p)).mean())
            figures[name][calibrator] = {TRUTH: error, **values}
    return figures


if __name__ == "__main__":
    save(KEPT, measured())
