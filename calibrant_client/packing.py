"""Arrays as NPZ, as they travel: as they are, since numbers hardly compress and each byte of them would be touched."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
NPZ = "application/x-npz"


def pack(arrays: Arrays) -> bytes:
    """An archive of arrays, uncompressed, each in the type that it has."""
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **arrays)
    return out.getvalue()


def unpack(content: bytes) -> dict[str, Array]:
    """The arrays of an archive; raises ``ValueError`` where it is none."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return {name.removesuffix(".npy"): _array(archive.read(name)) for name in archive.namelist()}
    except zipfile.BadZipFile as error:
        raise ValueError("no NPZ archive") from error


def _array(data: bytes) -> Array:
    found: Array = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    return found
