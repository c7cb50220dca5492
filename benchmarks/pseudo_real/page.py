"""docs/benchmarks/pseudo-real.md from the records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from benchmarks.provenance import uses
from benchmarks.pseudo_real.arrays import (
    EvaluatorArrays,
    agreement,
    arrays,
    calibrator_distances,
    complete_seeds,
    mean_ranks,
)
from benchmarks.pseudo_real.calibrators import CALIBRATORS, FINER, SIX
from benchmarks.pseudo_real.evaluators import EVALUATORS, OURS, PAPER, QUADRATIC
from benchmarks.pseudo_real.experiment import (
    CALIBRATION_ROWS,
    DISTANCE_ROWS,
    EVENTS,
    SEEDS,
    SIZES,
    TRUTH_ROWS,
    ExperimentPart,
    Record,
)
from benchmarks.pseudo_real.model import CLASSES, MODELS, TRAINING_ROWS
from benchmarks.pseudo_real.truth import TRUE_BINS
from calibrant.core.cells import Floats

PUBLISHED = json.loads(uses(Path(__file__).parent / "published.json").read_text("utf-8"))
#: Columns of Tables 2 and 3.
TEN = tuple(PUBLISHED["T2"])
#: Columns of Table 1.
FIFTEEN = ("Platt", "beta", "isotonic", "Scaling-Binning", "TempS", "1-Temp", "VecS", "dirL2", "dirODIR", "MSODIR",
           "Spline natural", "IOP_OI", "ES_sweep", "PL3 CE", "PL CE")  # fmt: skip
_FAMILIES = ("PL3 CE", "PL3 MSE", "PL CE", "PL MSE", "PL_DE", QUADRATIC)
_WIDTHS = ("EW_10", "ES_10", "EW_15", "ES_15", "EW_20", "ES_20", "EW_CV", "ES_CV")
_RULES = ("PL CE no rule", "PL CE", "PL3 CE no rule", "PL3 CE", "PL_DE no rule", "PL_DE", "ES_CV no rule", "ES_CV")

#: A row of a table: its name, and its values by column.
Row = tuple[str, Floats]


def event_name(event: str) -> str:
    return event if event == "confidence" else f"{event.replace(':', ' ')} vs rest"


def ranked(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Row],
    paper: Sequence[float | None] | None = None,
    *,
    label: str = "mean rank, paper",
) -> str:
    """A table with the rank of every value in its row, the mean ranks, and those of the paper."""
    lines = [f"## {title}", "", _line(["", *columns]), _line(["---"] * (len(columns) + 1))]
    for name, values in rows:
        lines.append(_line([name, *_cells(values)]))
    means = mean_ranks(np.array([values for _, values in rows]))
    lines.append(_line(["mean rank", *(f"{mean:.1f}" for mean in means)]))
    if paper is not None:
        lines.append(_line([label, *("" if value is None else f"{value:g}" for value in paper)]))
        lines += ["", f"Spearman's correlation of the two orders: {agreement(means, paper):.2f}."]
    return "\n".join([*lines, ""])


def _cells(values: Floats, digits: int = 2, *, largest: bool = False) -> list[str]:
    """Values with their ranks; the best is bold."""
    ranks = rankdata(-values if largest else values)
    texts = [f"{value:.{digits}f} ({rank:g})" for value, rank in zip(values, ranks, strict=True)]
    return [f"**{text}**" if rank == ranks.min() else text for text, rank in zip(texts, ranks, strict=True)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def _by_pair(values: Floats) -> list[Row]:
    """Rows of each model and event, from values ``(column, model, event, ...)``."""
    means = values.reshape(*values.shape[:3], -1).mean(axis=-1)
    return [
        (f"{model}, {event_name(event)}", means[:, i, j]) for i, model in enumerate(MODELS)
        for j, event in enumerate(EVENTS)
    ]  # fmt: skip


def _by_size(values: Floats) -> list[Row]:
    """Rows of each model and size."""
    means = values.mean(axis=(2, 3, 5))
    return [(f"{model}, n = {n:,}", means[:, i, j]) for i, model in enumerate(MODELS) for j, n in enumerate(SIZES)]


def _marginal(values: Floats) -> list[Row]:
    """Rows of Table 2: all, then each model, size and event."""
    rows = [("all", values.mean(axis=(1, 2, 3, 4, 5)))]
    for axis, names in ((1, MODELS), (4, [f"n = {n:,}" for n in SIZES]), (2, map(event_name, EVENTS))):
        others = tuple(other for other in range(1, 6) if other != axis)
        rows += [(name, column) for name, column in zip(names, values.mean(axis=others).T, strict=True)]
    return rows


def _deviations(values: Floats) -> list[Row]:
    """The standard deviation over seeds of the mean over calibrators and sizes, by model and event."""
    return _by_pair(values.mean(axis=(3, 4)).std(axis=-1, ddof=1)[..., None])


def calibrator_tables(results: Mapping[ExperimentPart, Sequence[Record]]) -> list[str]:
    """Tables 1 and F1."""
    distances = calibrator_distances(results)
    fifteen = [CALIBRATORS.index(name) for name in FIFTEEN]
    order = PUBLISHED["mean ranks"]["F1"]
    rows = [(event_name(event), distances.mean(axis=1)[fifteen, j]) for j, event in enumerate(EVENTS)]
    return [
        ranked(
            "Table 2 (arXiv: Table 1): calibrators, |c_hat - c*|, mean over the models", FIFTEEN, rows,
            [order[i] for i in fifteen], label="mean rank, paper's F1",
        ),
        ranked("Table 5 (arXiv: F1): calibrators, |c_hat - c*|", CALIBRATORS, _by_pair(distances), order),
    ]  # fmt: skip


def _main_tables(evaluated: EvaluatorArrays) -> list[str]:
    """Tables 2, 3, F8 and F9."""
    published = list(PUBLISHED["T2"].values())
    parts = [
        ranked(
            "Table 3 (arXiv: Table 2): evaluators, |c_hat - c*|", TEN, _marginal(evaluated.distances(TEN)), published,
            label="paper, all",
        )
    ]  # fmt: skip
    for title, key, truth in (
        ("Table 4 (arXiv: Table 3)", "T3", "isotonic"),
        ("Table 12 (arXiv: F8), true map of bins with slope 1", "F8", "slope 1"),
        ("Table 13 (arXiv: F9), true map of flat bins", "F9", "flat"),
    ):
        errors, ranks = evaluated.errors(TEN, truth=truth), evaluated.rank_correlations(TEN, truth=truth)
        lines = [f"## {title}: errors of the calibration error, and ranking of the calibrators", ""]
        lines += [_line(["", *TEN]), _line(["---"] * (len(TEN) + 1))]
        for name, values, kind, digits in (
            ("abs(ECE - CE)", errors, "error", 2),
            ("rank correlation", ranks, "rank", 3),
        ):
            for tasks, chosen, i in (("one vs rest", slice(0, -1), 0), ("confidence", slice(-1, None), 1)):
                means = values[:, :, chosen].reshape(len(TEN), -1).mean(axis=1)
                lines.append(_line([f"{name}, {tasks}", *_cells(means, digits, largest=kind == "rank")]))
                quoted = PUBLISHED[key][kind][i]
                lines.append(_line(["paper", *("" if value is None else f"{value:g}" for value in quoted)]))
        parts.append("\n".join([*lines, ""]))
    return parts


def _tables(evaluated: EvaluatorArrays) -> list[str]:
    """Tables F2 to F7 and F10 to F19."""
    paper = PUBLISHED["mean ranks"]
    distance, error = "|c_hat - c*|", "|ECE - CE|"
    wide = (
        ("F2", f"{distance}", _by_pair(evaluated.distances(PAPER))),
        ("F3", f"{distance}^2", _by_pair(evaluated.distances(PAPER, 2))),
        ("F4", f"{error}", _by_pair(evaluated.errors(PAPER))),
        ("F5", f"{error} of norm 2", _by_pair(evaluated.errors(PAPER, 2))),
        ("F6", f"{distance}, true map of bins with slope 1", _by_pair(evaluated.distances(PAPER, truth="slope 1"))),
        ("F7", f"{distance}, true map of flat bins", _by_pair(evaluated.distances(PAPER, truth="flat"))),
        ("F10", f"{distance} by number of rows", _by_size(evaluated.distances(PAPER))),
        ("F11", f"{error} by number of rows", _by_size(evaluated.errors(PAPER))),
    )
    narrow = (
        ("F12", f"{distance}, families and losses", _FAMILIES, _by_pair(evaluated.distances(_FAMILIES))),
        ("F13", f"{error}, families and losses", _FAMILIES, _by_pair(evaluated.errors(_FAMILIES))),
        ("F14", f"{distance}, equal width and equal mass", _WIDTHS, _by_pair(evaluated.distances(_WIDTHS))),
        ("F15", f"{error}, equal width and equal mass", _WIDTHS, _by_pair(evaluated.errors(_WIDTHS))),
        ("F16", f"{distance}, with and without the 0.1 % rule", _RULES, _by_pair(evaluated.distances(_RULES))),
        ("F17", f"{error}, with and without the 0.1 % rule", _RULES, _by_pair(evaluated.errors(_RULES))),
    )
    parts = [ranked(f"{_number(name)}: {title}", PAPER, rows, paper[name]) for name, title, rows in wide]
    parts += [ranked(f"{_number(name)}: {title}", own, rows, paper[name]) for name, title, own, rows in narrow]
    if evaluated.seeds > 1:
        for name, title, values in (
            ("F18", distance, evaluated.distances(PAPER)),
            ("F19", error, evaluated.errors(PAPER)),
        ):
            heading = f"{_number(name)}: standard deviation of {title} over the seeds"
            parts.append(ranked(heading, PAPER, _deviations(values), paper[name]))
    else:
        parts.append(f"{_number('F18')} and {_number('F19')}, the standard deviations over seeds, need two seeds.\n")
    return parts


def _number(name: str) -> str:
    """The number in the journal version, which counts on from the tables of the main text."""
    return f"Table {int(name[1:]) + 4} (arXiv: {name})"


def _beside(evaluated: EvaluatorArrays) -> str:
    """Our own columns beside the paper's best."""
    names = (*OURS, "PL CE", "PL3 CE", "beta", "ES_15")
    lines = [_line(["", *names]), _line(["---"] * (len(names) + 1))]
    for title, values in (
        ("abs(c_hat - c*)", evaluated.distances(names)),
        ("abs(ECE - CE)", evaluated.errors(names)),
        ("ECE - CE", evaluated.biases(names)),
    ):
        lines.append(_line([title, *(f"{value:.2f}" for value in values.mean(axis=(1, 2, 3, 4, 5)))]))
    return "\n".join(lines)


def models_table(facts: Mapping[str, Record]) -> str:
    """Properties of the models before calibration."""
    names = [f"CE, {event_name(event)}" for event in EVENTS]
    lines = [
        _line(["model", "trained on", "accuracy", "mean confidence", *names]),
        _line(["---"] * (len(EVENTS) + 4)),
    ]
    for name, fact in facts.items():
        errors = [f"{1e3 * fact['errors'][event]:.1f}" for event in EVENTS]
        shares = [f"{fact['accuracy']:.3f}", f"{fact['confidence']:.3f}"]
        lines.append(_line([name, f"{TRAINING_ROWS[name]:,}", *shares, *errors]))
    return "\n".join(lines)


def remaining_errors(evaluated: EvaluatorArrays) -> str:
    """True calibration error after each of the six calibrators, mean over models, sizes and seeds."""
    lines = [_line(["calibrator", *map(event_name, EVENTS)]), _line(["---"] * (len(EVENTS) + 1))]
    means = 1e3 * evaluated.ce["isotonic", 1][0].mean(axis=(0, 3, 4))
    for k, name in enumerate(evaluated.calibrators):
        lines.append(_line([name, *(f"{value:.2f}" for value in means[:, k])]))
    return "\n".join(lines)


def order(evaluated: EvaluatorArrays) -> str:
    """The order of Table 2, the paper's beside ours."""
    values = evaluated.distances(TEN).mean(axis=(1, 2, 3, 4, 5))
    ours = [f"{TEN[i]} {values[i]:.2f}" for i in np.argsort(values)]
    theirs = [f"{name} {value:.2f}" for name, value in sorted(PUBLISHED["T2"].items(), key=lambda item: item[1])]
    lines = [_line(["place", "paper", "here"]), _line(["---"] * 3)]
    lines += [_line([str(i), *both]) for i, both in enumerate(zip(theirs, ours, strict=True), 1)]
    return "\n".join(lines)


def calibrator_order(results: Mapping[ExperimentPart, Sequence[Record]]) -> str:
    """The mean ranks of Table F1, the paper's beside ours."""
    ranks = mean_ranks(np.array([values for _, values in _by_pair(calibrator_distances(results))]))
    published = PUBLISHED["mean ranks"]["F1"]
    ours = [f"{CALIBRATORS[i]} {ranks[i]:.1f}" for i in np.argsort(ranks, kind="stable")]
    theirs = [f"{CALIBRATORS[i]} {published[i]:.1f}" for i in np.argsort(published, kind="stable")]
    lines = [_line(["place", "paper", "here"]), _line(["---"] * 3)]
    lines += [_line([str(i), *both]) for i, both in enumerate(zip(theirs, ours, strict=True), 1)]
    return "\n".join(lines)


def explanation(
    evaluated: EvaluatorArrays, results: Mapping[ExperimentPart, Sequence[Record]], facts: Mapping[str, Record]
) -> str:
    """Why the orders differ, with the figures that show it."""
    identity, best = evaluated.distances(("identity", "PL CE")).mean(axis=(1, 2, 3, 4, 5))
    coarse, fine = calibrator_distances(results, ("Scaling-Binning", FINER)).mean(axis=(1, 2))
    failing = evaluated.distances(("KDE", "IOP_OP")).mean(axis=(1, 2, 3, 4, 5))
    straight = 1e3 * max(distance for fact in facts.values() for distance in fact["platt"].values())
    return f"""Reasons for differences:

- The models here are closer to calibrated after the six calibrators: the predictions as they are lie
  {identity:.2f} from the truth, PL {best:.2f}, and the paper's best evaluator 6.27. Distances are about half of the
  paper's, and evaluators that stay near the identity (PL, IOP) gain against those that follow noise (isotonic
  regression, many bins).
- The true maps of these models are nearly straight in logit-logit space: Platt scaling fitted to the million rows is
  {straight:.1f} or less from c*. Those of the paper's networks have kinks (its Figure 4a). Platt scaling and beta
  calibration therefore come closer to the truth than in the paper.
- The paper does not state the number of bins of scaling-binning. With the library's 15 the output is {coarse:.1f}
  from the truth, with 50 bins {fine:.1f}: if one event in ten is positive, two of 15 bins of equal mass hold nearly
  all positives.
- The published spline code exchanges the two weights of its interpolation; the library does not, and its splines rank
  higher.
- KDE and IOP_OP fail in the paper (21 to 170 and 53 to 83 thousandths in Table F2), and are {failing[0]:.1f} and
  {failing[1]:.1f} from the truth here. Without density at a prediction, the published KDE repeats the value of the
  previous input, and the library that of the next smaller prediction. The library's order-preserving maps are
  piecewise linear with a convex loss instead of neural networks.
"""


def page(results: Mapping[ExperimentPart, Sequence[Record]], facts: Mapping[str, Record]) -> str:
    """The whole page."""
    evaluated = arrays(results, "evaluators", EVALUATORS, SIX)
    fits = complete_seeds(results, "calibrators")
    last = "F19" if evaluated.seeds > 1 else "F17"
    head = f"""# Pseudo-real tables of the fit-on-test paper

Generated by `make pseudo-real`. This is the experiment of Kangsepp, Valk & Kull (2022) on pseudo-real data (their
appendix D.2), Tables 1, 2, 3 and F1 to {last}. Headings have the numbers of the journal version, then those of the
arXiv version.

**The data are simulated**: {CLASSES} classes that are mixtures of Gaussians, with fixed seeds, instead of the paper's
images (CIFAR-5m). The models are real classifiers, trained on few rows. Their calibration errors (CE), in thousandths:

{models_table(facts)}

Three models and four events are 12 pairs, as in the paper. Calibrators are fitted to {CALIBRATION_ROWS:,} rows: each of
the 20 for Table 2 ({fits} of {SEEDS} sets of rows), and six for the other tables, whose outputs are evaluated on 1,000,
3,000 and 10,000 other rows, {evaluated.seeds} of {SEEDS} times each, without using a row twice. The true map c* of each
output is an isotonic regression on {TRUTH_ROWS:,} rows that are used for nothing else; distances of maps are measured
on {DISTANCE_ROWS:,} of them. Other estimates of c* have {TRUE_BINS} bins of equal mass.

Every method is that of the library with its defaults; splines choose the number of knots by cross-validation. The maps
of bins have slope 1 within each bin, and their errors are debiased; values of PL_DE are clipped to [0, 1]. Values are
in thousandths, with the rank in the row in brackets; the best is bold.

## The paper's order and ours

Mean |c_hat - c*| of the evaluators (Table 3; arXiv: Table 2):

{order(evaluated)}

Mean ranks of the calibrators (Table 5; arXiv: F1):

{calibrator_order(results)}

{explanation(evaluated, results, facts)}
True calibration error after each of the six calibrators, the mean over models, sizes and seeds, in thousandths:

{remaining_errors(evaluated)}

Two columns that the paper does not have, beside some that it has: `identity` takes the predictions as they are, and
`averaged` is the library's average of many maps. Means over everything:

{_beside(evaluated)}
"""
    parts = [head, *calibrator_tables(results), *_main_tables(evaluated), *_tables(evaluated)]
    return "\n".join(parts).replace("|c_hat - c*|^2", "(c_hat - c*)^2")
