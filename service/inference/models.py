"""A map as a model of the protocol: found by name and version, and described by its metadata."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import orjson

import calibrant
from backend.held_map import HeldMap
from backend.store.errors import UnknownMap
from calibrant.core.batch import read_predictions, with_features
from calibrant.core.cells import Floats
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.maps.isotonic import VennAbers
from calibrant.maps.segments import Segments
from schemas.base import ID_PREFIX
from schemas.inference import ModelMetadata, ServerMetadata, TensorMetadata
from service.scoring import ScoringContext

#: The only input, and the output of every map.
PREDICTIONS = "predictions"
#: The two probabilities that a Venn-Abers map merges.
BOUNDS = ("p0", "p1")
PLATFORM = "calibrant_map"
#: The server and its supported protocol extensions.
SERVER = ServerMetadata(name="calibrant", version=calibrant.__version__, extensions=["binary_tensor_data"])
#: A version in a path.
_VERSION = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
#: A map's id, its name, or its name with a version or an alias.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}([:@][A-Za-z0-9][A-Za-z0-9._-]{0,63})?", re.ASCII)


@dataclass(frozen=True)
class Model:
    """A stored map with the name in the request."""

    name: str
    held: HeldMap

    @property
    def version(self) -> str | None:
        """The version of the map; None for a map without a name."""
        return None if self.held.version is None else str(self.held.version)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return (PREDICTIONS, *BOUNDS) if isinstance(self.held.map.function, VennAbers) else (PREDICTIONS,)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features of a map of segments, which are inputs too."""
        function = self.held.map.function
        return tuple(feature.name for feature in function.features) if isinstance(function, Segments) else ()

    def apply(self, tensor: Any, names: list[str], features: Any = None) -> dict[str, Floats]:
        """Compute the named outputs for predictions on the scale of the map, with the features of their rows."""
        fitted = self.held.map
        predictions = with_features(read_predictions(tensor, scale=fitted.scale), features)
        found: dict[str, Floats] = {}
        if PREDICTIONS in names:
            found[PREDICTIONS] = fitted.apply_checked(predictions)
        if set(BOUNDS) & set(names):
            found.update(zip(BOUNDS, fitted.bounds_checked(predictions), strict=True))
        return {name: found[name] for name in names}


def find_model(here: ScoringContext, name: str, version: str | None = None) -> Model:
    """Find the model of a map's name, id or alias, and of a version if given; raises ``UnknownMap``."""
    unknown = UnknownMap("there is no such model")
    if not _NAME.fullmatch(name) or (version is not None and not _VERSION.fullmatch(version)):
        raise unknown
    try:
        held = here.find_map(reference_of(name, version))
    except UnknownMap:
        raise unknown from None
    if not isinstance(held.loaded, CalibrationMap):  # the protocol has no inputs for forecasts
        raise unknown
    if version is not None and str(held.version) != version:
        raise unknown
    return Model(name, held)


def reference_of(name: str, version: str | None = None) -> str:
    """The reference of the map of a model."""
    return f"{name}:{version}" if version is not None and _is_plain(name) else name


def metadata(here: ScoringContext, name: str, version: str | None = None) -> dict[str, Any]:
    """The metadata of a model."""
    model = find_model(here, name, version)
    fitted = model.held.map
    rows, vector = [-1], [-1, fitted.n_classes or -1]
    given = vector if fitted.of_vector else rows
    # A map of one event also accepts the probability of that event, (n,), but it was fitted to vectors.
    taken = rows if fitted.n_classes is None else vector
    # A parameter of the protocol is a string, a number or a boolean.
    names = {} if fitted.class_names is None else {"class_names": orjson.dumps(fitted.class_names).decode()}
    return ModelMetadata(
        name=name,
        versions=_versions(here, model),
        platform=PLATFORM,
        inputs=[TensorMetadata(name=PREDICTIONS, shape=taken), *_feature_inputs(fitted)],
        outputs=[TensorMetadata(name=out, shape=given) for out in model.outputs],
        parameters={
            "map": model.held.id,
            "method": fitted.method,
            "reduction": fitted.reduction,
            "scale": fitted.scale,
            **names,
        },
    ).model_dump(exclude_none=True)


def _feature_inputs(fitted: CalibrationMap) -> list[TensorMetadata]:
    """The inputs of features, of which categories are strings."""
    features = fitted.function.features if isinstance(fitted.function, Segments) else ()
    kinds: dict[bool, Any] = {True: "FP64", False: "BYTES"}
    return [TensorMetadata(name=own.name, shape=[-1], datatype=kinds[own.categories is None]) for own in features]


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
