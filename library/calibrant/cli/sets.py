"""Prediction sets of a file: fits and applications of set maps, in this process or on a server."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli.engine import Engine, say_map
from calibrant.cli.output import counted, say

if TYPE_CHECKING:
    from calibrant.io.table import Sheet
    from calibrant.sets.prediction_sets import PredictionSets

GROUPS_OF_SETS = "Column of groups, for prediction sets with a threshold for each group."
SeedOfSets = Annotated[
    int | None,
    typer.Option("--seed", help="Seed of the random numbers of a randomised map to prediction sets."),
]


def gives_sets(method: str) -> bool:
    """Whether a method fits maps to prediction sets."""
    from calibrant.core.options import known_name
    from calibrant.sets.fitting import SET_METHODS

    return known_name(method, SET_METHODS, {}) in SET_METHODS


def rows_of_sets(rows: Sheet, *, by_group: bool) -> Sheet:
    """Return the rows, without groups that the map does not use."""
    return rows if by_group else replace(rows, groups=None)


def sets_of(
    engine: Engine, rows: Sheet, applied: Any, document: dict[str, Any], seed: int | None, alpha: float | None = None
) -> PredictionSets:
    """Return the prediction sets of the rows: of a map on the server, or of a document."""
    from calibrant.sets.set_map import load_sets

    rows = rows_of_sets(rows, by_group=document["parameters"].get("groups") is not None)
    if engine.client is not None:
        options: dict[str, Any] = {"scale": rows.scale, "groups": rows.groups, "seed": seed, "alpha": alpha}
        answer = engine.client.calibrate_sets(applied, rows.predictions, **options)
        say_map(answer)
        return answer.sets
    from calibrant.core.batch import read_predictions

    predictions = read_predictions(rows.predictions, scale=rows.scale)
    fitted = load_sets(document)
    return (fitted if alpha is None else fitted.at(alpha)).apply_checked(predictions, groups=rows.groups, seed=seed)


def say_sizes(sets: PredictionSets) -> None:
    """Print how large the sets are."""
    single, empty = int((sets.sizes == 1).sum()), int((sets.sizes == 0).sum())
    say(f"{counted(len(sets))}: mean size {sets.sizes.mean():.4g}, {single:,} of one class, {empty:,} empty")


def say_coverage(sets: PredictionSets, rows: Sheet) -> None:
    """Print how many of the sets have the label of their row."""
    import numpy as np

    covered = sets.members[np.arange(len(sets)), np.asarray(rows.labels, np.int64)].mean()
    say(f"held-out coverage ({counted(len(sets))}): {covered:.4f}, mean size {sets.sizes.mean():.4g}")
