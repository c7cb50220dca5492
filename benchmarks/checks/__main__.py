"""Compute a random share of the cells of every page again: ``make pages-check [DATA=folder] [SEED=1] [SECONDS=1800]``.

Each page is checked in a process of its own, for its part of the time that is left. Random parts of the page are
computed until the share of its cells is reached, but at least one. The exit code is 1 if a cell differs.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import secrets
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numpy as np

from benchmarks.checks.catalogue import CHECKED, UNCHECKED
from benchmarks.checks.comparison import NotChecked, PagePart, Rendering
from benchmarks.markdown import figures, tables
from benchmarks.provenance import ROOT
from benchmarks.records import body, origin_of

DOCS = ROOT / "docs" / "benchmarks"
#: Seconds after the time of a page until its process is ended; a part that has begun may take longer than the page's.
_GRACE = 5.0


def cells_of(page: str) -> int:
    """Return the number of cells with a number, without the first of each row."""
    return sum(bool(figures(cell)) for table in tables(page) for row in table.rows for cell in row[1:])


def check(name: str, *, share: float, seed: int, seconds: float, data: Path | None) -> None:
    """Check a page and print a line of JSON for each part: cells and differences, or why there are none."""
    began = time.monotonic()
    page = body(DOCS / f"{name}.md")
    try:
        module, _, function = CHECKED[name].partition(":")
        parts: list[PagePart] = getattr(importlib.import_module(module), function or "checks")(data)
    except NotChecked as reason:
        print(json.dumps({"reason": str(reason)}), flush=True)
        return
    wanted = max(1, math.ceil(share * cells_of(page)))
    order = np.random.default_rng([seed, zlib.crc32(name.encode())]).permutation(len(parts))
    whole = [part for part in parts if isinstance(part, Rendering)]
    for part in [*whole, *(parts[at] for at in order if parts[at] not in whole)]:
        if wanted <= 0 or time.monotonic() - began > seconds:
            break
        comparison = part.compare(page)
        wanted -= comparison.cells
        result = {"part": part.name, "cells": comparison.cells, "differences": comparison.differences}
        print(json.dumps(result), flush=True)


class PageReport:
    """What was compared on a page, from the lines of its process."""

    def __init__(self, lines: str) -> None:
        results = []
        for line in lines.splitlines():
            try:
                results.append(json.loads(line))
            except ValueError:
                continue
        documents = [result for result in results if isinstance(result, dict)]
        self.cells = sum(result.get("cells", 0) for result in documents)
        self.differences = [text for result in documents for text in result.get("differences", ())]
        self.reason = next((result["reason"] for result in documents if "reason" in result), "")

    def line(self, name: str, seconds: float, *, code: int | None) -> str:
        """The line of the report."""
        total = cells_of(body(DOCS / f"{name}.md"))
        if self.differences:
            verdict = f"DIFFERS in {len(self.differences)} of {self.cells} cells"
        elif code:
            verdict = f"FAILED with exit code {code} after {self.cells} cells"
        elif self.cells:
            verdict = f"same: {self.cells} of {total:,} cells"
        else:
            verdict = f"not checked: {self.reason or 'no part is computed within its time'}"
        return "\n  ".join([f"{name}: {verdict} ({state(name)}; {seconds:.0f} s)", *self.differences])


def state(name: str) -> str:
    """Return which code made a page."""
    stored = origin_of(name)
    if stored is None:
        return "of an earlier state, before pages named their code"
    if changes := stored[0].differences():
        return f"of other code: {', '.join(changes[:3])}" + (f" and {len(changes) - 3} more" * (len(changes) > 3))
    return "of this code"


def _run(name: str, options: argparse.Namespace, seconds: float) -> tuple[PageReport, int | None]:
    command = [sys.executable, "-m", "benchmarks.checks", name, "--here", f"--seed={options.seed}"]
    command += [f"--share={options.share}", f"--seconds={seconds}"]
    command += [f"--data={options.data}"] if options.data else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT) as process:  # noqa: S603
        try:
            lines, code = process.communicate(timeout=seconds + _GRACE)[0], process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            lines, code = process.communicate()[0], None
    return PageReport(lines), code


def main(arguments: list[str] | None = None) -> int:
    """Check the pages; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checks", description=__doc__)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="pages without .md; default: all")
    parser.add_argument("--share", type=float, default=0.02, help="share of the cells of a page (default: 0.02)")
    parser.add_argument("--seed", type=int, help="of the random parts; default: random, and printed")
    parser.add_argument("--seconds", type=float, default=1800.0, help="time in all (default: 1800)")
    parser.add_argument("--data", type=Path, help="folder of the files of docs/benchmarks/data-sets.md")
    parser.add_argument("--here", action="store_true", help="check one page in this process")
    options = parser.parse_args(arguments)
    names = options.pages or sorted(path.stem for path in DOCS.glob("*.md") if path.stem in {**CHECKED, **UNCHECKED})
    if unknown := set(names) - {*CHECKED, *UNCHECKED}:
        parser.error(f"unknown pages: {', '.join(sorted(unknown))}")
    if not 0.0 < options.share <= 1.0 or not options.seconds > 0.0:
        parser.error("--share must be in (0, 1], --seconds above 0")
    if options.seed is None:
        options.seed = secrets.randbelow(1_000_000)
    if options.here:
        for name in names:
            check(name, share=options.share, seed=options.seed, seconds=options.seconds, data=options.data)
        return 0
    print(f"{options.share:.1%} of the cells of {len(names)} pages, seed {options.seed}", flush=True)
    ends, wrong = time.monotonic() + options.seconds, []
    left = [name for name in names if name in CHECKED]
    for name in [*(name for name in names if name in UNCHECKED), *left]:
        if name in UNCHECKED:
            print(f"{name}: not checked: {UNCHECKED[name]} ({state(name)})", flush=True)
            continue
        began = time.monotonic()
        seconds = max(1.0, (ends - began) / max(1, len(left)))
        left.remove(name)
        report, code = _run(name, options, seconds)
        print(report.line(name, time.monotonic() - began, code=code), flush=True)
        if report.differences or code:
            wrong.append(name)
    if wrong:
        print(f"pages that differ or cannot be computed: {', '.join(wrong)}", flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
