"""Files and bodies that would take more memory or time than their size suggests."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from calibrant.io.errors import DamagedFile, FileTooLarge
from calibrant.io.files import Sheet, read_sheet
from calibrant.io.limits import Limits
from calibrant.io.strict import read_npz
from tests.unit.io.refused import refused

ROWS = b"label,p\n0,0.25\n", b"1,0.5\n"


def read(data: bytes) -> Sheet:
    return read_sheet(io.BytesIO(data), name="a", max_rows=None)


def test_members_of_gzip_are_one_file_and_zeros_after_them_are_padding() -> None:
    members = [gzip.compress(part) for part in ROWS]
    assert len(read(b"".join(members) + bytes(512))) == 2
    assert len(read(members[0] + bytes(7) + members[1])) == 2
    with pytest.raises(DamagedFile):
        read(b"".join(members) + b"x")


def test_a_file_of_empty_members_is_refused() -> None:
    flood = gzip.compress(b"") * 70_000
    with pytest.raises(DamagedFile, match="gzip"):
        read(gzip.compress(ROWS[0]) + flood)


def _archive_of_many() -> bytes:
    """An archive with 5 MB of names, whose members are empty."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for i in range(100):
            archive.writestr(f"{i:03}".ljust(50_000, "a") + ".npy", b"")
    return out.getvalue()


def test_an_archive_whose_list_of_members_is_long_is_refused_before_it_is_read() -> None:
    data = _archive_of_many()
    with pytest.raises(FileTooLarge, match="list of members"):
        read(data)
    assert refused(lambda: read_npz(data, Limits(1 << 30, None, 10))) == ("too-large", "")


def test_stored_arrays_of_a_body_are_not_copied() -> None:
    # The names are so long that the numbers begin at a multiple of eight.
    for extra in range(8):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            member = zipfile.ZipInfo("predictions.npy")
            member.extra = b"\0\0" + (extra + 1).to_bytes(2, "little") + bytes(extra + 1)
            array = io.BytesIO()
            np.save(array, np.linspace(0, 1, 100))
            archive.writestr(member, array.getvalue())
        body = out.getvalue()
        found = read_npz(body, Limits(1 << 20, 100, 10))["predictions"]
        np.testing.assert_array_equal(found, np.linspace(0, 1, 100))
        if np.shares_memory(found, np.frombuffer(body, np.uint8)):
            return
    pytest.fail("every array was copied")


def test_the_readers_are_imported_with_numpy_alone() -> None:
    code = (
        "import sys; sys.modules |= dict.fromkeys(('pyarrow', 'zstandard'))\n"
        "import calibrant.io.files, calibrant.io.strict as strict\n"
        "from calibrant.errors import MissingExtra\n"
        "from calibrant.io.limits import Limits\n"
        "print(strict.read_csv(b'labels\\n1\\n', Limits(99, 9, 2))['labels'])\n"
        "for read in (strict.read_arrow, strict.read_parquet):\n"
        "    try: read(b'', Limits(99, 9, 2))\n"
        "    except MissingExtra as error: print(\"pip install 'calibrant[files]'\" in error.detail)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[1.]", "True", "True"]
