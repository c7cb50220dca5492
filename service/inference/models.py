"""A map as a model: found by the protocol's names, and described in its terms."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from backend.held_maps import HeldMap
from backend.store.errors import UnknownMap
from calibrant.batch import read_predictions
from calibrant.cells import Floats
from calibrant.maps.isotonic import VennAbers
from schemas.base import ID_PREFIX
from schemas.inference import ModelMetadata, TensorMetadata
from service.context import Context

#: The one input, and the output that every map has.
PREDICTIONS = "predictions"
#: What a Venn-Abers map merges.
BOUNDS = ("p0", "p1")
PLATFORM = "calibrant_map"
#: As a version is written in a path. Longer or other text names none.
_VERSION = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
#: A map's id, its name, or its name with a version or an alias.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}([:@][A-Za-z0-9][A-Za-z0-9._-]{0,63})?", re.ASCII)


@dataclass(frozen=True)
class Model:
    """A stored map under the name that the request gave."""

    name: str
    held: HeldMap

    @property
    def version(self) -> str | None:
        """The version that answers; None of a map without a name."""
        return None if self.held.version is None else str(self.held.version)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of what it gives."""
        return (PREDICTIONS, *BOUNDS) if isinstance(self.held.map.function, VennAbers) else (PREDICTIONS,)

    def apply(self, tensor: Any, names: list[str]) -> dict[str, Floats]:
        """The outputs of these names, of predictions on the map's own scale."""
        fitted = self.held.map
        predictions = read_predictions(tensor, scale=fitted.scale)
        found: dict[str, Floats] = {}
        if PREDICTIONS in names:
            found[PREDICTIONS] = fitted.apply_checked(predictions)
        if set(BOUNDS) & set(names):
            found.update(zip(BOUNDS, fitted.bounds_checked(predictions), strict=True))
        return {name: found[name] for name in names}


def find_model(here: Context, name: str, version: str | None = None) -> Model:
    """The model of a map's name, id or alias, and of a version if one is given; raises ``UnknownMap``."""
    unknown = UnknownMap("there is no such model", "/map")
    if not _NAME.fullmatch(name) or (version is not None and not _VERSION.fullmatch(version)):
        raise unknown
    try:
        held = here.find_map(f"{name}:{version}" if version is not None and _is_plain(name) else name)
    except UnknownMap:
        raise unknown from None
    if version is not None and str(held.version) != version:
        raise unknown
    return Model(name, held)


def metadata(here: Context, name: str, version: str | None = None) -> dict[str, Any]:
    """What the protocol tells of a model."""
    model = find_model(here, name, version)
    fitted = model.held.map
    rows, vector = [-1], [-1, fitted.n_classes or -1]
    given = vector if fitted.of_vector else rows
    # A map of an event takes the event's own probability too, (n,), but it is the vector that it was fitted on.
    taken = rows if fitted.n_classes is None else vector
    return ModelMetadata(
        name=name,
        versions=_versions(here, model),
        platform=PLATFORM,
        inputs=[TensorMetadata(name=PREDICTIONS, shape=taken)],
        outputs=[TensorMetadata(name=out, shape=given) for out in model.outputs],
        parameters={
            "map": model.held.id,
            "method": fitted.method,
            "reduction": fitted.reduction,
            "scale": fitted.scale,
        },
    ).model_dump(exclude_none=True)


def _is_plain(name: str) -> bool:
    """Whether a name of a model is that of a map, which has versions, and not an id or one version's own name."""
    return not name.startswith(ID_PREFIX) and not {":", "@"} & set(name)


def _versions(here: Context, model: Model) -> list[str] | None:
    """The versions that may be requested under the model's name: an id's or an alias's is its own alone."""
    if model.version is None:
        return None
    if not _is_plain(model.name):
        return [model.version]
    return [str(version) for version in here.store.maps.versions(model.name)]
