"""A file as a table before it is read whole: its columns, their first values, and a way to read some of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tabular.errors import Field
from tabular.sheet import Floats


@dataclass(frozen=True)
class Coded:
    """A column of texts: each different one once, and of every row the place of its text."""

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
    def said(self) -> tuple[str, ...]:
        """What is worth saying of how the file is written."""
        ...

    def read(self, places: Places) -> Values:
        """Read some columns of every row; raises the ``TabularError`` of the first bad one."""
        ...

    def texts(self, at: int) -> list[str]:
        """The cells of one column of every row, as texts; what is missing is empty."""
        ...
