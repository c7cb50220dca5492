"""The registry's calls: lists, aliases, tags, deletion, export and import of stored maps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx
import orjson

from schemas.aliases import Aliases, AliasRecord
from schemas.listing import ListedMap, MapPage
from schemas.maps import MapRecord

#: Maps of a page of a list.
_PAGE = 100


class Registry(ABC):
    """What a client asks of stored maps. Every call raises ``ProblemResponse`` for what the server refuses."""

    _http: httpx.Client

    @staticmethod
    @abstractmethod
    def _check(response: httpx.Response) -> httpx.Response:
        """The response, if it is no problem."""

    def maps(
        self,
        *,
        name: str | None = None,
        method: str | None = None,
        reduction: str | None = None,
        scale: str | None = None,
        alias: str | None = None,
        tags: Sequence[str] = (),
        created_by: str | None = None,
        n_classes: int | None = None,
    ) -> Iterator[ListedMap]:
        """The stored maps that pass every filter, newest first, read page by page as they are asked for.

        ``tags`` are names, or ``name=value``; ``alias`` is one of the maps' own names' aliases, such as ``champion``.
        """
        filters = {"name": name, "method": method, "reduction": reduction, "scale": scale, "alias": alias}
        asked = filters | {"created_by": created_by, "n_classes": n_classes, "limit": _PAGE}
        query: dict[str, Any] = {k: v for k, v in asked.items() if v is not None} | {"tag": list(tags)}
        while True:
            page = MapPage.model_validate_json(self._send("GET", "/maps", query=query).content)
            yield from page.items
            if page.next is None:
                return
            query["cursor"] = page.next

    def describe(
        self, ref: str, *, tags: Mapping[str, str | None] | None = None, description: str | None = None
    ) -> MapRecord:
        """Set tags of a map, those of value None being removed, and its description; the rest stays as it is."""
        changes: dict[str, Any] = {} if tags is None else {"tags": dict(tags)}
        if description is not None:
            changes["description"] = description
        return MapRecord.model_validate_json(self._send("PATCH", f"/maps/{ref}", changes).content)

    def delete_map(self, ref: str) -> None:
        """Forget a map, named by id or ``name:version``, at which no alias points."""
        self._send("DELETE", f"/maps/{ref}")

    def alias(self, name: str, alias: str, version: int, *, new: bool = False) -> AliasRecord:
        """Point an alias at a version of a name; with ``new`` only where there is no such alias yet."""
        headers = {"If-None-Match": "*"} if new else {}
        response = self._send("PUT", f"/maps/{name}/aliases/{alias}", {"version": version}, headers=headers)
        return AliasRecord.model_validate_json(response.content)

    def aliases(self, name: str) -> list[AliasRecord]:
        """The aliases of a name, and where each points."""
        return Aliases.model_validate_json(self._send("GET", f"/maps/{name}/aliases").content).aliases

    def delete_alias(self, name: str, alias: str) -> None:
        """Forget an alias; its version stays."""
        self._send("DELETE", f"/maps/{name}/aliases/{alias}")

    def export_map(self, ref: str) -> dict[str, Any]:
        """The document of a map, from whose numbers alone it can be applied: ``calibrant.load`` reads it."""
        document: dict[str, Any] = orjson.loads(self._send("GET", f"/maps/{ref}/document").content)
        return document

    def import_map(
        self,
        document: Mapping[str, Any],
        *,
        name: str | None = None,
        tags: Mapping[str, str] | None = None,
        description: str | None = None,
    ) -> MapRecord:
        """Store a map from its document."""
        asked: dict[str, Any] = {"document": dict(document), "tags": dict(tags or {})}
        asked |= {k: v for k, v in {"name": name, "description": description}.items() if v is not None}
        return MapRecord.model_validate_json(self._send("POST", "/maps/import", asked).content)

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        content = None if body is None else orjson.dumps(body)
        told = dict(headers or {}) | ({} if body is None else {"Content-Type": "application/json"})
        return self._check(self._http.request(method, path, content=content, params=query, headers=told))
