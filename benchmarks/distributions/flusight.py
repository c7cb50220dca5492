"""Recalibration of influenza forecasts, on random halves and in the order of time.

``python -m benchmarks.distributions.flusight FOLDER``: it holds ``flusight_MODEL.npz`` with ``quantiles (n, 23)`` at
``levels (23,)``, ``observed``, ``reference_date``, ``target_date`` and ``horizon``. Writes ``results/flusight.json``
and docs/benchmarks/flusight.md; without a folder, only the page, from the results.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import calibrant
from benchmarks.checks import NotChecked, PagePart, Rendering, StoredRecord
from benchmarks.data_sets import verified
from benchmarks.records import load, publish, save

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "flusight.md"
RESULTS = Path(__file__).parent / "results" / "flusight.json"
MODELS = ("FluSight-baseline", "UMass-flusion")
SEEDS = range(5)
#: Reference dates of the two seasons are before and from this day on.
SEASON = np.datetime64("2024-08-01")
#: An outcome is known when its week has been over for this many days.
DELAY = 7
#: Settings that are tried on the first season: half-lives in days, shifts, and powers of the width.
GRID = tuple(product((1.75, 3.5, 7.0, 14.0), (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8), (0.5, 0.75, 1.0)))
#: The chosen setting covers at least this share in the first season, for both models.
LEAST_COVERAGE = 0.9
COUNTS: Any = (0.0, None)

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ModelForecasts:
    """Forecasts of one model."""

    quantiles: Array
    levels: Array
    observed: Array
    made: Array
    known: Array
    horizon: Array

    @classmethod
    def read(cls, path: Path) -> ModelForecasts:
        """Read a file."""
        with np.load(verified(path)) as file:
            reference_dates, target = (file[name].astype("datetime64[D]") for name in ("reference_date", "target_date"))
            quantiles, observed = (file[name].astype(np.float64) for name in ("quantiles", "observed"))
            return cls(quantiles, file["levels"], observed, reference_dates, target + DELAY, file["horizon"])

    def take(self, rows: Array) -> ModelForecasts:
        """The chosen rows."""
        times = self.made[rows], self.known[rows]
        return ModelForecasts(self.quantiles[rows], self.levels, self.observed[rows], *times, self.horizon[rows])


def wis(q: Array, levels: Array, y: Array) -> float:
    """The mean weighted interval score."""
    error = y[:, None] - q
    return float(2.0 * np.maximum(levels * error, (levels - 1.0) * error).mean())


def figures(q: Array, rows: ModelForecasts) -> dict[str, float]:
    """WIS, WIS of ln(1 + x), and the coverage of the 90 % and 50 % intervals."""
    y, levels = rows.observed, rows.levels.tolist()
    inside = {
        f"coverage_{name}": float(np.mean((y >= q[:, levels.index(low)]) & (y <= q[:, levels.index(high)])))
        for name, low, high in (("90", 0.05, 0.95), ("50", 0.25, 0.75))
    }
    return {"wis": wis(q, rows.levels, y), "log_wis": wis(np.log1p(q), rows.levels, np.log1p(y)), **inside}


def half(rows: ModelForecasts, seed: int) -> dict[str, Any]:
    """Figures of one half of the rows before and after the average that was fitted to the other."""
    training, held_out = np.array_split(np.random.default_rng(seed).permutation(len(rows.observed)), 2)
    first, other = rows.take(training), rows.take(held_out)
    fitted = calibrant.fit_distribution(
        "averaged",
        first.observed,
        quantiles=first.quantiles,
        levels=first.levels,
        by=first.horizon,
        scale="log1p",
        support=COUNTS,
    )
    after = fitted.apply(quantiles=other.quantiles, levels=other.levels, by=other.horizon).quantiles
    return {"before": figures(other.quantiles, other), "after": figures(after, other)}


def in_order(rows: ModelForecasts, half_life: float, shift: float, widen: float) -> Array:
    """The quantiles, recalibrated in the order of time; narrowing has half the power of widening."""
    recalibrated = calibrant.recalibrate_in_order(
        rows.observed,
        rows.made,
        rows.known,
        half_life=half_life,
        horizon=rows.horizon,
        scale="log1p",
        support=COUNTS,
        shift=shift,
        widen=widen,
        narrow=widen / 2.0,
        quantiles=rows.quantiles,
        levels=rows.levels,
    )
    return np.asarray(recalibrated.forecasts.quantiles)


def lost(before: dict[str, float], after: dict[str, float]) -> float:
    """The sum of the ratios of both scores."""
    return after["wis"] / before["wis"] + after["log_wis"] / before["log_wis"]


def chosen(first: dict[str, ModelForecasts]) -> tuple[float, float, float]:
    """The setting with the lowest mean ratio of scores in the first season, of those that cover enough."""
    scores = {}
    for setting in GRID:
        pairs = [(figures(r.quantiles, r), figures(in_order(r, *setting), r)) for r in first.values()]
        if min(after["coverage_90"] for _, after in pairs) >= LEAST_COVERAGE:
            scores[setting] = sum(lost(*pair) for pair in pairs)
    return min(scores, key=lambda setting: scores[setting])


def one_fit(first: ModelForecasts, second: ModelForecasts) -> Array:
    """The quantiles of the second season after one fit to the first."""
    fitted = calibrant.fit_distribution(
        "averaged",
        first.observed,
        quantiles=first.quantiles,
        levels=first.levels,
        by=first.horizon,
        clusters=first.made,
        scale="log1p",
        support=COUNTS,
    )
    return np.asarray(fitted.apply(quantiles=second.quantiles, levels=second.levels, by=second.horizon).quantiles)


def measured(folder: Path) -> dict[str, Any]:
    """All figures."""
    data = {model: ModelForecasts.read(folder / f"flusight_{model}.npz") for model in MODELS}
    first = {model: rows.take(np.flatnonzero(rows.made < SEASON)) for model, rows in data.items()}
    second = {model: rows.take(np.flatnonzero(rows.made >= SEASON)) for model, rows in data.items()}
    setting = chosen(first)
    wider = [(setting[0], setting[1], widen) for widen in (1.0, 1.25) if widen > setting[2]]
    return {
        "setting": setting,
        "halves": {model: [half(rows, seed) for seed in SEEDS] for model, rows in data.items()},
        "seasons": {
            model: {
                "first": figures(first[model].quantiles, first[model]),
                "first_in_order": figures(in_order(first[model], *setting), first[model]),
                "before": figures(second[model].quantiles, second[model]),
                "in_order": figures(in_order(second[model], *setting), second[model]),
                "one_fit": figures(one_fit(first[model], second[model]), second[model]),
                "wider": [[w[2], figures(in_order(second[model], *w), second[model])] for w in wider],
            }
            for model in MODELS
        },
    }


def lower(before: dict[str, float], after: dict[str, float], score: str) -> str:
    """How much lower a score is."""
    return f"{1.0 - after[score] / before[score]:+.1%}"


def cells(before: dict[str, float], after: dict[str, float]) -> str:
    """A row of figures."""
    scores = f"{after['wis']:.1f} | {lower(before, after, 'wis')} | {lower(before, after, 'log_wis')}"
    return f"{scores} | {after['coverage_90']:.1%} | {after['coverage_50']:.1%} |"


TITLES = ("model", "forecasts", "WIS", "WIS lower by", "log-scale WIS lower by", "90 % covers", "50 % covers")
HEAD = f"| {' | '.join(TITLES)} |\n|{'---|' * len(TITLES)}"


def page(results: dict[str, Any]) -> str:
    """The page."""
    life, shift, widen = results["setting"]
    halves = []
    for model, runs in results["halves"].items():
        for name in ("before", "after"):
            mean = {key: float(np.mean([run[name][key] for run in runs])) for key in runs[0][name]}
            start = {key: float(np.mean([run["before"][key] for run in runs])) for key in runs[0][name]}
            halves.append(f"| {model} | {'as given' if name == 'before' else '`averaged`'} | {cells(start, mean)}")
        least = min(1.0 - run["after"]["wis"] / run["before"]["wis"] for run in runs)
        reached = [run["after"]["coverage_90"] for run in runs]
        halves.append(f"| {model} | worst of five | | {least:+.1%} | | {min(reached):.1%} to {max(reached):.1%} | |")
    seasons, first = [], []
    for model, season in results["seasons"].items():
        before = season["before"]
        seasons += [
            f"| {model} | as given | {cells(before, before)}",
            f"| {model} | `recalibrate_in_order` | {cells(before, season['in_order'])}",
            *(f"| {model} | the same, `widen` {power:g} | {cells(before, after)}" for power, after in season["wider"]),
            f"| {model} | one `averaged` map of 2023-24 | {cells(before, season['one_fit'])}",
        ]
        first += [
            f"| {model} | as given | {cells(season['first'], season['first'])}",
            f"| {model} | `recalibrate_in_order` | {cells(season['first'], season['first_in_order'])}",
        ]
    return "\n".join(
        [
            "# Influenza forecasts",
            "",
            "Generated by `make flusight DATA=folder` from weekly forecasts of influenza hospital admissions in US",
            "states (cdcepi/FluSight-forecast-hub, MIT), which are not part of the repository: 23 quantiles, 0 to 3",
            "weeks ahead. Lower scores are better; a positive change is an improvement.",
            "",
            "## Random halves",
            "",
            "`averaged` by horizon on the scale log1p, fitted to one half and evaluated on the other, mean of five",
            "seeds. A state and week can be in both halves, so this is only a check.",
            "",
            HEAD,
            *halves,
            "",
            "## The season 2024-25 in the order of time",
            "",
            "Each week, forecasts are recalibrated from outcomes that were known when they were made (the week had",
            f"been over for {DELAY} days; later revisions are ignored). The settings have the lowest sum of relative",
            f"scores of 2023-24 among {len(GRID)} whose 90 % intervals cover at least {LEAST_COVERAGE:.0%} there for",
            f"both models: a half-life of {life:g} days, `shift` {shift:g}, `widen` {widen:g}, and `narrow` half of",
            "that. Larger powers cover more; the table has their price. One map of 2023-24, with the rows of a week in",
            "the same fold, leaves the forecasts of UMass-flusion as they are.",
            "",
            HEAD,
            *seasons,
            "",
            "The season on which the settings were chosen:",
            "",
            HEAD,
            *first,
            "",
        ]
    )


def checks(data: Path | None = None) -> list[PagePart]:
    """Return the page of the stored results, and with the files everything in one part."""
    stored = load(RESULTS, "make flusight DATA=folder", older=True)
    parts: list[PagePart] = [Rendering("the page of the stored results", partial(page, stored))]
    if data is None:
        raise NotChecked("it needs DATA=folder")
    return [*parts, StoredRecord("all results", stored, partial(measured, data), tolerance=1e-6)]


def main() -> None:
    """Measure, if a folder is given, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    folder = parser.parse_args().folder
    if folder is not None:
        save(RESULTS, measured(folder))
    text = page(load(RESULTS, "make flusight DATA=folder"))
    publish(PAGE, text)
    print(text)


if __name__ == "__main__":
    main()
