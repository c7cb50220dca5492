"""Read the logits of markus93/NN_calibration: pickled files, read with ``pickletools`` and never unpickled.

A file holds ``((logits, labels) of the validation set, (logits, labels) of the test set)``. The opcodes are interpreted
here, and only those that build tuples, numbers, strings and numeric NumPy arrays are accepted. The names in the file
are compared with a list and never imported or called.
"""

from __future__ import annotations

import math
import pickletools
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.provenance import uses

#: The names that a file may contain: how NumPy pickles an array, and Python 3 writes bytes in protocol 2.
_RECONSTRUCT, _NDARRAY, _DTYPE, _ENCODE = "reconstruct", "ndarray", "dtype", "encode"
_NAMES = {
    "numpy.core.multiarray _reconstruct": _RECONSTRUCT,
    "numpy._core.multiarray _reconstruct": _RECONSTRUCT,
    "numpy ndarray": _NDARRAY,
    "numpy dtype": _DTYPE,
    "_codecs encode": _ENCODE,
}
_TYPES = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
_ORDERS = ("<", ">", "|", "=")
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_VALUES = (
    "BININT", "BININT1", "BININT2", "INT", "LONG1", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BINUNICODE",
    "SHORT_BINUNICODE", "BINUNICODE8", "BINSTRING", "SHORT_BINSTRING",
)  # fmt: skip
_REMEMBERING = ("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE", "BINGET", "LONG_BINGET", "GET")
#: How many values on top of the stack an opcode takes.
_TAKEN = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "STACK_GLOBAL": 2, "REDUCE": 2}
_COMPOSING = ("MARK", "TUPLE", "GLOBAL", "BUILD", *_TAKEN)
_IGNORED = ("PROTO", "FRAME", "STOP")


class Split(NamedTuple):
    """Logits ``(n, K)`` and labels ``(n,)``."""

    logits: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]


class InvalidLogits(ValueError):
    """The file is not a pair of splits."""


@dataclass(frozen=True)
class _Name:
    name: str


@dataclass
class _Type:
    code: str
    order: str = "<"


@dataclass
class _Array:
    values: npt.NDArray[Any] | None = None


def read_logits(path: Path) -> tuple[Split, Split]:
    """Return the validation set and the test set of a file; raises ``InvalidLogits``."""
    try:
        parts = _interpreted(uses(path).read_bytes())
    except InvalidLogits:
        raise
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, UnicodeError) as error:
        raise InvalidLogits(f"{path.name} is not a file of logits") from error
    if not isinstance(parts, tuple) or len(parts) != 2:
        raise InvalidLogits(f"{path.name} does not hold two splits")
    validation, test = (_split(part, path.name) for part in parts)
    return validation, test


def _split(part: Any, file: str) -> Split:
    if not isinstance(part, tuple) or len(part) != 2 or not all(isinstance(array, _Array) for array in part):
        raise InvalidLogits(f"{file}: a split is not a pair of arrays")
    logits, labels = (array.values for array in part)
    if (
        logits is None
        or labels is None
        or logits.ndim != 2
        or logits.dtype.kind != "f"
        or labels.dtype.kind not in "iu"
    ):
        raise InvalidLogits(f"{file}: a split does not hold logits (n, K) and labels (n,)")
    flat = labels.reshape(-1).astype(np.int64)
    n, K = logits.shape
    if len(flat) != n or not n or K < 2 or not np.isfinite(logits).all() or flat.min() < 0 or flat.max() >= K:
        raise InvalidLogits(f"{file}: logits and labels do not belong together")
    return Split(logits.astype(np.float64), flat)


def _interpreted(content: bytes) -> Any:
    """Return the object that the opcodes describe, with arrays as ``_Array``."""
    machine = _Machine([], [], {})
    for opcode, argument, position in pickletools.genops(BytesIO(content)):
        name = opcode.name
        if name in _CONSTANTS:
            machine.stack.append(_CONSTANTS[name])
        elif name in _VALUES:
            machine.stack.append(argument)
        elif name in _REMEMBERING:
            machine.remember(name, argument)
        elif name in _COMPOSING:
            machine.compose(name, argument, position)
        elif name not in _IGNORED:
            raise InvalidLogits(f"the opcode {name} at byte {position} does not belong to a file of logits")
    _needs(len(machine.stack) == 1, len(content))
    return machine.stack[0]


@dataclass(frozen=True)
class _Machine:
    """The stack, the places of marks on it, and the memo."""

    stack: list[Any]
    marks: list[int]
    memo: dict[int, Any]

    def remember(self, name: str, argument: Any) -> None:
        """Write the top of the stack to the memo, or push an entry of the memo."""
        if name.endswith("GET"):
            self.stack.append(self.memo[argument])
        else:
            self.memo[len(self.memo) if name == "MEMOIZE" else argument] = self.stack[-1]

    def compose(self, name: str, argument: Any, position: int | None) -> None:
        """Replace the values on top of the stack by a tuple, a name, or what is built from them."""
        if name == "MARK":
            self.marks.append(len(self.stack))
        elif name == "GLOBAL":
            self.stack.append(_named(argument, position))
        elif name == "BUILD":
            state = self.stack.pop()
            _build(self.stack[-1], state, position)
        else:
            start = self.marks.pop() if name == "TUPLE" else len(self.stack) - _TAKEN[name]
            _needs(start >= 0, position)
            taken = tuple(self.stack[start:])
            if name == "STACK_GLOBAL":
                self.stack[start:] = [_named(" ".join(taken), position)]
            elif name == "REDUCE":
                self.stack[start:] = [_reduced(taken[0], taken[1], position)]
            else:
                self.stack[start:] = [taken]


def _named(name: str, position: int | None) -> _Name:
    if name not in _NAMES:
        raise InvalidLogits(f"the name at byte {position} does not belong to a file of logits")
    return _Name(_NAMES[name])


def _reduced(function: Any, arguments: Any, position: int | None) -> Any:
    _needs(isinstance(function, _Name) and isinstance(arguments, tuple), position)
    if function.name == _RECONSTRUCT:
        _needs(len(arguments) == 3 and arguments[0] == _Name(_NDARRAY), position)
        return _Array()
    if function.name == _DTYPE:
        code = arguments[0]
        _needs(code in _TYPES, position)
        return _Type(code)
    _needs(function.name == _ENCODE and len(arguments) == 2 and arguments[1] == "latin1", position)
    _needs(isinstance(arguments[0], str), position)
    return arguments[0].encode("latin1")


def _build(built: Any, state: Any, position: int | None) -> None:
    _needs(isinstance(state, tuple), position)
    if isinstance(built, _Type):
        _needs(len(state) >= 2 and state[1] in _ORDERS, position)
        built.order = state[1]
        return
    _needs(isinstance(built, _Array) and built.values is None and len(state) == 5, position)
    _, shape, kind, fortran, content = state
    _needs(isinstance(kind, _Type) and isinstance(content, bytes) and isinstance(shape, tuple), position)
    _needs(1 <= len(shape) <= 2 and all(type(side) is int and side > 0 for side in shape), position)
    dtype = np.dtype(kind.code).newbyteorder(kind.order)
    _needs(math.prod(shape) * dtype.itemsize == len(content), position)
    built.values = np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C")


def _needs(holds: bool, position: int | None) -> None:
    if not holds:
        raise InvalidLogits(f"the content at byte {position} is not that of a file of logits")
