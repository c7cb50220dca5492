"""Encoding of arrays as NPZ and NPY, uncompressed, since numbers compress badly."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
NPZ, NPY = "application/x-npz", "application/x-npy"


def pack(arrays: Arrays) -> bytes:
    """Encode arrays as an uncompressed NPZ archive."""
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **arrays)
    return out.getvalue()


def pack_one(array: Array) -> bytes:
    """Encode one array as NPY, without the checksum of an archive."""
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


def unpack(content: bytes) -> dict[str, Array]:
    """Decode an NPZ archive; raises ``ValueError`` if it is invalid."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = ((name, io.BytesIO(archive.read(name))) for name in archive.namelist())
            read = np.lib.format.read_array
            return {name.removesuffix(".npy"): read(member, allow_pickle=False) for name, member in members}
    except zipfile.BadZipFile as error:
        raise ValueError("not an NPZ archive") from error
