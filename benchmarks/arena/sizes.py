"""The arena by the number of calibration rows, without a cap: ``python -m benchmarks.arena.sizes FOLDER...``.

Resumes a previous run; writes docs/benchmarks/arena-sizes.md. Experiments with up to 2,000 calibration rows are those
of ``make arena``, whose results are in the repository. ``--minutes 0`` writes the page of the records there are.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.arena import boards, generated, worlds
from benchmarks.arena.contenders import Contender, contenders, versions
from benchmarks.arena.experiments import ExperimentKey, calibration_shape, find, read
from benchmarks.arena.page import METRICS, OURS, Board, assemble, label, read_boards, representatives, table
from benchmarks.arena.run import in_rounds, record_of, warm_up
from benchmarks.laws import possible
from benchmarks.provenance import ROOT
from benchmarks.records import append, current, publish
from benchmarks.records import read as read_records
from benchmarks.timing import machine

PAGE = ROOT / "docs" / "benchmarks" / "arena-sizes.md"
RECORDS = "arena/sizes"
#: The most calibration rows of the run with a cap, whose results are in the repository.
CAP = 2_000
#: Contenders of this run: a few of each kind that take seconds for 250,000 rows.
CONTENDERS = (
    *("base-model", "TS", "Platt-logits", "Beta", "Quadratic", "logistic-mix", "SVS", "VS", "LightGBM"),
    *("sklearn-isotonic", "Hist-quantile", OURS, "pl3"),
)
#: Seconds of CPU time of a contender.
LIMIT = 30
#: The least number of experiments above so many calibration rows that a run should have.
WANTED = {20_000: 30, 200_000: 10}

Records = Mapping[tuple[str, str], dict[str, Any]]


class SizeClass(NamedTuple):
    """Experiments with more than ``low`` and at most ``high`` calibration rows."""

    low: int
    high: int | None

    @property
    def title(self) -> str:
        """How the page names the class."""
        if self.high is None:
            return f"above {self.low:,}"
        return f"{self.low + 1:,} to {self.high:,}" if self.low else f"up to {self.high:,}"

    def part(self, board: Board) -> Board:
        """The experiments of a board that are in the class, with one implementation of each map."""
        n = np.array([experiment["n_cal"] for experiment in board.experiments])
        some = board.of_rows((n > self.low) & (n <= (self.high or np.inf)))
        return some.keep(representatives(some)) if some.experiments else some


CLASSES = (SizeClass(0, 500), SizeClass(500, CAP), SizeClass(CAP, 20_000), SizeClass(20_000, 200_000),
           SizeClass(200_000, None))  # fmt: skip


def chosen_contenders() -> list[Contender]:
    """The contenders of this run: those of ours and of the peers' that have the names."""
    return [c for c in contenders() if c.name in CONTENDERS]


def stored() -> dict[tuple[str, str], dict[str, Any]]:
    """The records of an earlier run of the same code, by experiment and contender."""
    return {(experiment, name): record for (experiment, name), record in read_records(current(RECORDS, __file__))}


def run(keys: Iterable[ExperimentKey], minutes: float) -> None:
    """Run what has no record; no experiment begins after ``minutes`` of processor time."""
    done, every, known = stored(), chosen_contenders(), versions()
    path, began = current(RECORDS, __file__), time.process_time()
    warm_up(every)
    for key in keys:
        missing = [c for c in every if (key.name, c.name) not in done]
        if not missing:
            continue
        if time.process_time() - began > 60.0 * minutes:
            break
        experiment = read(key)
        for contender in missing:
            if contender.plays(experiment.n_classes):
                record = record_of(key, contender, experiment, known, LIMIT)
                append(path, [[key.name, contender.name], record])
        print(f"{time.process_time() - began:.0f} s: {key.name}, {len(experiment.y_cal):,} rows", flush=True)


def boards_of(records: Records) -> list[Board]:
    """The boards of this run."""
    experiments = {record["experiment"]: record for record in records.values()}
    of_contender: dict[str, dict[str, Any]] = {}
    for (experiment, name), record in records.items():
        of_contender.setdefault(name, {})[experiment] = record
    playing = [
        {"file": name, **{field: next(iter(of_sizes.values()))[field] for field in ("contender", "package", "version")}}
        for name, of_sizes in of_contender.items()
    ]
    return assemble(experiments, playing, of_contender)


def standing(board: Board, metric: str) -> tuple[boards.Verdict, str]:
    """The verdict on ``averaged`` by a score, and its smallest difference to a rival with the 95 % interval."""
    win_rates = boards.rates(boards.wins(board.columns[metric]), board.datasets)
    ours = board.place(OURS)
    gaps = {at: win_rates.difference(ours, at) for at in range(len(board.contenders)) if at != ours}
    rival = min(gaps, key=lambda at: gaps[at][0])
    mean, low, high = (100 * possible(gap, "difference of win rates") for gap in gaps[rival])
    verdict = boards.verdict(win_rates, ours, len(set(board.datasets)))
    return verdict, f"{mean:+.1f} ({low:+.1f} to {high:+.1f}), {label(board.contenders[rival])}"


def verdicts(every: Iterable[Board]) -> str:
    """The table of verdicts, by size class and board."""
    lines = []
    for board in every:
        for size in CLASSES:
            part = size.part(board)
            if not part.experiments:
                continue
            cells = [size.title, board.title, str(len(part.experiments)), str(len(set(part.datasets)))]
            cells.append(str(len(part.contenders)))
            for metric in METRICS:
                verdict, gap = standing(part, metric)
                cells += [f"**{verdict}**", gap]
            lines.append(f"| {' | '.join(cells)} |")
    header = (
        f"| calibration rows | board | experiments | data sets | contenders | log loss: `{OURS}` is | points, rival | "
        f"Brier score: `{OURS}` is | points, rival |"
    )
    return table(header, lines)


def parts_of_loss(board: Board) -> str:
    """The mean log loss of each contender, split into calibration and refinement, in thousandths."""
    won = boards.wins(board.columns["log_loss"]).mean(axis=0)
    loss, refinement = board.columns["log_loss"], board.columns["refinement"]
    possible(refinement - loss, "refinement above the log loss", low=-np.inf, high=1e-6)
    ours = board.place(OURS)
    lines = []
    for at in np.argsort(-won, kind="stable"):
        gain = refinement[:, ours] - refinement[:, at]
        spread = boards.rates(gain[:, None], board.datasets).samples[:, 0].std(ddof=1)
        seconds = board.columns["seconds"][:, at]
        cells = [label(board.contenders[at]), board.contenders[at]["package"] or "-", f"{100 * won[at]:.1f}"]
        cells += [f"{1e3 * values.mean():.2f}" for values in (loss[:, at], (loss - refinement)[:, at])]
        cells += [f"{1e3 * refinement[:, at].mean():.2f}", f"{1e3 * gain.mean():+.2f} ± {1e3 * spread:.2f}"]
        cells += [f"{np.median(seconds):.1f}", f"{seconds.max():.1f}", str(sum(seconds >= LIMIT))]
        lines.append(f"| {' | '.join(cells)} |")
    header = (
        f"| method | package | wins % | log loss | calibration | refinement | refinement of `{OURS}` minus its | "
        "median s | most s | time limit |"
    )
    return table(header, lines)


def page(shown_boards: list[Board]) -> str:
    """The whole page, from the boards of this run; those with up to 2,000 rows are the repository's."""
    experiments = [experiment for board in shown_boards for experiment in board.experiments]
    rows = np.array([experiment["n_cal"] for experiment in experiments])
    most = max((experiment["n_classes"] for experiment in experiments), default=0)
    packages = sorted(
        {(c["package"], c["version"]) for board in shown_boards for c in board.contenders if c["package"]}
    )
    small = [b.of_rows(np.array([e["n_cal"] <= CAP for e in b.experiments])) for b in read_boards()]
    large = [b.of_rows(np.array([e["n_cal"] > CAP for e in b.experiments])) for b in shown_boards]
    goals = "; ".join(
        f"{int((rows > least).sum())} with more than {least:,} calibration rows (wanted: {wanted})"
        for least, wanted in WANTED.items()
    )
    halves = sum(experiment["experiment"].rpartition("/")[2].startswith("half-") for experiment in experiments)
    played = len(experiments) - halves
    text = f"""# Arena by size

Generated by `make arena-sizes` ({machine()}; {", ".join(f"{name} {number}" for name, number in packages)}).

The protocol is that of [the arena](arena.md), without a cap on calibration rows: at most {worlds.MOST_TRAINING:,} rows
train a base model, 20 % of the rows, at most {worlds.MOST_TEST:,}, test, and all others calibrate, at most
{worlds.MOST_CALIBRATION:,}. The data sets are those of the arena and {len(generated.SETS)} generated ones (mixtures of
Gaussians, some labels drawn at random), because packages ship few data sets with so many rows or with
up to 1,000 classes. There are {len(worlds.MODELS)} base models: {", ".join(worlds.MODELS)}. The
last three are trained by torch and have logits. Data sets with more than 50 classes have {len(worlds.OF_MANY_CLASSES)}
of these: boosting and forests need too much time or memory there.

**This is a part of the run**: {played} of {worlds.planned():,} planned experiments, {worlds.planned() - played:,} are
missing, and {halves} halves of files of predictions;
{goals}; at most {rows.max(initial=0):,} rows and {most:,} classes. Data sets have a few of their base models
here, and there are {len(CONTENDERS)} contenders instead of all: a verdict above {CAP:,} rows is about these, of which
LightGBM alone is flexible. Experiments with up to {CAP:,} calibration rows are those [of the arena](arena.md), with all
its contenders.

`{OURS}` is *first* if the paired 95 % bootstrap interval (whole data sets are drawn) of the difference of win rates to
every rival lies above 0; *tied* if no interval allows a rival to be ahead by more than half a point; and else *behind*,
which includes that too little is known. With fewer than {boards.FEWEST_DATASETS} data sets there is no verdict. The
rival is the contender with the smallest difference.

{verdicts([*small, *large])}
## Calibration and refinement

The log loss is split into the part that a recalibration of the test rows removes (calibration) and the rest
(refinement). For two classes the recalibration is an isotonic regression (CORP: Dimitriadis, Gneiting & Jordan 2021),
and refinement depends on the order of the rows alone. For more classes it is one temperature (Berta, Holzmueller,
Jordan & Bach 2025), and refinement includes all errors that no temperature repairs. A map that exchanges rows or moves
probability between classes can gain refinement; a map that ties rows loses some. Means over experiments, in
thousandths, ± standard errors over data sets; seconds are CPU time of fitting and applying one experiment, with a limit
of {LIMIT} after which the base model's predictions count.
"""
    for board in large:
        for size in CLASSES:
            part = size.part(board)
            if part.experiments:
                text += f"\n### {board.title}, {size.title} rows\n\n{parts_of_loss(part)}"
    text += "\n## Data sets\n\n" + _datasets(experiments)
    return text


def _datasets(experiments: list[dict[str, Any]]) -> str:
    of_set: dict[str, list[dict[str, Any]]] = {}
    for experiment in experiments:
        of_set.setdefault(experiment["dataset"], []).append(experiment)
    lines = [
        f"| {name} | {group[0]['n_cal']:,} | {group[0]['n_test']:,} | {group[0]['n_classes']:,} | "
        f"{', '.join(sorted(e['experiment'].rpartition('/')[2] for e in group))} |"
        for name, group in sorted(of_set.items())
    ]
    return table("| data set | calibration rows | test rows | classes | base models |", lines)


def main() -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="*", default=[Path("build/arena/worlds")])
    parser.add_argument("--minutes", type=float, default=np.inf, help="processor time after which nothing new begins")
    parser.add_argument("--classes", type=int, default=1_000, help="only data sets with at most so many classes")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    if options.minutes > 0:
        shapes = {key: calibration_shape(key) for key in in_rounds(find(options.folders))}
        run([key for key, (n, k) in shapes.items() if n > CAP and k <= options.classes], options.minutes)
    publish(PAGE, page(boards_of(stored())))
    print(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    main()
