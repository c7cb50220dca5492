"""List, show, export, import, delete and alias the maps on a server."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli.engine import read_document
from calibrant.cli.exits import errors_in_a_line
from calibrant.cli.options import AllowShapeChange
from calibrant.cli.output import STANDARD, Json, Out, facts_of, plain, say, table, write_json, write_lines
from calibrant.cli.server_url import NeededServer, client_of

if TYPE_CHECKING:
    from calibrant.client.answers import ListedMap, MapRecord

maps = typer.Typer(no_args_is_help=True)

Ref = Annotated[str, typer.Argument(help="Id, name (newest version), name:3 or name@alias.")]
Exact = Annotated[str, typer.Argument(help="Id or name:3. A name or an alias alone is not accepted.")]
_WHOSE = "maps"


@maps.command(name="list")
def list_maps(
    name: Annotated[str | None, typer.Option("--name", help="Only maps with this name.")] = None,
    alias: Annotated[str | None, typer.Option("--alias", help="Only maps with this alias.")] = None,
    method: Annotated[str | None, typer.Option("--method", help="Only maps of this method.")] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="Only maps with this tag, name or name=value; repeatable.")
    ] = None,
    reduction: Annotated[str | None, typer.Option("--reduction", help="Only maps of this reduction.")] = None,
    scale: Annotated[
        str | None, typer.Option("--scale", help="Only maps of predictions on this scale: probability or logit.")
    ] = None,
    classes: Annotated[int | None, typer.Option("--classes", help="Only maps of this number of classes.")] = None,
    created_by: Annotated[
        str | None, typer.Option("--created-by", help="Only maps that the API key with this name created.")
    ] = None,
    as_json: Json = False,
    server: NeededServer = None,
) -> None:
    """List the maps, newest first."""
    filters: dict[str, Any] = {"name": name, "alias": alias, "method": method, "tags": tag or (), "scale": scale}
    filters |= {"reduction": reduction, "n_classes": classes, "created_by": created_by}
    with client_of(server, _WHOSE) as client:
        listed_maps = list(client.maps(**filters))
    if as_json:
        write_json([listed.to_dict() for listed in listed_maps])
        return
    shown = table("map", "id", "method", "reduction", "classes", "rows", "aliases", "created", left=5)
    for listed in listed_maps:
        shown.add_row(
            _called(listed),
            listed.id,
            plain(listed.method),
            listed.reduction or "-",
            _classes(listed) or "-",
            "-" if listed.n is None else f"{listed.n:,}",
            ", ".join(listed.aliases),
            listed.created_at,
        )
    write_lines(shown)


@maps.command()
def show(ref: Ref, as_json: Json = False, server: NeededServer = None) -> None:
    """Show a map; with --json, its whole record."""
    with client_of(server, _WHOSE) as client:
        record = client.map(ref)
    if as_json:
        write_json(record.to_dict())
        return
    write_lines(table("map", _called(record), left=2, rows=_facts(record).items()))


@maps.command()
def export(ref: Ref, out: Out = STANDARD, server: NeededServer = None) -> None:
    """Write a map as JSON. This document alone is enough to apply the map."""
    with client_of(server, _WHOSE) as client:
        document = client.export_map(ref)
    with errors_in_a_line():
        write_json(document, out)


@maps.command(name="import")
def import_map(
    file: Annotated[Path, typer.Argument(help="JSON file of the map; - for standard input.")],
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the map; an existing name gets a new version.")
    ] = None,
    allow_shape_change: AllowShapeChange = False,
    as_json: Json = False,
    server: NeededServer = None,
) -> None:
    """Store a map from its JSON, and print its name and version, or its id."""
    with client_of(server, _WHOSE) as client:
        record = client.import_map(read_document(file), name=name, allow_shape_change=allow_shape_change)
    if as_json:
        write_json(record.to_dict())
    else:
        typer.echo(_called(record))


@maps.command()
def delete(ref: Exact, server: NeededServer = None) -> None:
    """Delete a version of a map. A version with an alias cannot be deleted."""
    with client_of(server, _WHOSE) as client:
        client.delete_map(ref)
    say(f"deleted {ref}")


@maps.command()
def alias(
    name: Annotated[str, typer.Argument(help="Name of the map.")],
    alias: Annotated[str, typer.Argument(help="Alias, such as champion.")],
    version: Annotated[int, typer.Argument(min=1, help="Version that the alias points at.")],
    as_json: Json = False,
    server: NeededServer = None,
) -> None:
    """Point an alias at a version of a map. The change is atomic."""
    with client_of(server, _WHOSE) as client:
        record = client.alias(name, alias, version)
    if as_json:
        write_json(record.to_dict())
    else:
        typer.echo(f"{name}@{alias} {name}:{record.version}")


def _called(listed: ListedMap | MapRecord) -> str:
    """The reference of this version: ``name:version``, or the id of a map without a name."""
    return listed.id if listed.name is None else f"{listed.name}:{listed.version}"


def _classes(listed: ListedMap | MapRecord) -> str:
    """The names of the classes, the first ones if they are many, or the number of classes without names."""
    from calibrant.reports.numbers import class_list

    if listed.class_names:
        return class_list(listed.class_names)
    return "" if listed.n_classes is None else str(listed.n_classes)


#: Fields of a map that are in the head of the table, or said with another field.
_APART = ("format", "name", "version", "class_names", "in_sample")
#: The terms of fields that are not their names.
_TERMS = {"n_classes": "classes", "n": "rows", "created_at": "created", "created_by": "by", "updated_at": "updated"}


def _facts(record: MapRecord) -> dict[str, str]:
    """All fields of the summary of a map that have a value, as text."""
    from calibrant.client.answers import MapSummary

    answer = record.to_dict() | {"n_classes": _classes(record)}
    names = [field.name for field in fields(MapSummary) if field.name not in _APART]
    facts = facts_of({_TERMS.get(name, name.replace("_", " ")): answer[name] for name in names})
    if record.in_sample is not None:
        from calibrant.maps.calibration_map import binned, scored

        before, after, reduction = record.in_sample.before, record.in_sample.after, record.reduction or ""
        titles = {"log-loss": ("log loss", scored), "brier": ("brier", scored), "ece": ("plain ece", binned)}
        for name, (title, of) in titles.items():
            change = f"{before[name]:.4f} -> {after[name]:.4f}"
            facts[f"{title}, in-sample"] = f"{change} (of {of(reduction)})"
    return facts
