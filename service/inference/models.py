"""A map as a model of the protocol: found by name and version, and described by its metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy.typing as npt
import orjson

import calibrant
from backend.held_map import HeldMap
from backend.store.errors import UnknownMap
from calibrant.core.batch import read_predictions, with_features
from calibrant.core.errors import InvalidOption
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.maps.isotonic import VennAbers
from calibrant.maps.segments import Segments
from calibrant.sets.families import RiskControl
from calibrant.sets.set_map import SetMap
from schemas.base import ID_PREFIX
from schemas.inference import ModelMetadata, ServerMetadata, TensorMetadata
from service.scoring import ScoringContext

#: The input of every map, and the output of maps to probabilities.
PREDICTIONS = "predictions"
#: The output of set maps: whether the set of a row has each class.
MEMBERS = "members"
#: The input of set maps with a threshold for each group.
GROUPS = "groups"
#: The two probabilities that a Venn-Abers map merges.
BOUNDS = ("p0", "p1")
PLATFORM = "calibrant_map"
#: The server and its supported protocol extensions.
SERVER = ServerMetadata(name="calibrant", version=calibrant.__version__, extensions=["binary_tensor_data"])
#: A version in a path.
_VERSION = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
#: A map's id, its name, or its name with a version or an alias.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}([:@][A-Za-z0-9][A-Za-z0-9._-]{0,63})?", re.ASCII)

Array = npt.NDArray[Any]


class RowContext(NamedTuple):
    """What maps use beside the predictions: features of the rows, their groups, and the seed of random numbers.

    ``alpha`` is another error level of an adjustable map to sets. With ``bounds``, the output includes those of a
    Venn-Abers map.
    """

    features: Mapping[str, Array] | None = None
    groups: Sequence[str] | None = None
    seed: int | None = None
    alpha: float | None = None
    bounds: bool = False


NO_CONTEXT = RowContext()


@dataclass(frozen=True)
class Model:
    """A stored map with the name in the request."""

    name: str
    held: HeldMap
    fitted: CalibrationMap | SetMap

    @property
    def version(self) -> str | None:
        """The version of the map; None for a map without a name."""
        return None if self.held.version is None else str(self.held.version)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs."""
        if isinstance(self.fitted, SetMap):
            return (MEMBERS,)
        return (PREDICTIONS, *BOUNDS) if isinstance(self.fitted.function, VennAbers) else (PREDICTIONS,)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features of a map of segments, which are inputs too."""
        function = self.fitted.function
        return tuple(feature.name for feature in function.features) if isinstance(function, Segments) else ()

    @property
    def groups(self) -> tuple[str, ...] | None:
        """The groups of a set map with a threshold for each, which are an input too; otherwise None."""
        return self.fitted.groups if isinstance(self.fitted, SetMap) else None

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The names of the classes of the vectors that the map takes."""
        return None if self.fitted.n_classes is None else self.fitted.class_names

    def apply(self, tensor: Any, names: Sequence[str], context: RowContext) -> dict[str, Array]:
        """Compute the named outputs for predictions on the scale of the map."""
        if context.bounds and BOUNDS[0] not in self.outputs:
            raise InvalidOption.at("/bounds", "need a venn-abers map of one event")
        if isinstance(self.fitted, SetMap):
            if context.features is not None:
                raise InvalidOption.at("/features", "are not used by a map to prediction sets")
            fitted = self.fitted if context.alpha is None else self.fitted.at(context.alpha)
            sets = fitted.apply(tensor, groups=context.groups, seed=context.seed)
            return {MEMBERS: sets.members}
        of_sets = {"groups": context.groups, "seed": context.seed, "alpha": context.alpha}
        for name, value in of_sets.items():
            if value is not None:
                raise InvalidOption.at(f"/{name}", "is for maps that give prediction sets")
        if context.features is not None and self.fitted.function.family != "segments":
            raise InvalidOption.at("/features", "are for maps of segments")
        predictions = with_features(read_predictions(tensor, scale=self.fitted.scale), context.features)
        values: dict[str, Array] = {}
        if PREDICTIONS in names:
            values[PREDICTIONS] = self.fitted.apply_checked(predictions)
        if set(BOUNDS) & set(names):
            values.update(zip(BOUNDS, self.fitted.bounds_checked(predictions), strict=True))
        return {name: values[name] for name in names}


def find_model(here: ScoringContext, name: str, version: str | None = None, held: HeldMap | None = None) -> Model:
    """The model of a map's name, id or alias, and of a version if given; raises ``UnknownMap``.

    ``held`` is the map of the reference if it is known already.
    """
    unknown = UnknownMap("there is no such model")
    if not _NAME.fullmatch(name) or (version is not None and not _VERSION.fullmatch(version)):
        raise unknown
    try:
        held = held or here.find_map(reference_of(name, version))
    except UnknownMap:
        raise unknown from None
    if not isinstance(held.loaded, CalibrationMap | SetMap):  # the protocol has no inputs for forecasts
        raise unknown
    if version is not None and str(held.version) != version:
        raise unknown
    return Model(name, held, held.loaded)


def reference_of(name: str, version: str | None = None) -> str:
    """The reference of the map of a model."""
    return f"{name}:{version}" if version is not None and _is_plain(name) else name


def metadata(here: ScoringContext, name: str, version: str | None = None) -> dict[str, Any]:
    """The metadata of a model."""
    model = find_model(here, name, version)
    fitted = model.fitted
    # A parameter of the protocol is a string, a number or a boolean.
    names = {"class_names": fitted.class_names, "groups": model.groups}
    listed = {key: orjson.dumps(value).decode() for key, value in names.items() if value is not None}
    alpha = {"alpha": str(fitted.alpha)} if isinstance(fitted, SetMap) else {}
    return ModelMetadata(
        name=name,
        versions=_versions(here, model),
        platform=PLATFORM,
        inputs=_inputs(model),
        outputs=_outputs(model),
        parameters={
            "map": model.held.id,
            "method": fitted.method,
            "reduction": fitted.reduction,
            "scale": fitted.scale,
            **alpha,
            **listed,
        },
    ).model_dump(exclude_none=True)


def _inputs(model: Model) -> list[TensorMetadata]:
    """The predictions, and the features or groups; categories and groups are strings."""
    fitted, function = model.fitted, model.fitted.function
    # A map of one event also accepts the probability of that event, (n,), but it was fitted to vectors.
    width = function.n_labels if isinstance(function, RiskControl) else fitted.n_classes
    own = TensorMetadata(name=PREDICTIONS, shape=[-1] if width in (None, 1) else [-1, width])
    groups = [TensorMetadata(name=GROUPS, shape=[-1], datatype="BYTES")] if model.groups is not None else []
    features = function.features if isinstance(function, Segments) else ()
    kinds: dict[bool, Any] = {True: "FP64", False: "BYTES"}
    of_features = [
        TensorMetadata(name=feature.name, shape=[-1], datatype=kinds[feature.categories is None])
        for feature in features
    ]
    return [own, *of_features, *groups]


def _outputs(model: Model) -> list[TensorMetadata]:
    fitted = model.fitted
    if isinstance(fitted, SetMap):
        labels = fitted.function.n_labels if isinstance(fitted.function, RiskControl) else None
        width = labels if labels not in (None, 1) else fitted.n_classes or 2
        return [TensorMetadata(name=MEMBERS, shape=[-1, width], datatype="BOOL")]
    shape = [-1, fitted.n_classes or -1] if fitted.of_vector else [-1]
    return [TensorMetadata(name=name, shape=shape) for name in model.outputs]


def _is_plain(name: str) -> bool:
    """Whether a model name is the name of a map, which has versions, rather than an id or the name of one version."""
    return not name.startswith(ID_PREFIX) and not {":", "@"} & set(name)


def _versions(here: ScoringContext, model: Model) -> list[str] | None:
    """The versions available under the model's name; an id or an alias has only its own."""
    if model.version is None:
        return None
    if not _is_plain(model.name):
        return [model.version]
    return [str(version) for version in here.map_versions(model.name)]
