"""Judge decisions at thresholds, or find the threshold that costs, a capacity, or a bound determine.

With --costs, --capacity, --precision or --recall, prints the threshold and what the decisions are like. Otherwise
prints the decision curve: the net benefit of the model at each threshold, and of positive decisions for all rows. If
--prediction is given several times, each column is that of a model, and the curves of pairs are compared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from calibrant.cli.engine import engine_of
from calibrant.cli.options import (
    SEED,
    Capacity,
    CostsOfErrors,
    Precision,
    Recall,
    Seed,
    read_flags,
    read_numbers,
)
from calibrant.cli.output import Json, table, write_json, write_lines
from calibrant.cli.rows import Columns, File, read_model_rows, read_rows, reads_a_file, reduction_of, refuse_undecided
from calibrant.cli.server_url import Server
from calibrant.core.results import interval_of, text_of

_LEVEL = 0.95


@reads_a_file("features", "known", "groups", "times", "by", "level", "levels")
def decide(
    file: File,
    columns: Columns,
    costs: CostsOfErrors = None,
    capacity: Capacity = None,
    precision: Precision = None,
    recall: Recall = None,
    thresholds: Annotated[
        str | None,
        typer.Option("--thresholds", help="Thresholds of the decision curve, such as 0.05,0.1. Default: 0.01 to 0.99."),
    ] = None,
    interval: Annotated[
        float, typer.Option("--interval", help="Level of the intervals, and of the guarantee of a bound.")
    ] = _LEVEL,
    seed: Seed = SEED,
    as_json: Json = False,
    server: Server = None,
) -> None:
    at = read_numbers(thresholds, "--thresholds")
    several, reduction = len(columns["predictions"] or ()) > 1, columns["reduction"]
    with engine_of(server) as engine:
        criterion = read_flags(costs, capacity, precision, recall)
        if criterion is not None and at is not None:
            raise typer.BadParameter("is of a decision curve, without a criterion", param_hint="--thresholds")
        if criterion is not None and several:
            raise typer.BadParameter("must be one column: a threshold is for one model", param_hint="--prediction")
        if criterion is None:
            from calibrant.decisions.decision_curve import read_thresholds

            read_thresholds(at)
        models = read_model_rows(file, columns).sheets if several else None
        rows = read_rows(file, columns) if models is None else next(iter(models.values()))
        refuse_undecided(rows, reduction, file, columns)
        shared: dict[str, Any] = {"models": models, "reduction": reduction_of(rows, reduction), "interval": interval}
        own: dict[str, Any] = (
            {"thresholds": at} if criterion is None else {criterion.name: criterion.value, "seed": seed}
        )
        name = "decision_curve" if criterion is None else "best_threshold"
        answer = engine.call(name, replace(rows, groups=None), **own, **shared).to_dict()
    if as_json:
        write_json(answer)
    else:
        write_lines(*(_of_curve if criterion is None else _of_threshold)(answer))


def _of_threshold(threshold: dict[str, Any]) -> list[Any]:
    lines = table("of these decisions", "value", "interval", "note")
    for name, measure in threshold["measures"].items():
        lines.add_row(name, text_of(measure["value"]), interval_of(measure["interval"]), measure["problem"])
    return [f"threshold {threshold['threshold']:.10g}, from {threshold['criterion']}; at least this is positive", lines]


def _of_curve(curve: dict[str, Any]) -> list[Any]:
    models, at, over = [*curve["over_treat_all"]], curve["thresholds"], len(curve["over_treat_all"]) == 1
    curves = [("net benefit" if over else name, curve["net_benefit"][name]) for name in models]
    curves += [("interventions avoided", curve["interventions_avoided"][models[0]])] if over else []
    curves += curve["differences"].items()
    lines = table("threshold", *(name for title, _ in curves for name in (title, "interval")), "treat all")
    for i, threshold in enumerate(at):
        cells = ((text_of(c["value"][i]), interval_of((c["low"][i], c["high"][i]))) for _, c in curves)
        treat_all = text_of(curve["net_benefit"]["treat all"]["value"][i])
        lines.add_row(f"{threshold:g}", *(text for pair in cells for text in pair), treat_all)
    return [f"net benefit; prevalence {text_of(curve['prevalence'])}; treating none has net benefit 0", lines]
