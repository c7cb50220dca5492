"""Which pages are computed again by ``make pages-check``, and why others are not."""

from __future__ import annotations

#: Page -> the module, and after a colon its function if that is not ``checks``, which returns the parts of the page.
CHECKED = {
    "agreement": "benchmarks.agreement",
    "alarms": "benchmarks.monitors.alarms",
    "averaged-order": "benchmarks.checks.recorded:averaged_order",
    "by-size": "benchmarks.checks.recorded:by_size",
    "calibration-test": "benchmarks.calibration_test",
    "calibrators": "benchmarks.checks.recorded:calibrators",
    "change-time": "benchmarks.online.change",
    "classifier": "benchmarks.classifier",
    "clinical": "benchmarks.clinical",
    "clusters": "benchmarks.clusters",
    "comparison-error": "benchmarks.comparison_error",
    "conformal-coverage": "benchmarks.distributions.conformal_coverage",
    "dataset-shift": "benchmarks.dataset_shift",
    "debiased": "benchmarks.debiased",
    "decision-curves": "benchmarks.decision_curves",
    "distributions": "benchmarks.distributions.validity",
    "early-stopping": "benchmarks.checks.recorded:early_stopping",
    "estimates": "benchmarks.estimates.__main__",
    "find-segments": "benchmarks.find_segments",
    "flusight": "benchmarks.distributions.flusight",
    "interval-coverage": "benchmarks.coverage",
    "one-event": "benchmarks.checks.recorded:one_event",
    "online": "benchmarks.online.__main__",
    "optimality": "benchmarks.optimality",
    "pseudo-real": "benchmarks.checks.recorded:pseudo_real",
    "pseudo-real-worlds": "benchmarks.checks.recorded:pseudo_real_worlds",
    "real-data": "benchmarks.real",
    "real-evaluators": "benchmarks.checks.recorded:real_evaluators",
    "segments": "benchmarks.segments",
    "splines": "benchmarks.checks.recorded:splines",
    "tables": "benchmarks.checks.recorded:tables",
    "tally-accuracy": "benchmarks.monitors.accuracy",
    "variance-regression": "benchmarks.distributions.friedman",
    "weights": "benchmarks.weights",
}
_TIMES = "its cells are times, rates or memory of the machine that it names"
_NETWORKS = "its networks are trained again for any cell, and single-precision sums differ between processors"
_PACKAGES = "its cells need other packages in an environment of their own"
_WHOLE = "its cells are means over hours of fits, and no part of them is computed alone"
_FAULTS = "its cells are counts of injected faults and times, which no run repeats"
#: Page -> why no part of it is computed again.
UNCHECKED = {
    "arena": f"{_PACKAGES}, and base models that take hours",
    "arena-sizes": f"{_NETWORKS}; {_PACKAGES}",
    "by-reference-speed": _TIMES,
    "clinical-speed": f"{_TIMES}; {_PACKAGES}",
    "cuda": f"{_TIMES}, and need a GPU",
    "exchangeability": _NETWORKS,
    "host": _TIMES,
    "http-speed": _TIMES,
    "large-data-speed": _TIMES,
    "map-speed": f"{_TIMES}; {_PACKAGES}",
    "monitor-answers": _TIMES,
    "monitor-chaos": _FAULTS,
    "monitor-memory": _TIMES,
    "monitor-page": _TIMES,
    "monitor-speed": _TIMES,
    "optima": _PACKAGES,
    "network": f"{_NETWORKS}; {_PACKAGES}",
    "operations": "it was measured by hand, and its text says how",
    "page-speed": _TIMES,
    "peers": f"{_TIMES}; {_PACKAGES}",
    "picture-speed": _TIMES,
    "prediction-sets": f"{_PACKAGES}",
    "reliability": _FAULTS,
    "report-speed": _TIMES,
    "revisiting": _NETWORKS,
    "segments-real": _WHOLE,
    "speed": _TIMES,
    "start-times": _TIMES,
    "tally-speed": _TIMES,
    "vectors": f"{_TIMES}; {_PACKAGES}",
}
#: Pages that have no figures.
WITHOUT_FIGURES = ("index", "data-sets", "checks")
