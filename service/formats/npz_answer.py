"""Arrays as NPZ, in pieces; the fields of text have no place in it."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping

import numpy as np

from calibrant.cells import Floats
from service.formats.pieces import Pieces

#: Numbers that are written at once.
_BLOCK = 1 << 17


def write_npz(fields: Mapping[str, str], arrays: Mapping[str, Floats]) -> Iterator[bytes]:  # noqa: ARG001
    """An archive that ``numpy.load`` reads, each array under its name."""
    pieces = Pieces()
    with zipfile.ZipFile(pieces, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            rows = np.ascontiguousarray(array)
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                member.write(_header(rows))
                numbers = rows.reshape(-1)
                for start in range(0, numbers.size, _BLOCK):
                    member.write(numbers[start : start + _BLOCK].tobytes())
                    yield pieces.take()
    yield pieces.take()


def _header(array: Floats) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, np.lib.format.header_data_from_array_1_0(array))
    return out.getvalue()
