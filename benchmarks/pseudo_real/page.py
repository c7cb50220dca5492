"""The tables of docs/benchmarks/pseudo-real.md."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from scipy.stats import spearmanr

from benchmarks.pseudo_real.calibrators import CALIBRATORS
from benchmarks.pseudo_real.experiment import (
    CALIBRATION_ROWS,
    DISTANCE_ROWS,
    EVALUATORS,
    EVENTS,
    SEEDS,
    SIZES,
    TRUTH_ROWS,
    Record,
)
from benchmarks.pseudo_real.model import CLASSES, MODELS, TRAINING_ROWS
from benchmarks.pseudo_real.truth import TRUE_BINS, TRUTHS

#: The mean over some records of one evaluator; None if undefined.
Summary = Callable[[Sequence[Record]], float | None]


def distance(records: Sequence[Record], truth: str = TRUTHS[0]) -> float:
    """Mean |c_hat - c*|, in thousandths."""
    return 1e3 * fmean(record["distance"][truth] for record in records)


def error(records: Sequence[Record], truth: str = TRUTHS[0]) -> float:
    """Mean |ECE - CE|, in thousandths."""
    return 1e3 * fmean(abs(record["ece"] - record["ce"][truth]) for record in records)


def bias(records: Sequence[Record]) -> float:
    """Mean ECE - CE, in thousandths."""
    return 1e3 * fmean(record["ece"] - record["ce"][TRUTHS[0]] for record in records)


def rank_correlation(records: Sequence[Record]) -> float | None:
    """Spearman's correlation of ECE and CE over the calibrators, mean over model, event, n and seed.

    None if an evaluator gives all calibrators the same error.
    """
    groups: dict[tuple[Any, ...], list[tuple[float, float]]] = defaultdict(list)
    for record in records:
        group = tuple(record[name] for name in ("model", "event", "n", "seed"))
        groups[group].append((record["ece"], record["ce"][TRUTHS[0]]))
    if any(len({ece for ece, _ in pairs}) == 1 for pairs in groups.values()):
        return None
    return fmean(float(spearmanr(*zip(*pairs, strict=True)).statistic) for pairs in groups.values())


def slices() -> Iterator[tuple[str, Callable[[Record], bool]]]:
    """Rows of a table: their names and the records that they include."""
    yield "all", lambda _: True
    yield "without the isotonic calibrator", lambda record: record["calibrator"] != "isotonic"
    for event in EVENTS:
        yield _name(event), lambda record, event=event: record["event"] == event  # type: ignore[misc]
    for n in SIZES:
        yield f"n = {n:,}", lambda record, n=n: record["n"] == n  # type: ignore[misc]
    for model in MODELS:
        yield model, lambda record, model=model: record["model"] == model  # type: ignore[misc]


def _name(event: str) -> str:
    return event if event == "confidence" else f"{event.replace(':', ' ')} vs rest"


def table(
    records: Sequence[Record], summary: Summary, best: Callable[[list[float]], float] | None, digits: int
) -> list[str]:
    """One row per slice, one column per evaluator; the best of a row is bold."""
    lines = [_line(["", *EVALUATORS]), _line(["---"] * (len(EVALUATORS) + 1))]
    for name, belongs in slices():
        kept = [record for record in records if belongs(record)]
        values = [summary([record for record in kept if record["evaluator"] == e]) for e in EVALUATORS]
        lines.append(_row(name, values, best, digits))
    return lines


def _row(
    name: str, values: Sequence[float | None], best: Callable[[list[float]], float] | None, digits: int = 2
) -> str:
    defined = [round(value, digits) for value in values if value is not None]
    chosen = best(defined) if best else None
    cells = []
    for value in values:
        shown = "" if value is None else f"{value:.{digits}f}"
        cells.append(f"**{shown}**" if value is not None and round(value, digits) == chosen else shown)
    return _line([name, *cells])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def truths_table(records: Sequence[Record]) -> list[str]:
    """Both errors, mean over everything, under each estimate of the true map."""
    lines = [_line(["", *EVALUATORS]), _line(["---"] * (len(EVALUATORS) + 1))]
    for title, summary in (("distance", distance), ("error", error)):
        for truth in TRUTHS:
            values = [summary([r for r in records if r["evaluator"] == e], truth) for e in EVALUATORS]
            lines.append(_row(f"{title}, {truth}", values, min))
    return lines


def models_table(facts: Mapping[str, Record]) -> list[str]:
    """Properties of the models before calibration."""
    lines = [
        _line(["model", "trained on", "accuracy", "mean confidence", *(f"CE, {_name(event)}" for event in EVENTS)]),
        _line(["---"] * (len(EVENTS) + 4)),
    ]
    for name, fact in facts.items():
        errors = [f"{1e3 * fact['errors'][event]:.1f}" for event in EVENTS]
        shares = [f"{fact['accuracy']:.3f}", f"{fact['confidence']:.3f}"]
        lines.append(_line([name, f"{TRAINING_ROWS[name]:,}", *shares, *errors]))
    return lines


def calibrators_table(records: Sequence[Record]) -> list[str]:
    """True calibration error after each calibrator, mean over n and seeds."""
    lines = [_line(["calibrator", *map(_name, EVENTS)]), _line(["---"] * (len(EVENTS) + 1))]
    for calibrator in CALIBRATORS:
        means = []
        for event in EVENTS:
            kept = [r for r in records if r["calibrator"] == calibrator and r["event"] == event]
            means.append(f"{1e3 * fmean(r['ce'][TRUTHS[0]] for r in kept):.2f}")
        lines.append(_line([calibrator, *means]))
    return lines


def page(records: Sequence[Record], facts: Mapping[str, Record]) -> str:
    """The whole page."""
    runs = len(records) // len(EVALUATORS)
    return f"""# Evaluators against a nearly known true map

Generated by `make pseudo-real`.
This is the experiment of Kangsepp, Valk & Kull (2022) on pseudo-real data (their appendix D.2).

**The data are simulated**: {CLASSES} classes that are mixtures of Gaussians, with fixed seeds, instead of the paper's
images (CIFAR-5m). The models are real classifiers, trained on few rows. Their calibration errors (CE), in thousandths:

{_block(models_table(facts))}

Six calibrators are fitted to {CALIBRATION_ROWS:,} further rows. Their outputs are evaluated on 1,000, 3,000 and 10,000
other rows, {SEEDS} times each, using no row twice: {runs:,} runs of every evaluator. The true map c* of each output is
an isotonic regression on {TRUTH_ROWS:,} held-out rows that are used for nothing else.

All errors are in thousandths; the best of each table row is bold. `identity` uses the predictions unchanged, as the
baseline that an evaluator must beat. Isotonic calibration predicts exact zeros and ones, which a Platt curve on the
logit fits badly, so every table has a row without it.

True calibration error after each calibrator (mean over models, sizes and seeds):

{_block(calibrators_table(records))}

## Distance to the true map

Mean |c_hat - c*| over {DISTANCE_ROWS:,} of the million rows. The map of binned evaluators has slope 1 within each bin.

{_block(table(records, distance, min, 2))}

## Error of the calibration error

Mean |ECE - CE|, with CE = mean |p - c*(p)| on the evaluated rows. ECE is the mean |c_hat(p) - p| of a curve, or the
debiased ECE of bins.

{_block(table(records, error, min, 2))}

Bias, the mean of ECE - CE:

{_block(table(records, bias, None, 2))}

## Ranking of the calibrators

Spearman's correlation of ECE and CE over the six calibrators (mean over models, events, sizes and seeds). The largest
value is bold.

{_block(table(records, rank_correlation, max, 3))}

## Other estimates of the true map

Means over all runs, with c* from isotonic regression, from {TRUE_BINS} equal-mass bins with a constant value per bin,
and from the same bins with slope 1 within each bin:

{_block(truths_table(records))}
"""


def _block(lines: Sequence[str]) -> str:
    return "\n".join(lines)
