"""What the pages of the registry show: maps, the versions of a name, and where its aliases point."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from schemas.aliases import AliasRecord
from schemas.listing import ListedMap, MapPage, MapQuery
from schemas.maps import MapSummary
from service.context import Context
from service.formats.options import read_options
from service.formats.payload import Payload
from service.headers import Conditions, EntityTag, entity_tag_of

#: The alias that one button moves: of the version that is used.
CHAMPION = "champion"
#: Versions that stand side by side.
_SIDE_BY_SIDE = 12
#: The filters of the list, as its form has them.
FILTERS = ("name", "method", "alias", "tag", "reduction", "created_by")


@dataclass(frozen=True)
class Pointer:
    """An alias, and what tells that nobody has moved it since it was shown."""

    record: AliasRecord
    seen: str


@dataclass(frozen=True)
class Versions:
    """A name: its aliases, and a page of its versions, newest first."""

    name: str
    aliases: tuple[Pointer, ...]
    page: MapPage

    def seen(self, alias: str) -> str:
        """What a form that moves an alias says of it; empty for one that points nowhere."""
        return next((pointer.seen for pointer in self.aliases if pointer.record.alias == alias), "")

    @property
    def numbers(self) -> list[int]:
        """The versions of the page."""
        return [listed.version for listed in self.page.items if listed.version is not None]


def read_filters(query: Mapping[str, str]) -> MapQuery:
    """The list that a form of filters asks for; a field that is left empty is no filter. Raises ``InvalidField``."""
    asked: dict[str, object] = {name: value for name, value in query.items() if value and name in (*FILTERS, "cursor")}
    if "tag" in asked:
        asked["tag"] = [asked["tag"]]
    return read_options(Payload({}, {**asked, "limit": "20"}, from_query=True), MapQuery)


def read_versions(here: Context, name: str, cursor: str | None) -> Versions:
    """A name with its versions; raises ``UnknownMap``, and ``InvalidCursor``."""
    aliases = here.store.aliases.all(name)
    query = {"name": name, "limit": str(_SIDE_BY_SIDE)} | ({} if cursor is None else {"cursor": cursor})
    page = here.store.listing.page(read_options(Payload({}, query, from_query=True), MapQuery))
    return Versions(name, tuple(Pointer(record, seen_of(record)) for record in aliases), page)


def seen_of(record: AliasRecord) -> str:
    """The tag of an alias as it stands, without its quotes."""
    return (entity_tag_of(record) or "").strip('"')


def as_seen(seen: str) -> Conditions:
    """That an alias is still as it was shown; or, where it was not, that there still is none."""
    return Conditions(match=(EntityTag(False, seen),)) if seen else Conditions(none_match="*")


def reference_of(summary: MapSummary) -> str:
    """How a map is named to people: its name and version, or its id."""
    return summary.id if summary.name is None else f"{summary.name}:{summary.version}"


def moved_words(before: AliasRecord | None, after: AliasRecord) -> str:
    """What the move of an alias changed."""
    if before is None:
        return f"{after.alias} is new, and points at version {after.version} of {after.name}."
    if before.version == after.version:
        return f"{after.alias} already pointed at version {after.version} of {after.name}; nothing changed."
    return f"{after.alias} of {after.name} now points at version {after.version}; it pointed at {before.version}."


def choices_of(maps: Iterable[ListedMap]) -> list[tuple[str, ListedMap]]:
    """Maps to choose from, each with its reference."""
    return [(reference_of(listed), listed) for listed in maps]
