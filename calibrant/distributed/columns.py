"""Which columns of a table are counted, and as what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args

from calibrant.batch import Scale
from calibrant.errors import InvalidOption, UnknownReduction


@dataclass(frozen=True)
class Columns:
    """The names of the columns, and how the predictions are meant.

    ``prediction`` is one column, of numbers or of lists of K numbers, or K columns.
    """

    prediction: str | tuple[str, ...]
    label: str
    group: str | None = None
    fold: str | None = None
    weight: str | None = None
    reduction: str | None = None
    scale: Scale = "probability"

    @classmethod
    def read(cls, **given: Any) -> Columns:
        """Check the names."""
        prediction = given["prediction"]
        if isinstance(prediction, list | tuple):
            if len(prediction) < 2 or not all(isinstance(name, str) for name in prediction):
                raise InvalidOption.at("/prediction", "must be the name of a column, or of at least two")
            given["prediction"] = tuple(prediction)
        elif not isinstance(prediction, str):
            raise InvalidOption.at("/prediction", "must be the name of a column, or of at least two")
        for name in ("label", "group", "fold", "weight"):
            value = given.get(name)
            if not (isinstance(value, str) or (value is None and name != "label")):
                raise InvalidOption.at(f"/{name}", "must be the name of a column")
        if given.get("reduction") is not None and not isinstance(given["reduction"], str):
            raise UnknownReduction.at("/reduction", "must be a name")
        if given.get("scale", "probability") not in get_args(Scale):
            raise InvalidOption.at("/scale", "must be one of: probability, logit")
        return cls(**given)

    @property
    def predictions(self) -> tuple[str, ...]:
        """The columns of the predictions."""
        return (self.prediction,) if isinstance(self.prediction, str) else self.prediction

    @property
    def named(self) -> dict[str, str]:
        """Each column that is read, by the argument that names it."""
        found = {
            "prediction" if isinstance(self.prediction, str) else f"prediction/{i}": name
            for i, name in enumerate(self.predictions)
        }
        others = {"label": self.label, "group": self.group, "fold": self.fold, "weight": self.weight}
        return found | {argument: name for argument, name in others.items() if name is not None}


NAMES = tuple(field.name for field in fields(Columns))


def divided(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments that name columns, and the others."""
    return {k: v for k, v in given.items() if k in NAMES}, {k: v for k, v in given.items() if k not in NAMES}
