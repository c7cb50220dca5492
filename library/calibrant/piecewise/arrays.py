"""The arrays of the engine: NumPy on the processor, PyTorch on a GPU.

The engine uses what both spell alike: operators, indexing, methods such as ``sum(axis=1)``, and the functions of
``namespace``, with axes as positional arguments. The functions of this module are the rest. Arrays are annotated as
those of NumPy; on a GPU they are tensors.

The device ``cpu`` is NumPy. Any other name is a device of PyTorch: ``cuda``, or in tests ``cpu:0``, the processor.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dposv

from calibrant.core.cells import Floats

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_Array = TypeVar("_Array", bound=npt.NDArray[Any])


def placed(values: _Array, device: str) -> _Array:
    """Return an array of NumPy on this device."""
    return values if device == "cpu" else _moved(values, device)


def beside(values: _Array, like: npt.NDArray[Any]) -> _Array:
    """Return an array of NumPy on the device of another array."""
    return values if isinstance(like, np.ndarray) else _moved(values, like.device)


def on_host(values: _Array) -> _Array:
    """Return any array as one of NumPy."""
    if isinstance(values, np.ndarray):
        return values
    return values.cpu().numpy()


def namespace(like: npt.NDArray[Any]) -> ModuleType:
    """Return the module with the functions for an array: ``numpy`` or ``torch``."""
    return np if isinstance(like, np.ndarray) else _torch()


def empty(shape: Sequence[int], like: Floats) -> Floats:
    """Return an array that is not initialised, on the device of another array."""
    if isinstance(like, np.ndarray):
        return np.empty(shape)
    return like.new_empty(shape)


def take(values: npt.NDArray[Any], places: Ints) -> Any:
    """Return the values at ``places`` of the last axis; the other axes are broadcast."""
    if isinstance(values, np.ndarray):
        return np.take_along_axis(values, places, -1)
    return _torch().take_along_dim(values, places, -1)


def repeat(values: Floats, times: Ints, total: int) -> Floats:
    """Repeat each value ``times`` times; ``total`` is the sum of ``times``."""
    if isinstance(values, np.ndarray):
        return np.repeat(values.ravel(), times.ravel())
    return _torch().repeat_interleave(values.reshape(-1), times.reshape(-1), output_size=total)


def ranks(ascending: Floats, values: Floats, *, ties: bool) -> Ints:
    """Return the number of elements of ``ascending (C,)`` below each value; with ``ties``, below or equal to it."""
    if isinstance(values, np.ndarray):
        return np.searchsorted(ascending, values, side="right" if ties else "left")
    return _torch().searchsorted(ascending, values.contiguous(), right=ties)


def range_sums(parts: Sequence[Floats], begin: Ints) -> Floats:
    """Return the sums over the ranges of each row, ``(parts, M, B)``, of several arrays ``(M, C)``.

    ``begin (M, B + 1)`` are the ends of the ranges of each row, ascending from 0 to C.
    """
    if isinstance(begin, np.ndarray):
        # All ranges together are the whole array, as ``reduceat`` requires, once the empty ones are left out.
        rows, cells = parts[0].shape
        filled = np.flatnonzero(begin[:, 1:] > begin[:, :-1])
        first = (begin[:, :-1] + np.arange(0, rows * cells, cells)[:, None]).ravel()[filled]
        sums = np.zeros((len(parts), rows * (begin.shape[1] - 1)))
        for part, own in zip(parts, sums, strict=True):
            own[filled] = np.add.reduceat(part.ravel(), first)
        return sums.reshape(len(parts), rows, -1)
    torch = _torch()
    lengths = begin[:, 1:] - begin[:, :-1]
    totals: Floats = torch.segment_reduce(torch.stack(list(parts), -1), "sum", lengths=lengths, axis=1)
    return totals.swapaxes(1, 2).swapaxes(0, 1)


def solve_positive(matrices: Floats, right: Floats) -> tuple[Floats, Bools]:
    """Solve ``matrices (M, P, P)`` x = ``right (M, P)``; overwrites the matrices.

    Also returns for which models the Cholesky factorisation failed, because the matrix is not positive definite. Their
    solutions are undefined; the others are not affected.
    """
    if isinstance(matrices, np.ndarray):
        solved = np.empty_like(right)
        failed = np.empty(len(right), dtype=bool)
        for i, (matrix, own) in enumerate(zip(matrices, right, strict=True)):
            solved[i], failed[i] = _solved(matrix, own)
        return solved, failed
    linalg = _torch().linalg
    factor, info = linalg.cholesky_ex(matrices)
    return _torch().cholesky_solve(right[:, :, None], factor)[:, :, 0], info > 0


#: OpenBLAS factorises larger matrices with threads, which costs milliseconds if another process needs the cores.
_ONE_THREAD = 127


def _solved(matrix: Floats, right: Floats) -> tuple[Floats, bool]:
    if len(right) <= _ONE_THREAD:
        _, solution, info = dposv(matrix.T, right, overwrite_a=True)
        return solution, info > 0
    pivot, ratio = matrix[0, 0], matrix[0, 1:] / matrix[0, 0]
    rest, failed = _solved(matrix[1:, 1:] - np.outer(ratio, matrix[0, 1:]), right[1:] - ratio * right[0])
    return np.append(right[0] / pivot - ratio @ rest, rest), failed or not pivot > 0.0


def highest_so_far(values: Floats) -> Floats:
    """Return cumulative maxima over the last axis."""
    if isinstance(values, np.ndarray):
        return np.maximum.accumulate(values, axis=-1)
    return _torch().cummax(values, -1).values


def _moved(values: _Array, device: Any) -> _Array:
    moved: _Array = _torch().asarray(np.ascontiguousarray(values), device=device)
    return moved


def _torch() -> ModuleType:
    import torch

    return torch
