"""Aliases: names, such as ``champion``, that point at one version of a map."""

from __future__ import annotations

from calibrant.client.answers import Aliases, AliasRecord
from calibrant.client.requests import get, path_of, read, with_fields
from calibrant.client.retries import Patience, ask
from calibrant.client.steps import JSON, Request, Steps


def alias(patience: Patience, name: str, alias: str, version: int, *, new: bool = False) -> Steps[AliasRecord]:
    """Point an alias at a version of a name; with ``new`` only where there is no such alias yet.

    With ``new``, a connection that breaks after the server has done it leads to ``precondition-failed``: look where it
    points before you take that for somebody else's.

    >>> client.alias("spam", "champion", 1).version
    1
    """
    headers = {"If-None-Match": "*"} if new else {}
    request = with_fields("PUT", path_of("maps", name, "aliases", alias), {"version": version}, headers=headers)
    answer = yield from ask(patience, request)
    return read(AliasRecord, answer)


def aliases(patience: Patience, name: str) -> Steps[list[AliasRecord]]:
    """The aliases of a name, and where each points.

    >>> [alias.alias for alias in client.aliases("spam")]
    ['champion']
    """
    answer = yield from ask(patience, get(path_of("maps", name, "aliases")))
    return read(Aliases, answer).aliases


def delete_alias(patience: Patience, name: str, alias: str) -> Steps[None]:
    """Forget an alias; its version stays.

    >>> client.alias("spam", "challenger", 1).revision
    1
    >>> client.delete_alias("spam", "challenger")
    """
    path = path_of("maps", name, "aliases", alias)
    yield from ask(patience, Request("DELETE", path, headers={"Accept": JSON}, forgets=True))
