from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np
import pytest

from calibrant.io.errors import DamagedFile
from calibrant.io.limits import FileLimits, Limits
from calibrant.io.npz import NpyTable, NpzTable
from calibrant.io.strict import read_npy, read_npz
from tests.packed import npy, npz
from tests.unit.io.refused import refused

ARRAYS: dict[str, Any] = {
    "predictions": np.array([[0.1, 0.9], [0.4, 0.6]]),
    "labels": np.array([0, 1], dtype=np.int8),
    "weights": np.array([1.0, 2.0], dtype=np.float32),
    "groups": np.array(["a", "\u00e9b"]),
}


def _flagged(flag: int) -> bytes:
    """An archive whose directory says that its member is encrypted, or the like."""
    body = bytearray(npz(predictions=np.array([0.5])))
    start = body.index(b"PK\1\2")
    body[start + 8] |= flag
    return bytes(body)


def test_the_header_of_an_array_is_read_before_the_array(limits: Limits) -> None:
    # The second array is damaged: whoever unpacked the first one, or both, before checking would say so.
    body = bytearray(npz(labels=np.zeros(1001), predictions=np.zeros(10)))
    body[body.index(b"predictions.npy") - 300] ^= 255  # in the data of the labels
    assert refused(lambda: read_npz(body, limits)) == ("too-large", "/labels")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_archive_becomes_arrays(save: Any, limits: Limits) -> None:
    read = read_npz(npz(save, **ARRAYS), limits)
    assert list(read) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(read[name], array)
        assert read[name].dtype == array.dtype
        assert read[name].flags.aligned


@pytest.mark.parametrize(
    "array",
    [
        np.array([0.25, 0.5]),
        np.array([0.25, 0.5], dtype=np.float16),
        np.array([0.25, 0.5], dtype=">f8"),
        np.array([0, 1], dtype=np.uint64),
        np.asfortranarray([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]]),
        np.empty((0,)),
    ],
)
def test_one_array_is_the_predictions(array: Any, limits: Limits) -> None:
    read = read_npy(npy(array), limits)
    np.testing.assert_array_equal(read["predictions"], array)
    assert read["predictions"].dtype.isnative


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", ("malformed-npy", "")),
        (b"\x93NUMPY", ("malformed-npy", "")),
        (b"\x93NUMPY\x09\x00", ("malformed-npy", "/predictions")),
        (npy([0.5])[:-1], ("malformed-npy", "/predictions")),
        (npy([0.5]) + b"x", ("malformed-npy", "/predictions")),
        (npy([1 + 2j]), ("malformed-npy", "/predictions")),
        (npy(["a"]), ("malformed-npy", "/predictions")),
        (npy([True]), ("not-a-number", "/predictions")),
        (npy(np.zeros(1001)), ("too-large", "/predictions")),
        (npy(np.zeros((1, 21))), ("too-large", "/predictions")),
        (npy(np.zeros(200_000)), ("too-large", "")),
        (npy([0.5]).replace(b"(1,)", b"(2,)"), ("malformed-npy", "/predictions")),
        (npy([0.5]).replace(b"(1,), ", b"(-1,),"), ("malformed-npy", "/predictions")),
        (npy([0.5]).replace(b"'<f8'", b"'|O8'"), ("malformed-npy", "/predictions")),
    ],
)
def test_a_damaged_or_forged_array_is_refused(body: bytes, expected: tuple[str, str], limits: Limits) -> None:
    assert refused(lambda: read_npy(body, limits)) == expected


@pytest.mark.parametrize(
    "shape",
    ["(True,)", "(False,)", "(1, True)", "(True, 1)", "(-1,)", "(1.0,)", "((1,),)", "[1]", "1", "True"],
)
@pytest.mark.parametrize("order", ["False", "True"])
def test_a_shape_of_other_than_whole_numbers_is_a_damaged_header(shape: str, order: str, limits: Limits) -> None:
    content = bytes(0 if "False" in shape else 8)
    text = f"{{'descr': '<f8', 'fortran_order': {order}, 'shape': {shape}}}".ljust(117).encode() + b"\n"
    body = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content
    assert refused(lambda: read_npy(body, limits)) == ("malformed-npy", "/predictions")
    for name, kinds in (("predictions", "fiu"), ("groups", "fiu"), ("ids", "USiu")):
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr(f"{name}.npy", body)
        assert refused(lambda: read_npz(archive.getvalue(), limits, {name: kinds})) == ("malformed-npz", f"/{name}")  # noqa: B023
        with pytest.raises(DamagedFile):
            NpzTable(io.BytesIO(archive.getvalue()), FileLimits())
    with pytest.raises(DamagedFile):
        NpyTable(io.BytesIO(body), FileLimits())


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", ("malformed-npz", "")),
        (npz(**ARRAYS)[:-1], ("malformed-npz", "")),
        (npz(**ARRAYS)[1:], ("malformed-npz", "")),
        (npz(**ARRAYS).replace(b"\xcd\xcc\xcc\xcc", b"\xcd\xcc\xcc\xcd"), ("malformed-npz", "")),
        (npz(np.savez_compressed, **ARRAYS)[:-300], ("malformed-npz", "")),
        (npz(extra=np.zeros(1)), ("malformed-npz", "")),
        (npz(predictions=np.array([True, False])), ("not-a-number", "/predictions")),
        (npz(weights=np.array([True, False])), ("not-a-number", "/weights")),
        (npz(groups=np.array([1, 2])), ("malformed-npz", "/groups")),
        (npz(groups=np.array([True])), ("malformed-npz", "/groups")),
        (npz(predictions=np.zeros(1001)), ("too-large", "/predictions")),
        (npz(predictions=np.zeros(99_999), labels=np.zeros(99_999)), ("too-large", "/predictions")),
        (npz(np.savez_compressed, predictions=np.zeros(200_000)), ("too-large", "")),
        (_flagged(1), ("malformed-npz", "")),
    ],
)
def test_a_damaged_or_forged_archive_is_refused(body: bytes, expected: tuple[str, str], limits: Limits) -> None:
    assert refused(lambda: read_npz(body, limits)) == expected


def test_a_duplicate_name_is_refused(limits: Limits) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("labels.npy", npy([1]))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("labels.npy", npy([0]))
    assert refused(lambda: read_npz(file.getvalue(), limits)) == ("malformed-npz", "/labels")
