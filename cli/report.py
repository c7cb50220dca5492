"""``calibrant report``: one HTML file that tells how well a file's predictions are calibrated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.asked import SEED, Evaluate, Reduction, Seed
from cli.bars import working
from cli.engine import engine_of, read_map
from cli.exits import told
from cli.output import STANDARD, Out, opened, say
from cli.rows import (
    Columns,
    File,
    Group,
    Label,
    MapLabel,
    Prediction,
    ScaleName,
    Weight,
    asked_of,
    judged_as,
    name_of,
    read_rows,
)
from cli.server_url import Server
from cli.typed import applying, command_line, loading

if TYPE_CHECKING:
    from cli.engine import Engine
    from reports.subject import Subject
    from tabular.sheet import Sheet

MapOf = Annotated[
    str | None,
    typer.Option(
        "--map",
        help="Map to tell of before and after: a file with its document, or with a server its id, name, name:3 or "
        "name@alias.",
    ),
]


def report(
    context: typer.Context,
    file: File,
    label: Label = None,
    prediction: Prediction = None,
    group: Group = None,
    weight: Weight = None,
    scale: ScaleName = "probability",
    map_label: MapLabel = None,
    reduction: Reduction = None,
    seed: Seed = SEED,
    map_of: MapOf = None,
    out: Out = STANDARD,
    server: Server = None,
) -> None:
    """Write a full report as one HTML file: the verdict in words, the diagrams, the measures and what they mean."""
    with engine_of(server) as engine:
        applied = None if map_of is None else read_map(map_of, server)
        columns = Columns(prediction, label, weight, group, scale, map_label)
        rows = judged_as(read_rows(file, columns), reduction)
        found, options = _measured(engine, rows, reduction, seed, applied)
    with told():
        about = _about(rows, file, options, map_of)
        made = replace(
            about,
            command=command_line(context),
            loading=loading(file, asked_of(columns)),
            applying=applying(map_of, applied),
        )
        with working("drawing"):
            page = _page(found, made)
        with opened(out) as written:
            written.write(page)
        if out != STANDARD:
            say(f"wrote {out}")


def _measured(
    engine: Engine, rows: Sheet, reduction: str | None, seed: int, applied: str | dict[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The report, with that of the groups where there are any, and the options that made it."""
    from reports.panel import by_group, full, joined

    n_classes = None if rows.predictions.ndim == 1 else rows.predictions.shape[1]
    options = full(len(rows), n_classes, reduction, seed=seed)
    found = engine.evaluate(replace(rows, groups=None), Evaluate(reduction=reduction, map=applied, **options))
    grouped = None if rows.groups is None else by_group(reduction, n_classes, seed=seed)
    if grouped is not None:
        found = joined(found, engine.evaluate(rows, Evaluate(reduction=reduction, map=applied, **grouped)))
    with working("comparing maps"):
        found |= _beside(rows, reduction, seed, recommended=applied is None)
    return found, options if reduction is None else {**options, "reduction": reduction}


def _beside(rows: Sheet, reduction: str | None, seed: int, *, recommended: bool) -> dict[str, Any]:
    """The groups' diagrams and the map to fit; they are found here, whoever measures: that takes about a second."""
    from calibrant.batch import read_batch
    from reports.multiples import group_diagrams
    from reports.recommendation import recommend

    batch = read_batch(rows.predictions, rows.labels, rows.weights, scale=rows.scale)
    drawn = None if rows.groups is None else group_diagrams(batch, rows.groups, reduction)
    found = {} if drawn is None else {"group_diagrams": drawn}
    return found | ({"recommendation": recommend(batch, reduction, seed=seed).to_document()} if recommended else {})


def _page(found: dict[str, Any], about: Subject) -> bytes:
    from reports.html import standalone

    return standalone(found, about).encode()


def _about(rows: Sheet, file: Path, options: dict[str, Any], map_of: str | None) -> Subject:
    from datetime import UTC, datetime

    from calibrant import __version__
    from reports.subject import Subject

    return Subject(
        name=name_of(file) if file == STANDARD else file.name,
        version=__version__,
        when=datetime.now(UTC),
        said=rows.said,
        options=options,
        classes=rows.classes,
        weights=None if rows.weights is None else "frequency",
        map=map_of,
        scale=rows.scale,
    )
