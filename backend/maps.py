"""Stored maps: import, description, deletion, and aliases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backend.kinds import kind_of
from backend.requester import Requester
from backend.store.clock import stamp
from backend.store.registry.maps import is_name, read_reference
from calibrant.core.errors import InvalidDocument
from calibrant.io.errors import InvalidField
from calibrant.kinds import is_of_distributions, load_map, try_map
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.sets.set_map import SetMap
from schemas.aliases import AliasOptions, AliasRecord
from schemas.base import ID_PREFIX, Document, merge_patch
from schemas.maps import MAX_TAGS, ImportOptions, MapChanges, MapRecord

#: Raises an error if the current state (None if absent) is not what the caller expects.
Require = Callable[[Document | None], None]

#: Maximum length of a method name in an imported document.
_LONGEST_METHOD = 64
#: The most classes of an imported map.
_MOST_CLASSES = 100_000


def import_map(requester: Requester, options: ImportOptions) -> MapRecord:
    """Validate a document and store its map; raises ``InvalidDocument`` with the invalid place."""
    requester.store.charges.check_maps()
    map_id = requester.new_id("map")
    try:
        fitted = _read(options.document)
        kind = kind_of("regression" if is_of_distributions(options.document) else "classification")
        record = kind.imported(map_id, options, fitted, requester.who)
    except InvalidDocument as error:
        raise error.under("/document") from None
    return requester.store.maps.put(record, allow_shape_change=options.allow_shape_change)


def change_map(requester: Requester, ref: str, changes: MapChanges, require: Require) -> MapRecord:
    """Merge changes into what callers say about a map."""

    def change(record: MapRecord) -> MapRecord:
        require(record)
        fields = changes.model_dump(exclude_unset=True)
        if "tags" in fields:
            fields["tags"] = merge_patch(record.tags, fields["tags"]) or {}
            if len(fields["tags"]) > MAX_TAGS:
                raise InvalidField.at("/tags", f"must be at most {MAX_TAGS} including the existing ones")
        changed = record.model_copy(update=fields)
        return record if changed == record else changed.model_copy(update={"updated_at": stamp()})

    maps = requester.store.maps
    return maps.change(maps.resolve(ref), change)


def delete_map(requester: Requester, ref: str, require: Require) -> None:
    """Delete one version; names and aliases are rejected, because they may now refer to another version."""
    reference = read_reference(ref)
    if reference is not None and not reference.exact:
        raise InvalidField.at("/map", "must be an id or name:version")
    maps = requester.store.maps
    maps.delete(maps.resolve(ref), require)


def point_alias(requester: Requester, name: str, alias: str, options: AliasOptions, require: Require) -> AliasRecord:
    """Point an alias at a version."""
    if not is_name(alias):
        raise InvalidField.at("/alias", f"must match [A-Za-z0-9][A-Za-z0-9._-]{{0,63}} and not begin with {ID_PREFIX}")
    return requester.store.aliases.point(name, alias, options.version, who=requester.who, check=require)


def _read(document: dict[str, Any]) -> Any:
    """The checked map of a document, of either kind."""
    fitted = load_map(document, checked=True)
    if len(fitted.method) > _LONGEST_METHOD:
        raise InvalidDocument.at("/method", f"must have at most {_LONGEST_METHOD} characters")
    if isinstance(fitted, CalibrationMap | SetMap) and (fitted.n_classes or 0) > _MOST_CLASSES:
        raise InvalidDocument.at("/n_classes", f"must be at most {_MOST_CLASSES}")
    try_map(fitted)
    return fitted
