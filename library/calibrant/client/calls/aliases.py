"""Aliases such as ``champion``, which point at a version of a map."""

from __future__ import annotations

from calibrant.client.answers import Aliases, AliasRecord
from calibrant.client.requests import get, path_of, read, with_fields
from calibrant.client.retries import Patience, send
from calibrant.client.steps import JSON, Request, Steps


def alias(patience: Patience, name: str, alias: str, version: int, *, new: bool = False) -> Steps[AliasRecord]:
    """Point an alias at a version of a map.

    Parameters
    ----------
    name : str
        Name of the map.
    alias : str
        Alias, such as ``champion``.
    version : int
        Version, from 1.
    new : bool
        If True, the alias must not exist yet. If the connection breaks after the server has set the alias, the retry
        fails with ``precondition-failed``: then check where the alias points.

    Returns
    -------
    AliasRecord
        The alias.

    Raises
    ------
    ProblemResponse
        With code ``precondition-failed`` if ``new`` is True and the alias exists.

    Examples
    --------
    >>> client.alias("spam", "champion", 1).version
    1
    """
    headers = {"If-None-Match": "*"} if new else {}
    request = with_fields("PUT", path_of("maps", name, "aliases", alias), {"version": version}, headers=headers)
    answer = yield from send(patience, request)
    return read(AliasRecord, answer)


def aliases(patience: Patience, name: str) -> Steps[list[AliasRecord]]:
    """Return the aliases of a name.

    Parameters
    ----------
    name : str
        Name of the map.

    Returns
    -------
    list of AliasRecord
        The aliases with their versions.

    Examples
    --------
    >>> [alias.alias for alias in client.aliases("spam")]
    ['champion']
    """
    answer = yield from send(patience, get(path_of("maps", name, "aliases")))
    return read(Aliases, answer).aliases


def delete_alias(patience: Patience, name: str, alias: str) -> Steps[None]:
    """Delete an alias; the version of the map is kept.

    Parameters
    ----------
    name : str
        Name of the map.
    alias : str
        The alias.

    Examples
    --------
    >>> client.alias("spam", "challenger", 1).revision
    1
    >>> client.delete_alias("spam", "challenger")
    """
    path = path_of("maps", name, "aliases", alias)
    yield from send(patience, Request("DELETE", path, headers={"Accept": JSON}, forgets=True))
