from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from calibrant.core.errors import MissingExtra, requires

LIBRARY = Path(__file__).parents[2] / "library"
EXTRAS = tomllib.loads((LIBRARY / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
#: Names under which packages are imported, where these are not those of the distributions.
MODULES = {"scikit-learn": "sklearn"}

#: What a user calls without each extra.
CALLS = {
    "torch": [
        "calibrant.fit('pl', P, Y, device='cuda')",
        "calibrant.fit('averaged', P, Y, device='cuda:1')",
        "calibrant.fit('matrix', V, Y, device='cuda')",
    ],
    "sklearn": ["calibrant.CalibrantClassifier", "from calibrant import CalibrantClassifier"],
    "plots": ["from calibrant.plots.canvas import Canvas; Canvas(400)"],
    "reports": ["import calibrant.reports.html"],
    "files": [
        "read(b'PAR1' + bytes(20) + b'PAR1', 'p.parquet')",
        "read(b'ARROW1\\0\\0' + bytes(20), 'p.arrow')",
        "read(b'\\x28\\xb5\\x2f\\xfd' + bytes(20), 'p.csv.zst')",
        "calibrant.distributed.parquet.pieces_of('.')",
    ],
    "excel": ["read(workbook(), 'p.xlsx')"],
    "client": ["from calibrant.client import Calibrant", "import calibrant.client.answers"],
    "dask": ["calibrant.distributed.dask.tally('.', prediction='p', label='y')"],
    "delta": ["calibrant.evaluate_source('.', prediction='p', label='y', format='delta')"],
    "duckdb": ["calibrant.distributed.duckdb.tally('.', prediction='p', label='y')"],
}


#: Runs calls without some modules. NumPy and SciPy are imported once; each try is a fork, which has imported no more.
_RUN = """
import importlib.abc, io, json, os, sys, zipfile
import numpy as np
import scipy.optimize, scipy.special

for missing, calls in json.loads(sys.argv[1]):
    sys.stdout.flush()
    if not (pid := os.fork()):
        break
    _, status = os.waitpid(pid, 0)
    if status:
        sys.exit(f"without {missing}: the process ended with status {status}")
else:
    sys.exit()

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import calibrant, calibrant.distributed, calibrant.distributed.parquet
from calibrant.io.files import read_sheet

rng = np.random.default_rng(0)
P = rng.random(60)
Y = (rng.random(60) < P).astype(int)
V = np.column_stack([1 - P, P])

def read(data, name):
    return read_sheet(io.BytesIO(data), name=name, max_rows=None)

def workbook():
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        archive.writestr("xl/workbook.xml", "")
    return file.getvalue()

errors = []
for call in calls:
    try:
        exec(call)
    except Exception as error:
        kinds = (calibrant.MissingExtra, calibrant.CalibrationError, ImportError)
        errors.append([all(isinstance(error, kind) for kind in kinds), str(error)])
    else:
        errors.append([False, "nothing was raised"])
print(json.dumps(errors))
"""


def _modules(extra: str) -> list[str]:
    """The packages that an extra installs, by the names that they are imported under."""
    names = (Requirement(line).name for line in EXTRAS[extra])
    return [MODULES.get(name, name) for name in names if name != "calibrant"]


def test_every_extra_is_tried() -> None:
    assert set(CALLS) == set(EXTRAS) - {"all", "cli"}


def _errors(tries: list[tuple[list[str], list[str]]]) -> list[list[tuple[bool, str]]]:
    """Of each try, of modules that are missing and calls: whether each call raised the right error, and its text."""
    command = [sys.executable, "-P", "-c", _RUN, json.dumps(tries)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=LIBRARY)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_a_call_whose_extra_is_missing_raises_the_line_that_installs_it() -> None:
    tries = [(_modules(extra), calls) for extra, calls in CALLS.items()]
    for (extra, calls), errors in zip(CALLS.items(), _errors(tries), strict=True):
        for call, (is_missing_extra, message) in zip(calls, errors, strict=True):
            assert is_missing_extra, (call, message)
            assert f"pip install 'calibrant[{extra}]'" in message, call


def test_numpy_and_scipy_alone_fit_every_piecewise_linear_map() -> None:
    calls = [
        "calibrant.fit('pl', P, Y)",
        "calibrant.fit('pl3', P, Y, monotone=True, starts='several')",
        "calibrant.fit('averaged', P, Y, device='auto')",
        "calibrant.fit('pl', V, Y, reduction='classwise')",
        "calibrant.evaluate(P, Y, measures=['ece-pl', 'ece-pl3', 'ece-averaged'])",
    ]
    (errors,) = _errors([(["torch"], calls)])
    assert [message for _, message in errors] == ["nothing was raised"] * len(calls)


def test_a_fault_inside_the_library_is_not_taken_for_a_missing_extra() -> None:
    with pytest.raises(ImportError, match="no_such_name") as caught, requires("torch"):
        from calibrant.core.errors import no_such_name  # type: ignore[attr-defined]  # noqa: F401
    assert not isinstance(caught.value, MissingExtra)
