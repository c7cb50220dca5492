"""``python -m benchmarks.by_size FOLDER``: resumes a previous run; writes docs/benchmarks/by-size.md and its pictures.

Figures 5 to 7 of Gruber & Buettner (2022), with their number of repetitions, on the files of a folder whose names
contain ``cifar``: ``.npz`` files of ``labels`` (n,) and ``probs`` or ``logits`` (n, K). The kernel estimate takes time
quadratic in the rows, so it is of one network, with fewer repetitions.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

import calibrant
from benchmarks.compare.data import classifiers, read_file
from benchmarks.laws import possible
from benchmarks.records import append, current, publish, read
from benchmarks.timing import machine
from calibrant.plots.by_size import draw_by_size
from calibrant.plots.canvas import Caption

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks" / "by-size.md"
PICTURES = ROOT / "docs" / "pictures"

#: Measures by reduction; the paper's ECE, TCE and KS are of the top label, and its bins have equal widths and contain
#: their upper ends (D.5).
ECE: Mapping[str, Any] = {"name": "ece", "binning": "equal-width", "n_bins": 15, "closed": "right"}
TCE: Mapping[str, Any] = {**ECE, "name": "tce", "n_bins": 100}
MEASURES: Mapping[str, Sequence[str | Mapping[str, Any]]] = {
    "canonical": ("root-brier",),
    "confidence": (ECE, "ks", TCE),
}
#: The kernel estimate of CE_2 in Figure 7, whose repetitions are a twentieth of the others.
KERNEL, KERNEL_SHARE = "kde-ce", 20
#: The paper's repetitions of the smallest size.
PAPER = 20_000
NAMES = {"root-brier": "root Brier", "ece": "ECE", "ks": "KS", "tce": "TCE", KERNEL: "KDE"}
#: The paper's TS, ETS and DIAG.
MAPS: Mapping[str, str] = {"temperature": "temperature scaling", "ets": "ETS", "iop-diagonal": "DIAG"}
#: Those with pictures, of the first network; "" is without a map.
DRAWN = ("", "temperature")
_LEVEL = 0.95


class SizeFigure(NamedTuple):
    """One figure of one network: the measures, or their improvement by a map of ``MAPS``, plain or squared."""

    file: str
    map: str
    squared: bool

    @property
    def number(self) -> str:
        """The number in the paper."""
        return ("7, second row" if self.map else "7, first row") if self.squared else ("6" if self.map else "5")

    @property
    def what(self) -> str:
        """What the figure shows."""
        return f"improvement by {MAPS[self.map]}" if self.map else "measures"


#: Sizes, repetitions, and by measure the mean, the standard deviation, the value of all rows and, if they are other
#: than those of the figure, the repetitions.
Curves = dict[str, Any]


def run(
    path: Path, figure: SizeFigure, *, repetitions: int | None = None, kernel_repetitions: int | None = None
) -> Curves:
    """Measure random subsets of one half of a file; a map is fitted to the other half.

    ``repetitions`` of the smallest size replace those of the paper. The kernel estimate is left out without
    ``kernel_repetitions``.
    """
    predictions_file = read_file(path)
    training, held_out = np.array_split(np.random.default_rng(0).permutation(len(predictions_file.labels)), 2)
    drawn: dict[str, Any] = {"repetitions": "paper"} if repetitions is None else {"start_repetitions": repetitions}
    fitted = None
    if figure.map:
        fitted = calibrant.fit(
            figure.map,
            predictions_file.values[training],
            predictions_file.labels[training],
            reduction="canonical",
            scale=predictions_file.scale,
        )

    def measured(
        measures: Sequence[str | Mapping[str, Any]], reduction: str, drawn: Mapping[str, Any]
    ) -> calibrant.MeasuresBySize:
        return calibrant.measure_by_size(
            predictions_file.values[held_out],
            predictions_file.labels[held_out],
            measures=measures,
            reduction=reduction,
            squared=figure.squared,
            scale=predictions_file.scale,
            map=fitted,
            **drawn,
        )

    parts = [measured(measures, reduction, drawn) for reduction, measures in MEASURES.items()]
    curves = {NAMES[name]: _stored(curve) for part in parts for name, curve in part.curves.items()}
    if kernel_repetitions is not None:
        kernel = measured([KERNEL], "canonical", {"start_repetitions": kernel_repetitions})
        curves[NAMES[KERNEL]] = _stored(kernel.curves[KERNEL]) | {"repetitions": kernel.repetitions}
    return {"sizes": parts[0].sizes, "repetitions": parts[0].repetitions, "curves": curves}


def _stored(curve: Any) -> dict[str, Any]:
    return {
        "mean": possible(np.array(curve.mean, dtype=np.float64), "mean of a measure").tolist(),
        "standard_deviation": curve.standard_deviation,
        "lost": curve.lost,
        "full": {"value": curve.full.value},
    }


def departures(curves: Curves) -> dict[str, float]:
    """The largest distance of a mean from the value of all rows, in standard errors, over all sizes but the last.

    With few subsets the standard error is itself uncertain, and the ratio has Student's distribution: it becomes the
    normal deviate of the same probability (Wallace 1959). A size with a single subset has no standard error.
    """
    largest = {}
    for name, curve in curves["curves"].items():
        repetitions = np.array(curve.get("repetitions", curves["repetitions"]), dtype=np.float64)
        several = np.flatnonzero(repetitions[:-1] > 1.0)
        mean, deviation = (
            np.array([curve[key][i] for i in several], dtype=np.float64) for key in ("mean", "standard_deviation")
        )
        freedom = repetitions[several] - 1.0
        off = np.abs(mean - curve["full"]["value"]) / (deviation / np.sqrt(repetitions[several]))
        factor = (8.0 * freedom + 1.0) / (8.0 * freedom + 3.0)
        largest[name] = float(np.max(factor * np.sqrt(freedom * np.log1p(off**2 / freedom))))
    return largest


def bound(curves: Curves) -> float:
    """The departure that an unbiased measure exceeds at any size in at most 5 % of cases (Bonferroni)."""
    return float(norm.ppf(1 - (1 - _LEVEL) / 2 / (len(curves["sizes"]) - 1)))


def page(results: Mapping[SizeFigure, Curves], pictures: Mapping[SizeFigure, str]) -> str:
    """The page: the verdict, and the curves of every figure and network."""
    repetitions = next(iter(results.values()))["repetitions"]
    counts = ", ".join(f"{count:,}" for count in repetitions)
    as_published = repetitions[0] == PAPER
    fewer = "" if as_published else f" (the paper has {PAPER:,} of the smallest size)"
    command = "make by-size DATA=folder" + ("" if as_published else f" REPETITIONS={repetitions[0]}")
    parts = [
        f"""# Measures and improvements by test set size

Generated by `{command}` ({machine()}): Figures 5 to 7 of Gruber & Buettner (2022), by
`measure_by_size`. Maps are fitted to a random half of a file: temperature scaling, ETS and DIAG
(`iop-diagonal`), as in the paper. The other half is the test set, from which subsets are drawn:
{counts}, from the smallest to the largest size{fewer}.
ECE has {ECE["n_bins"]} and TCE {TCE["n_bins"]} {ECE["binning"]} bins, closed on the {ECE["closed"]}, as in the paper;
ECE, KS and TCE are of the top label, and the Brier score is of the whole vector. In Figure 7 measures are squared, so
that the root Brier score becomes the Brier score. KDE is `kde-ce`, of the whole vector with the paper's choice of the
bandwidth. It takes time quadratic in the rows, so it is of one network, with a twentieth of the subsets.

The last column has the largest distance of a mean from the value of the whole test set, in standard errors, as the
normal deviate with the probability of Student's t. An unbiased measure exceeds
{bound(next(iter(results.values()))):.2f} at any of the nine sizes in 5 % of cases. The paper's claim is that only the
Brier score's improvement (Figure 7, second row) does not depend on the size: {_verdict(results)}
"""
    ]
    for figure, curves in results.items():
        title = f"{figure.file}, Figure {figure.number}: "
        parts.append(f"## {title}{'squared ' if figure.squared else ''}{figure.what}\n")
        if figure in pictures:
            parts.append(pictures[figure] + "\n")
        heads = [f"{size:,}" for size in curves["sizes"]]
        parts.append(f"| measure | {' | '.join(heads)} | standard errors |\n|---|" + "---|" * (len(heads) + 1))
        far = departures(_named(figure, curves))
        for name, curve in _named(figure, curves)["curves"].items():
            parts.append(f"| {name} | {' | '.join(f'{mean:.4f}' for mean in curve['mean'])} | {far[name]:.1f} |")
        parts.append("")
    return "\n".join(parts)


def _named(figure: SizeFigure, curves: Curves) -> Curves:
    """The curves, with the root Brier score called the Brier score if it is squared."""
    if not figure.squared:
        return curves
    return curves | {"curves": {name.replace("root Brier", "Brier"): curve for name, curve in curves["curves"].items()}}


def _verdict(results: Mapping[SizeFigure, Curves]) -> str:
    squared = {figure: curves for figure, curves in results.items() if figure.map and figure.squared}
    far = {figure: departures(curves) for figure, curves in squared.items()}
    flat = sum(far[figure]["root Brier"] <= bound(curves) for figure, curves in squared.items())
    exceeded = {
        name: [far[figure][name] > bound(curves) for figure, curves in squared.items() if name in far[figure]]
        for name in NAMES.values()
        if name != "root Brier"
    }
    others = ", ".join(f"{name} in {sum(cases)} of {len(cases)}" for name, cases in exceeded.items() if cases)
    of = f"{flat} of {len(squared)} cases (a network and a map)"
    return f"it stays within the bound in {of}. The others exceed it: {others}."


def draw(figure: SizeFigure, curves: Curves) -> str:
    """Draw the curves to docs/pictures, and return the picture's line of the page."""
    about = Caption(curves["sizes"][-1], ", ".join(MEASURES), figure.file)
    kind = {"improvement": bool(figure.map), "squared": figure.squared}
    drawn = draw_by_size(_named(figure, curves), about, form="svg", theme="auto", width=720, **kind)
    name = f"by-size-{'improvement' if figure.map else 'measures'}{'-squared' if figure.squared else ''}.svg"
    (PICTURES / name).write_bytes(drawn.content)
    return f'<img src="../pictures/{name}" width="720" alt="{drawn.alt}">'


def main() -> None:
    """Run the figures without a record, one after the other, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, help="use only the first files of the folder")
    parser.add_argument("--repetitions", type=int, help="subsets of the smallest size, default: as in the paper")
    asked = parser.parse_args()
    record_file = current(f"by-size-{asked.repetitions or 'paper'}", __file__)
    results: dict[SizeFigure, Curves] = {SizeFigure(*figure): curves for figure, curves in read(record_file)}
    paths = [path for path in classifiers(asked.folder) if "cifar" in path.name][: asked.files]
    kinds = list(product(("", *MAPS), (False, True)))
    figures = {SizeFigure(path.stem, *kind): path for path in paths for kind in kinds}
    drawn = [figure for figure in figures if figure.file == paths[0].stem and figure.map in DRAWN]
    for figure, path in figures.items():
        if figure not in results:
            kernel = (asked.repetitions or PAPER) // KERNEL_SHARE if figure.squared and figure in drawn else None
            results[figure] = run(path, figure, repetitions=asked.repetitions, kernel_repetitions=kernel)
            append(record_file, [figure, results[figure]])
            print(*figure, flush=True)
    results = {figure: results[figure] for figure in figures}
    pictures = {figure: draw(figure, results[figure]) for figure in drawn}
    publish(PAGE, page(results, pictures))
    print(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
