"""The arena by the number of calibration rows, without a cap: ``python -m benchmarks.arena.sizes FOLDER...``.

Trains base models, unless a folder has HDF5 files. Resumes a previous run; writes docs/benchmarks/arena-sizes.md from
the results in the repository. Experiments with up to 2,000 calibration rows are those of ``make arena``; with
``--minutes 0`` nothing is run, and the page has the results there are.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.arena import boards, generated, results, worlds
from benchmarks.arena.__main__ import run_stage, with_worlds
from benchmarks.arena.page import LEAST, METRICS, OURS, Board, assemble, label, read_boards, representatives, table
from benchmarks.laws import possible
from benchmarks.provenance import ROOT
from benchmarks.records import publish
from benchmarks.timing import machine

PAGE = ROOT / "docs" / "benchmarks" / "arena-sizes.md"
#: The records of a run, and the results of it in the repository.
RECORDS, RESULTS = Path("build/arena/sizes"), results.FOLDER / "sizes"
#: The most calibration rows of the run with a cap, whose results are in the repository.
CAP = 2_000
#: Seconds of processor time of a contender, ten times those of the run with a cap.
LIMIT = 600
#: The most classes of the boards with all contenders of this run.
FEW_CLASSES, BOOSTED = 50, "CatBoost"
#: Contenders for any number of classes: a few of each kind that take seconds for 250,000 rows.
OF_MANY_CLASSES = ("base-model", "TS", "logistic-mix", "SVS", "VS", "sklearn-isotonic", "Hist-quantile", OURS)
#: All of them. Boosting and a curve for each class take too long for more classes.
CONTENDERS = (*OF_MANY_CLASSES, "Platt-logits", "Beta", "Quadratic", "LightGBM", BOOSTED, "pl3")
#: The least number of experiments above so many calibration rows that a run should have.
WANTED = {20_000: 30, 200_000: 10}
_LEFT_OUT = (BOOSTED, "LightGBM", "`pl3`")
#: How the names of simulated data sets begin.
_SIMULATED = "generated--"


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


def run(folders: Iterable[Path], minutes: float) -> None:
    """Run what has no record, and put the results into the repository."""
    options: list[Path | str] = [
        "--results",
        RECORDS,
        "--above",
        str(CAP),
        "--minutes",
        str(minutes),
        "--limit",
        str(LIMIT),
    ]
    for names, classes in ((CONTENDERS, FEW_CLASSES), (OF_MANY_CLASSES, 1_000)):
        run_stage("run", *folders, *options, "--classes", str(classes), "--only", *names)
    run_stage("results", RECORDS, RESULTS)


def large_boards(folder: Path = RESULTS) -> list[Board]:
    """The boards of the results in the repository: two, a few and many classes, of real and of simulated data."""
    experiments, playing, records = results.read(folder)
    finished = records[next(c["file"] for c in playing if c["contender"] == OURS)].keys()
    shown_boards = []
    for many in (False, True):
        of_kind = {name: e for name, e in experiments.items() if (e["n_classes"] > FEW_CLASSES) is many}
        of_kind = {name: experiment for name, experiment in of_kind.items() if name in finished}
        for board in assemble(of_kind, playing, records):
            title = f"More than {FEW_CLASSES} classes" if many else board.title
            simulated = np.array([str(name).startswith(_SIMULATED) for name in board.datasets])
            for rows, kind in ((~simulated, "real"), (simulated, "simulated")):
                shown_boards.append(board.of_rows(rows)._replace(title=f"{title}, {kind}"))
    return shown_boards


def standing(board: Board, metric: str) -> list[str]:
    """The verdict on ``averaged`` by a score, its smallest difference to a rival, and the data sets of a decision."""
    win_rates = boards.rates(boards.wins(board.columns[metric]), board.datasets)
    ours, n_datasets = board.place(OURS), len(set(board.datasets))
    gaps = {at: win_rates.difference(ours, at) for at in range(len(board.contenders)) if at != ours}
    rival = min(gaps, key=lambda at: gaps[at][0])
    mean, low, high = (100 * possible(gap, "difference of win rates") for gap in gaps[rival])
    verdict = boards.verdict(win_rates, ours, n_datasets)
    needed = boards.datasets_for_first(win_rates, ours, n_datasets)
    if n_datasets < boards.FEWEST_DATASETS:
        wanted = f"{boards.FEWEST_DATASETS} at least"
    else:
        wanted = "" if verdict == "first" else "none suffices" if needed is None else f"{needed:,}"
    gap = f"{mean:+.1f} ({low:+.1f} to {high:+.1f}), {label(board.contenders[rival])}"
    return [f"**{verdict}**", gap, wanted]


def classes_of_size(every: Iterable[Board]) -> Iterable[tuple[SizeClass, Board]]:
    """The parts of boards that have experiments, by size."""
    for board in every:
        for size in CLASSES:
            part = size.part(board)
            if part.experiments:
                yield size, part


def verdicts(every: Iterable[Board]) -> str:
    """The table of verdicts, by size class and board."""
    lines = []
    for size, part in classes_of_size(every):
        cells = [size.title, part.title, str(len(part.experiments)), str(len(set(part.datasets)))]
        cells.append(str(len(part.contenders)))
        for metric in METRICS:
            cells += standing(part, metric)
        lines.append(f"| {' | '.join(cells)} |")
    header = (
        f"| calibration rows | board | experiments | data sets | contenders | log loss: `{OURS}` is | points, rival | "
        f"data sets for *first* | Brier score: `{OURS}` is | points, rival | data sets for *first* |"
    )
    return table(header, lines)


def ratios(every: Iterable[Board]) -> str:
    """Log losses of ``averaged`` over those of other packages' methods, by size class and board."""
    lines = []
    for size, part in classes_of_size(every):
        ours = part.place(OURS)
        peers = np.flatnonzero([c["package"] not in ("calibrant", "") for c in part.contenders])
        loss = np.maximum(part.columns["log_loss"], LEAST)
        of_sets = loss[:, ours], loss[:, peers], part.datasets
        best, to_single = boards.single(*of_sets)
        of_oracle = boards.hindsight(*of_sets)[1]
        boosted = [at for at in peers if part.contenders[at]["contender"] == BOOSTED]
        to_boosted = boards.hindsight(loss[:, ours], loss[:, boosted], part.datasets)[1] if boosted else np.array([])
        cells = [size.title, part.title, str(len(set(part.datasets))), label(part.contenders[peers[best]])]
        cells += [f"{boards.geometric_mean(values):.4f}" for values in (to_single, of_oracle)]
        cells.append(f"{boards.geometric_mean(to_boosted):.4f}" if boosted else "not run")
        lines.append(f"| {' | '.join(cells)} |")
    header = (
        f"| calibration rows | board | data sets | best single peer | ratio to it | ratio to the best of each data set "
        f"| ratio to {BOOSTED} |"
    )
    return table(header, lines)


def beside_boosting(every: Iterable[Board]) -> str:
    """``averaged`` and CatBoost on each data set: losses, their ratio and the place of CatBoost."""
    lines = []
    for board in every:
        if not any(c["contender"] == BOOSTED for c in board.contenders):
            continue
        ours, peer = board.place(OURS), board.place(BOOSTED)
        for name in sorted(set(board.datasets)):
            rows = np.flatnonzero(board.datasets == name)
            loss = np.maximum(board.columns["log_loss"][rows].mean(axis=0), LEAST)
            places = [1 + int((loss < loss[at]).sum()) for at in (ours, peer)]
            first = board.experiments[rows[0]]
            cells = [str(name), f"{first['n_cal']:,}", f"{first['n_classes']:,}", str(len(rows))]
            cells += [f"{loss[ours]:.5f}", f"{loss[peer]:.5f}", f"{loss[ours] / loss[peer]:.4f}", *map(str, places)]
            cells += [f"{board.columns['seconds'][rows, peer].max():.0f}"]
            cells += [str(int(board.columns["failed"][rows, peer].sum()))]
            lines.append(f"| {' | '.join(cells)} |")
    header = (
        f"| data set | calibration rows | classes | experiments | log loss of `{OURS}` | of {BOOSTED} | ratio | place "
        f"of `{OURS}` | place of {BOOSTED} | most s | failed |"
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
        cells += [f"{np.median(seconds):.1f}", f"{seconds.max():.1f}", str(int(board.columns["failed"][:, at].sum()))]
        lines.append(f"| {' | '.join(cells)} |")
    header = (
        f"| method | package | wins % | log loss | calibration | refinement | refinement of `{OURS}` minus its | "
        "median s | most s | failed |"
    )
    return table(header, lines)


def page(shown_boards: list[Board]) -> str:
    """The whole page, from the boards of this run; those with up to 2,000 rows are of the run with a cap."""
    experiments = [experiment for board in shown_boards for experiment in board.experiments]
    rows = np.array([experiment["n_cal"] for experiment in experiments])
    most = max((experiment["n_classes"] for experiment in experiments), default=0)
    packages = sorted(
        {(c["package"], c["version"]) for board in shown_boards for c in board.contenders if c["package"]}
    )
    small = [b.of_rows(np.array([e["n_cal"] <= CAP for e in b.experiments])) for b in read_boards()]
    small = [board._replace(title=f"{board.title}, real") for board in small]
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
{worlds.MOST_CALIBRATION:,}. There are {len(worlds.MODELS)} base models: {", ".join(worlds.MODELS)}. The last three are
trained by torch and have logits. Data sets with more than {FEW_CLASSES} classes have {len(worlds.OF_MANY_CLASSES)} of
these: boosting and forests need too much time or memory there.

**Real and simulated data have boards of their own.** Real data are tables that R packages ship, and files of
predictions, of which random halves calibrate and test. Packages ship few tables with many rows or classes, so that
{len(generated.SETS)} data sets are simulated (`benchmarks/arena/generated.py`): a class is a mixture of Gaussians, and
a share of the labels is drawn at random. Real models are trained on these, so that the miscalibration is theirs. Tables
with a third part in their name have another label of the same rows.

**This is a part of the run**: {played} of {worlds.planned():,} planned experiments, {worlds.planned() - played:,} are
missing, and {halves} halves of files of predictions; {goals}; at most {rows.max(initial=0):,} rows and {most:,}
classes.
Data sets have one or two of their base models here, and there are {len(CONTENDERS)} contenders instead of all, of
which LightGBM and {BOOSTED} are flexible: a verdict above {CAP:,} rows is about these. Experiments with up to {CAP:,}
calibration rows are those [of the arena](arena.md), with all its contenders.

A contender has {LIMIT} seconds of CPU time for fitting and applying; after that the base model's predictions count, and
the column *failed* counts it. **For more than {FEW_CLASSES} classes, {", ".join(_LEFT_OUT)} are not
run**: for 5,000 rows of 100 classes, {BOOSTED} exceeds the limit of [the arena](arena.md), a tenth of this, LightGBM
takes 22 s and `pl3`, which fits a curve for each class, 9 s. Predictions of 54,000 rows of 1,000 classes are 216 MB in
the files and 432 MB in double precision, and a contender holds several arrays of this size.

## Verdicts

`{OURS}` is *first* if the paired 95 % bootstrap interval (whole data sets are drawn) of the difference of win rates to
every rival lies above 0; *tied* if no interval allows a rival to be ahead by more than half a point; and else *behind*,
which includes that too little is known. With fewer than {boards.FEWEST_DATASETS} data sets there is no verdict. The
rival is the contender with the smallest difference. *Data sets for first* is the number that would decide if the mean
differences stayed as they are and the intervals narrowed with the square root of the number of data sets; with a rival
ahead, no number suffices.

{verdicts([*small, *shown_boards])}
## Log loss of `{OURS}` over that of the peers

Geometric means over data sets of the ratio of mean log losses, to the peer that is best for all of them, to the peer
that is best on each data set in hindsight, and to {BOOSTED}. Losses below {LEAST:.0e} count as this.

{ratios([*small, *shown_boards])}
## {BOOSTED} on each data set

Mean log losses; a place is among all contenders of the board.

{beside_boosting(shown_boards)}
## Calibration and refinement

The log loss is split into the part that a recalibration of the test rows removes (calibration) and the rest
(refinement). For two classes the recalibration is an isotonic regression (CORP: Dimitriadis, Gneiting & Jordan 2021),
and refinement depends on the order of the rows alone. For more classes it is one temperature (Berta, Holzmueller,
Jordan & Bach 2025), and refinement includes all errors that no temperature repairs. A map that exchanges rows or moves
probability between classes can gain refinement; a map that ties rows loses some. Means over experiments, in
thousandths, ± standard errors over data sets; seconds are CPU time of fitting and applying one experiment.
"""
    for size, part in classes_of_size(shown_boards):
        text += f"\n### {part.title}, {size.title} rows\n\n{parts_of_loss(part)}"
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
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--models", type=int, help="base models of each data set at most")
    parser.add_argument("--minutes", type=float, default=np.inf, help="processor time after which nothing new begins")
    options = parser.parse_args()
    if options.minutes > 0:
        chosen = ["--models", str(options.models)] if options.models else []
        run(with_worlds(options.folders, "--above", str(CAP), *chosen), options.minutes)
    publish(PAGE, page(large_boards()))
    print(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
