"""The reader of pickled logits: it reads the files, runs nothing in them, and refuses everything else."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.splines.nn_logits import InvalidLogits, read_logits

pytestmark = pytest.mark.slow


def _splits(dtype: str = "f4") -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    random = np.random.default_rng(0)
    return tuple(  # type: ignore[return-value]
        (random.normal(size=(n, 3)).astype(dtype), random.integers(0, 3, (n, 1)).astype(np.uint8)) for n in (7, 9)
    )


def _written(folder: Path, content: Any, protocol: int = 3) -> Path:
    path = folder / "logits.p"
    path.write_bytes(pickle.dumps(content, protocol))
    return path


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["f4", ">f8"])
def test_the_splits_of_a_file_are_read(tmp_path: Path, protocol: int, dtype: str) -> None:
    splits = _splits(dtype)
    if protocol == 5:  # in-band buffers are an opcode of their own, with a name that is not listed
        with pytest.raises(InvalidLogits):
            read_logits(_written(tmp_path, splits, protocol))
        return
    for split, (logits, labels) in zip(read_logits(_written(tmp_path, splits, protocol)), splits, strict=True):
        np.testing.assert_array_equal(split.logits, logits)
        np.testing.assert_array_equal(split.labels, labels[:, 0])


def test_columns_in_the_order_of_fortran_and_flat_labels_are_read(tmp_path: Path) -> None:
    (logits, labels), test = _splits()
    split, _ = read_logits(_written(tmp_path, ((np.asfortranarray(logits), labels[:, 0].astype(np.int64)), test)))
    np.testing.assert_array_equal(split.logits, logits)


class _Command:
    """Unpickling it would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_nothing_in_a_hostile_file_runs(tmp_path: Path, protocol: int) -> None:
    marker = tmp_path / "made"
    for content in (_Command(marker), (_splits()[0], _Command(marker)), [_Command(marker)]):
        with pytest.raises(InvalidLogits):
            read_logits(_written(tmp_path, content, protocol))
    assert not marker.exists()


#: Opcodes by hand: calls of listed names with other arguments, stacks that are too short, lengths that are not there.
HOSTILE = {
    "eval": b"c__builtin__\neval\n(S'1'\ntR.",
    "numpy load": b"cnumpy\nload\n(S'x'\ntR.",
    "an array of objects": b"cnumpy\ndtype\n(U\x02O8K\x00K\x01tR.",
    "a call of an array": b"cnumpy\nndarray\n(K\x01tR.",
    "another codec": b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x03\x00\x00\x00zip\x74R.",
    "a number that is called": b"\x80\x03K\x01)R.",
    "a state of a number": b"\x80\x03K\x01)b.",
    "an empty stack": b"\x80\x03R.",
    "a memo that is not there": b"\x80\x03h\x07.",
    "a tuple without a mark": b"\x80\x03t.",
    "a length beyond the end": b"\x80\x03B\xff\xff\xff\x7fabc.",
    "a length of 8 bytes beyond the end": b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7fabc.",
    "a persistent id": b"\x80\x03K\x01Q.",
    "an extension": b"\x80\x03\x82\x01.",
    "a class": b"\x80\x03cos\nsystem\n)\x81.",
    "an instance": b"(S'true'\nios\nsystem\n.",
    "a number that is encoded": b"\x80\x02c_codecs\nencode\nK\x05U\x06latin1\x86R.",
    "no end": b"\x80\x03K\x01",
    "nothing": b"",
    "text": b"logits",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_every_other_program_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "hostile.p"
    path.write_bytes(content)
    with pytest.raises(InvalidLogits):
        read_logits(path)


def test_a_file_cut_or_changed_anywhere_is_read_or_refused(tmp_path: Path) -> None:
    whole = _written(tmp_path, _splits()).read_bytes()
    path = tmp_path / "changed.p"
    random = np.random.default_rng(0)
    for _ in range(300):
        changed = bytearray(whole[: random.integers(1, len(whole) + 1)])
        changed[random.integers(len(changed))] = random.integers(256)
        path.write_bytes(bytes(changed))
        try:
            read_logits(path)
        except InvalidLogits:
            continue


def test_splits_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    (logits, labels), test = _splits()
    infinite = logits.copy()
    infinite[0, 0] = np.inf
    for content in (
        (logits, labels),
        ((logits, labels),),
        ((logits, labels[1:]), test),
        ((logits, labels + 3), test),
        ((infinite, labels), test),
        ((logits.astype(np.int64), labels), test),
        ((logits[:, :1], labels), test),
        ((logits.astype(object), labels), test),
        ((logits, labels.astype(np.float64)), test),
        (((logits, labels), test), 1),
    ):
        with pytest.raises(InvalidLogits):
            read_logits(_written(tmp_path, content))
