"""The number of files of the project that run for one request: ``python -m benchmarks.request_files``.

A service is started with a profiler in each of its processes, which notes the file of every function that is called.
Each request is sent three times, and the third is counted: modules are loaded and caches are warm by then. In the API,
the files within the handler of the route count, not those of connections and middleware, which all requests share. A
handler is on the stack in its own task; its work in threads has the context of that task.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np

from service.stack import stack

ROOT = Path(__file__).parents[1]
#: Folders of the repository that are not part of the product.
_BESIDE = ("benchmarks", "tests", "docs", ".venv")
#: Seconds after an answer in which its background work continues.
_AFTERWARDS = 2.0

_PROFILER = """
import contextvars, mmap, os, sys, threading
_folder = os.environ["REQUEST_FILES"]
_handled = contextvars.ContextVar("handled", default=False)
_open = open
_root = os.environ["REQUEST_ROOT"]
_routes = os.sep + os.path.join("service", "routes") + os.sep
_shared = mmap.mmap(os.open(_folder + "/round", os.O_RDONLY), 1, access=mmap.ACCESS_READ)
_seen = [0, set()]
_is_api = "api" in sys.argv[:2] or "api" in sys.orig_argv

def _within(frame):
    if not _is_api or _handled.get() and threading.current_thread() is not threading.main_thread():
        return True
    while _shared[0] and frame is not None:  # not while routes are imported: all tasks would inherit it
        if _routes in frame.f_code.co_filename:
            _handled.set(True)
            return True
        frame = frame.f_back
    return False

def _note(frame, event, argument):
    if _shared is None or event != "call" or frame.f_code.co_name == "<module>":
        return
    if _shared[0] != _seen[0]:
        _seen[:] = _shared[0], set()
    name = frame.f_code.co_filename
    if name in _seen[1] or _root not in name or not _within(frame):
        return
    _seen[1].add(name)
    with _open(_folder + "/seen", "ab") as file:
        file.write(f"{_seen[0]} {' '.join(sys.argv[:2])[-60:]}\\t{name}\\n".encode())

threading.setprofile(_note)
sys.setprofile(_note)
"""


class Counting:
    """The rounds of a run: the records of each process since the last one started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "round").write_bytes(b"\0")
        (folder / "seen").write_bytes(b"")
        (folder / "sitecustomize.py").write_text(_PROFILER)
        with (folder / "round").open("r+b") as file:
            self._round = mmap.mmap(file.fileno(), 1)

    def count(self, request: Callable[[], None]) -> dict[str, set[str]]:
        """Process -> the files of the project that a request ran, without those of a quiet service."""
        quiet = self._files(lambda: None)
        files_by_process: dict[str, set[str]] = {}
        for _ in range(3):
            files_by_process = self._files(request)
        return {process: files - quiet.get(process, set()) for process, files in files_by_process.items()}

    def _files(self, request: Callable[[], None]) -> dict[str, set[str]]:
        self._round[0] = self._round[0] + 1
        request()
        time.sleep(_AFTERWARDS)
        files_by_process: dict[str, set[str]] = defaultdict(set)
        for line in (self._folder / "seen").read_text().splitlines():
            process, name = line.split("\t")
            number, _, command = process.partition(" ")
            with contextlib.suppress(ValueError):
                place = Path(name).relative_to(ROOT)
                if int(number) == self._round[0] and place.parts[0] not in _BESIDE:
                    files_by_process["api" if " api" in command or command.endswith("api") else "worker"].add(
                        str(place)
                    )
        return files_by_process


def requests(client: httpx.Client) -> dict[str, Callable[[], None]]:
    """The requests that are counted."""
    random = np.random.default_rng(0)
    c = random.random(1_000)
    rows = {"predictions": (c**1.3).tolist(), "labels": (random.random(1_000) < c).astype(int).tolist()}
    client.post("/monitors", json={"name": "m"}).raise_for_status()
    sent = iter(range(1_000_000))

    def evaluate() -> None:
        client.post("/evaluate", json=rows).raise_for_status()

    def fit() -> None:
        accepted = client.post("/maps", json=rows | {"method": "pl3", "name": "m"}).raise_for_status()
        while client.get(accepted.headers["location"]).raise_for_status().json()["status"] != "succeeded":
            time.sleep(0.2)

    def ingest() -> None:
        body = [{"id": f"row-{next(sent)}", "prediction": p, "label": y} for p, y in zip(*rows.values(), strict=True)]
        client.post("/monitors/m/rows", json={"rows": body}).raise_for_status()

    return {"`POST /evaluate`, inline": evaluate, "`POST /maps`, pl3": fit, "`POST /monitors/m/rows`, with ids": ingest}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="calibrant-") as name:
        folder = Path(name)
        counting = Counting(folder)
        os.environ |= {"REQUEST_FILES": name, "REQUEST_ROOT": str(ROOT)}
        os.environ["PYTHONPATH"] = os.pathsep.join([name, *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
        with (
            stack(host="127.0.0.1", port=0, data=folder / "data", log=None, level="warning") as running,
            httpx.Client(base_url=running.url, timeout=300) as client,
        ):
            files_by_request: dict[str, dict[str, set[str]]] = {}
            for what, request in requests(client).items():
                files_by_request[what] = counting.count(request)
    print("| request | files in the API | in the worker |\n|---|---|---|")
    for what, of in files_by_request.items():
        print(f"| {what} | {len(of.get('api', ()))} | {len(of.get('worker', ()))} |")
    if "-v" in sys.argv:
        for what, of in files_by_request.items():
            for process, files in of.items():
                print(f"\n{what}, {process}\n" + "\n".join(sorted(files)))


if __name__ == "__main__":
    main()
