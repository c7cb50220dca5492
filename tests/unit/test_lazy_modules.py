"""Calls while another thread imports a library for the first time: its module exists, and lacks most of its names."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.abc import MetaPathFinder
from typing import Any

import pytest

from calibrant.io.errors import pyarrow
from service.formats import arrays

#: What Calibrant imports on first use, or recognises without importing it.
LAZY = ["pandas", "polars", "pyarrow", "matplotlib", "sklearn"]

#: Imports the library in one thread, which stops at the start of the library's code until eight others have finished.
_RUN = """
import importlib.abc, importlib.machinery, json, sys, threading
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import calibrant
from calibrant.core.arrays import like

name = sys.argv[1]
begun, finished = threading.Event(), threading.Event()

class Stopped(importlib.abc.Loader):
    def __init__(self, loader):
        self.loader = loader
    def create_module(self, spec):
        return self.loader.create_module(spec)
    def exec_module(self, module):
        begun.set()
        if not finished.wait(600):
            raise ImportError("no thread finished")
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, full, path=None, target=None):
        if full != name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(full, path)
        spec.loader = Stopped(spec.loader)
        return spec

assert name not in sys.modules
sys.meta_path.insert(0, Finder())
importing = threading.Thread(target=importlib.import_module, args=[name])
importing.start()
assert begun.wait(600)

rng = np.random.default_rng(0)
P = rng.random(60)
Y = (rng.random(60) < P).astype(int)
V = np.column_stack([1 - P, P])
G = ["a", "b"] * 30

def call(k):
    predictions, labels = (P, Y) if k % 2 else (P.tolist(), Y.tolist())
    report = calibrant.evaluate(predictions, labels, groups=G, measures=["ece", "brier"])
    map = calibrant.fit("platt", predictions, labels)
    distributions = calibrant.evaluate_distribution(P, mean=P, std=P + 1.0, measures=["crps"])
    assert like(predictions, P, None) is P
    calibrant.fit("temperature", V, Y).apply(V)
    calibrant.tally(predictions, labels)
    calibrant.density_ratios(V[:30], V[30:])
    return [report["brier"].value, report["ece"].value, distributions["crps"].value, *map.apply(predictions)]

try:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(call, range(8)))
finally:
    finished.set()
    importing.join()

library = sys.modules[name]
if name in ("pandas", "polars"):
    P = library.Series("p", P) if name == "polars" else library.Series(P, name="p", index=range(5, 65))
    Y = library.Series(Y) if name == "polars" else library.Series(Y, index=P.index)
    report = calibrant.evaluate(P, Y, measures=["brier"])
    assert report["brier"].value == answers[0][0]
    calibrated = calibrant.fit("platt", P, Y).apply(P)
    assert type(calibrated) is library.Series and calibrated.name == "p"
    assert like(P, np.asarray(P), None).equals(P)
print(json.dumps(answers))
"""


def _answers(name: str) -> Any:
    ended = subprocess.run([sys.executable, "-c", _RUN, name], capture_output=True, text=True, check=False, timeout=600)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAZY)
def test_calls_are_answered_while_another_thread_imports_a_library(name: str) -> None:
    answers = _answers(name)
    assert all(answer == answers[0] for answer in answers)


class _FailsOnce(MetaPathFinder):
    """Fails the first import of a module, as too many open files do."""

    def __init__(self, name: str) -> None:
        self._name: str | None = name

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == self._name:
            self._name = None
            raise ImportError("too many open files", name=fullname)


def test_an_import_of_arrow_that_failed_once_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pyarrow.csv", raising=False)
    monkeypatch.setattr(sys, "meta_path", [_FailsOnce("pyarrow.csv"), *sys.meta_path])
    assert pyarrow("csv") is None
    arrow = pyarrow("csv")
    assert arrow is not None
    assert arrow.csv.read_csv


def test_a_failed_import_is_not_reported_as_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays.pyarrow.cache_clear()
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)
    monkeypatch.setattr(sys, "meta_path", [_FailsOnce("pyarrow.parquet"), *sys.meta_path])
    with pytest.raises(ImportError, match="too many open files"):
        arrays.pyarrow()
    assert arrays.pyarrow().parquet.read_table
