"""Aliases such as ``champion``, which point at a version of a map."""

from __future__ import annotations

from calibrant.client.answers import AliasRecord
from calibrant.client.requests import path_of, read, with_fields
from calibrant.client.retries import Patience, send
from calibrant.client.steps import Steps


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
