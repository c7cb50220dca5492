"""Options of several commands, and how JSON in options is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from calibrant.decisions.thresholds import ThresholdCriterion

Measure = Annotated[
    list[str] | None,
    typer.Option(
        "--measure",
        help='Measure: a name, such as ks, or a JSON object, such as {"name": "ece", "n_bins": 20, "as": "ece-20"}; '
        "repeatable. Default: ece, squared-ece, log-loss, brier, auroc and smooth-test; under canonical brier, "
        "log-loss and ks-by-predicted-class.",
    ),
]
Interval = Annotated[
    float | None,
    typer.Option(
        "--interval",
        help="Level of the confidence intervals, such as 0.9. Default: 0.95 for the default measures, none for others.",
    ),
]
Resamples = Annotated[int, typer.Option("--resamples", help="Number of bootstrap resamples for the intervals.")]
AllowShapeChange = Annotated[
    bool,
    typer.Option(
        "--allow-shape-change",
        help="Allow the shape of the output to differ from that of the newest map with this name.",
    ),
]

After = Annotated[
    str | None, typer.Option("--after", help="Only those created at this time or later, such as 2026-01-31T00:00:00Z.")
]
Before = Annotated[str | None, typer.Option("--before", help="Only those created before this time.")]


def map_option(effect: str = "") -> Any:
    """Return the option --map of a command; ``effect`` is what the map changes, as a clause after a semicolon."""
    start = f"Calibration map{f'; {effect}. A' if effect else ': a'}"
    return typer.Option("--map", help=f"{start} JSON file, or with --server an id, name, name:3 or name@alias.")


Seed = Annotated[int, typer.Option("--seed", help="Random seed for resamples, tests and folds.")]
SEED, RESAMPLES = 0, 1000


CostsOfErrors = Annotated[
    str | None,
    typer.Option("--costs", help="Costs of a false positive and of a false negative, such as 1,5."),
]
Capacity = Annotated[
    float | None,
    typer.Option("--capacity", help="The most positive decisions: a number of rows from 2, or a fraction below 1."),
]
Precision = Annotated[
    float | None,
    typer.Option("--precision", help="Lower bound of the precision, guaranteed at the level of intervals."),
]
Recall = Annotated[
    float | None, typer.Option("--recall", help="Lower bound of the recall, guaranteed at the level of intervals.")
]


def read_flags(
    costs: str | None, capacity: float | None, precision: float | None, recall: float | None
) -> ThresholdCriterion | None:
    """Return the criterion of a threshold, before a long file is read; None without one."""
    from calibrant.decisions.thresholds import criterion_in

    others = {"capacity": capacity, "precision": precision, "recall": recall}
    return criterion_in({"costs": read_numbers(costs, "--costs"), **others})


def read_numbers(text: str | None, flag: str) -> list[float] | None:
    """Read numbers that are separated by commas; None without a text."""
    try:
        return None if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter("must be numbers, separated by commas", param_hint=flag) from None


def read_json(text: str | bytes) -> Any:
    """Parse strict JSON; raises ``json.JSONDecodeError``, also for NaN and for a duplicate key."""
    import orjson

    document = orjson.loads(text)  # rejects NaN
    json.loads(text, object_pairs_hook=_each_once)
    return document


def _each_once(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise json.JSONDecodeError("an object has a duplicate key", "", 0)


def read_measures(texts: Sequence[str] | None) -> list[str | dict[str, Any]] | None:
    """Parse ``--measure``: names and JSON objects."""
    for text in texts or ():
        names = text.replace(",", " ").split()
        if len(names) > 1 and not text.lstrip().startswith("{"):
            repeated = " ".join(f"--measure {name}" for name in names)
            raise typer.BadParameter(f"takes one measure; repeat it: {repeated}", param_hint="--measure")
    return [read_request(text) for text in texts] if texts else None


def read_request(text: str, flag: str = "--measure") -> str | dict[str, Any]:
    """Parse an option: a name, or a JSON object with a name and options."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        requested: dict[str, Any] = read_json(text)
    except json.JSONDecodeError as error:
        place = f"at character {error.pos + 1}"
        raise typer.BadParameter(f"is not valid JSON: {error.msg}, {place}", param_hint=flag) from None
    return requested


def read_options(pairs: Sequence[str] | None) -> dict[str, Any]:
    """Parse ``name=value`` pairs; a value that is not JSON is a string."""
    options: dict[str, Any] = {}
    for pair in pairs or ():
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter("must be name=value, such as folds=5", param_hint="--option")
        if name in options:
            raise typer.BadParameter(f"sets {name} twice", param_hint="--option")
        try:
            options[name] = read_json(text)
        except json.JSONDecodeError:
            options[name] = text
    return options
