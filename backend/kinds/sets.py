"""Prediction sets: fits of set maps, their records, and what they make of predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from backend.held_map import HeldMap
from backend.kinds import Arrays, Calibrated, Work, record_of, work_bytes
from backend.requester import Requester, Scorer
from backend.telemetry.observed import note_rows
from calibrant.core.batch import Batch
from calibrant.core.errors import InvalidOption, ScaleMismatch
from calibrant.core.groups import Groups
from calibrant.core.options import known_name
from calibrant.core.progress import Progress, reporting
from calibrant.io.errors import InvalidField
from calibrant.kinds.classes import ClassRows
from calibrant.maps.documents import SETS
from calibrant.sets.families import RiskControl
from calibrant.sets.fitting import SET_METHODS, SetFitting
from calibrant.sets.label_matrix import in_matrix, rows_of_labels
from calibrant.sets.prediction_sets import PredictionSets
from calibrant.sets.set_map import SetMap
from schemas.maps import CalibrateOptions, FitOptions, FitSpec, MapRecord, Registration, output_shape

if TYPE_CHECKING:  # scoring needs no store
    from backend.store.jobs.runs import Run


def gives_sets(method: str) -> bool:
    """Whether a method fits maps to prediction sets."""
    return known_name(method, SET_METHODS, {}) in SET_METHODS


def with_rows_of_labels(arrays: Arrays, options: FitOptions) -> tuple[Arrays, int]:
    """Return the arrays of a fit, and 1; of K labels for each row, which risk control takes, those of n K rows, and K.

    Raises ``WrongShape``, ``LengthMismatch``, and ``InvalidField`` if such rows are to be kept as a batch.
    """
    predictions, labels = arrays.get("predictions"), arrays.get("labels")
    is_of_labels = known_name(options.method, SET_METHODS, {}) == RiskControl.family
    if not is_of_labels or predictions is None or labels is None or labels.ndim != 2:
        return arrays, 1
    for name in arrays:
        if name not in ("predictions", "labels", "groups", "clusters"):
            raise InvalidOption.at(f"/{name}", "are for labels (n,)")
    clusters = np.arange(len(labels)).astype(np.str_).astype(np.object_)
    rows = rows_of_labels(predictions, labels, arrays.get("groups"), arrays.get("clusters", clusters))
    if rows.n_labels > 1 and options.keep_batch:
        raise InvalidField.at("/keep_batch", "must be false with labels (n, K): a batch has one label for each row")
    of_labels = {
        "predictions": rows.predictions,
        "labels": rows.labels,
        "groups": rows.groups,
        "clusters": rows.clusters,
    }
    return {name: array for name, array in of_labels.items() if array is not None}, rows.n_labels


@dataclass(frozen=True)
class SetFitRequest:
    """A checked fit of a request."""

    options: FitOptions
    fitting: SetFitting

    @classmethod
    def read(cls, options: FitOptions) -> SetFitRequest:
        """Check the options; raises ``InvalidOption``."""
        if options.reduction not in (None, SETS):
            raise InvalidOption.at("/reduction", f"must be absent: the method {options.method} gives sets of classes")
        return cls(options, SetFitting.read(options.method, options.options, where="/options"))

    def on(self, requester: Requester, rows: ClassRows) -> Work:
        """Check the rows, and return the work on them, whose result is the record of the map."""
        with in_matrix(rows.n_labels):
            return self._on(requester, rows)

    def _on(self, requester: Requester, rows: ClassRows) -> Work:
        options, batch, maps = self.options, rows.labelled, requester.store.maps
        groups = rows.groups if options.batch is None else _used(rows.groups, self.fitting)
        self.fitting.check(batch, groups)
        if options.name is not None and not options.allow_shape_change:
            maps.check_shape(options.name, output_shape(SETS, batch.predictions.n_classes))
        requester.store.charges.check_maps()
        stated = options.model_dump(exclude={"prediction_kind", "batch", "keep_batch", "scale", "weights_kind"})
        stated["class_names"] = None if rows.class_names is None else list(rows.class_names)
        spec = FitSpec(**stated, batch="", created_by=requester.who, n_labels=rows.n_labels)

        def run() -> MapRecord:
            return _fitted(requester.new_id("map"), spec, self.fitting, batch, groups)

        return Work(spec, rows, self.fitting.seconds(batch), len(rows), rows.numbers, run)


def run_set_fit(run: Run, spec: FitSpec, batch: Batch, groups: Groups | None, progress: Progress) -> MapRecord:
    """Run a fit job."""
    fitting = SetFitting.read(spec.method, spec.options)
    with reporting(progress):
        return _fitted(run.job.id.replace("job_", "map_", 1), spec, fitting, batch, _used(groups, fitting))


def _used(groups: Groups | None, fitting: SetFitting) -> Groups | None:
    """The groups of a stored batch if the fit uses them; otherwise they have another purpose."""
    return groups if fitting.options["conditional"] == "group" else None


def _fitted(map_id: str, spec: FitSpec, fitting: SetFitting, batch: Batch, groups: Groups | None) -> MapRecord:
    names = None if spec.class_names is None else tuple(spec.class_names)
    fitted = fitting.run(batch, groups, spec.seed, names, spec.n_labels)
    n = len(batch) // spec.n_labels
    own = {"options": spec.options, "seed": spec.seed, "n": n, "created_by": spec.created_by}
    return set_record(map_id, fitted, spec, **own)


def set_record(map_id: str, fitted: SetMap, registration: Registration, **own: Any) -> MapRecord:
    """The record of a set map; ``own`` fields are those of its fit, or of its import."""
    names = None if fitted.class_names is None else list(fitted.class_names)
    described = {"reduction": SETS, "scale": fitted.scale, "n_classes": fitted.n_classes, "class_names": names}
    return record_of(map_id, fitted, registration, **described, warning=fitted.warning, **own)


@dataclass(frozen=True)
class SetsRequest:
    """A checked application of a set map."""

    held: HeldMap
    fitted: SetMap
    options: CalibrateOptions

    def on(self, _requester: Scorer, rows: ClassRows) -> Calibrated:
        """Return the members of each set."""
        groups, options = rows.groups, self.options
        if options.bounds:
            raise InvalidOption.at("/bounds", "need a venn-abers map of one event")
        if options.batch is not None and self.fitted.groups is None:
            groups = None  # those of the batch have another purpose
        return self._answer(self.fitted.apply_checked(rows.predictions, groups=groups, seed=options.seed))

    def takes_labels(self, arrays: Arrays) -> bool:
        """Whether the predictions are those of several labels of risk control, which need not sum to 1."""
        predictions = arrays.get("predictions")
        of_event = isinstance(self.fitted.function, RiskControl) and self.fitted.n_classes is None
        return of_event and predictions is not None and predictions.ndim == 2

    def on_labels(self, requester: Scorer, arrays: Arrays) -> Calibrated:
        """Return which labels of each row are chosen; raises a ``CalibrationError``."""
        if self.options.bounds or self.options.seed is not None:
            name = "bounds" if self.options.bounds else "seed"
            raise InvalidOption.at(f"/{name}", "is not for maps of risk control")
        check_scale_of(self.options, self.fitted)
        requester.reserve(work_bytes(arrays["predictions"].size))
        note_rows(arrays["predictions"].shape)
        return self._answer(self.fitted.apply(arrays["predictions"], groups=arrays.get("groups")))

    def _answer(self, sets: PredictionSets) -> Calibrated:
        fields = {**self.held.named, "alpha": sets.alpha, "classes": list(sets.classes)}
        return Calibrated(fields, {"members": sets.members})


def check_scale_of(options: CalibrateOptions, fitted: SetMap) -> None:
    """Raise ``ScaleMismatch`` if the scale of a request is not that of the map."""
    if options.scale not in (None, fitted.scale):
        raise ScaleMismatch.at("/scale", f"must be {fitted.scale}, that of the map")


def refuse_options_of_sets(options: CalibrateOptions, rows: ClassRows) -> None:
    """Raise ``InvalidField`` for groups, a seed or a level in a request to apply a map that gives probabilities."""
    options_of_sets = {"groups": options.batch is None and "groups" in rows.arrays}
    options_of_sets |= {name: getattr(options, name) is not None for name in ("seed", "alpha")}
    for name, is_given in options_of_sets.items():
        if is_given:
            raise InvalidField.at(f"/{name}", "is for maps that give prediction sets")
