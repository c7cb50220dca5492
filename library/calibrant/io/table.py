"""A file as a table before it is read whole, and the sheet that it is read into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from calibrant.io.errors import Field

# --- The sheet that a file is read into, and the options of reading it

#: A body as it was received, or unpacked.
Body = bytes | bytearray
Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Scale = Literal["probability", "logit"]


@dataclass(frozen=True)
class SheetOptions:
    """What is not to be inferred: names of columns, the scale, and the class of each text of the labels.

    ``predictions`` names one column of P(Y=1), or a column a class in the order of the classes.
    """

    predictions: tuple[str, ...] | None = None
    labels: str | None = None
    weights: str | None = None
    groups: str | None = None
    scale: Scale = "probability"
    mapping: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Sheet:
    """A file as arrays.

    ``predictions (n,)`` are P(Y=1) or its logit, ``(n, K)`` a column a class, float64 as the file holds them: what is
    a little outside [0, 1] stays. ``labels (n,)`` are classes, ``weights (n,)`` and ``groups``, a name a row, are None
    if the file has none. ``classes`` are the names of the classes in order, if the file has them. ``notes`` are
    sentences: what was inferred, and how the file is written if that is unusual.
    """

    predictions: Floats
    labels: Ints | None
    weights: Floats | None
    groups: list[str] | None
    scale: Scale
    classes: tuple[str, ...] | None
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.predictions)


# --- A file as a table before it is read whole: its columns, their first values, and a way to read some of them


@dataclass(frozen=True)
class Coded:
    """A column of texts: each distinct text once, and for every row the place of its text."""

    texts: tuple[str, ...]
    codes: npt.NDArray[np.int64]

    def first(self, code: int) -> int:
        """The first row that holds a text."""
        return int(np.argmax(self.codes == code))


@dataclass(frozen=True)
class Column:
    """A column: its name, the first values as texts, and how many numbers a row of it holds."""

    name: str
    sample: tuple[str, ...]
    width: int = 1


@dataclass(frozen=True)
class Places:
    """Which columns are read as what, by their place."""

    predictions: tuple[int, ...]
    labels: int | None = None
    weights: int | None = None
    groups: int | None = None

    @property
    def numbers(self) -> tuple[int, ...]:
        """Columns of numbers: the predictions, then the weights."""
        return self.predictions if self.weights is None else (*self.predictions, self.weights)

    @property
    def texts(self) -> tuple[int, ...]:
        """Columns of texts: the labels, then the groups."""
        return tuple(at for at in (self.labels, self.groups) if at is not None)

    def field_of(self, at: int) -> Field:
        """The field that a column was chosen for."""
        if at in self.predictions:
            return "predictions"
        return "weights" if at == self.weights else "labels" if at == self.labels else "groups"


@dataclass(frozen=True)
class Values:
    """What was read: ``predictions (n,)`` or (n, K), ``weights (n,)``, labels and groups as texts."""

    predictions: Floats
    weights: Floats | None = None
    labels: Coded | None = None
    groups: Coded | None = None


class Table(Protocol):
    """A file that is open."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns, in the order of the file."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on how the file is written."""
        ...

    def read(self, places: Places) -> Values:
        """Read some columns of every row; raises the ``TabularError`` of the first bad one."""
        ...

    def texts(self, at: int) -> list[str]:
        """The cells of one column of every row, as texts; a missing value is empty."""
        ...
