"""Hooks of the audit log, which receive its entries."""

from __future__ import annotations

from calibrant.client.answers import AuditHookAnswer
from calibrant.client.requests import path_of, read, with_fields
from calibrant.client.retries import Patience, send
from calibrant.client.steps import Steps


def audit_hook(patience: Patience, hook: str, url: str, *, secret: str | None = None) -> Steps[AuditHookAnswer]:
    """Send the entries of the audit log from now on to a URL, as CloudEvents.

    Parameters
    ----------
    hook : str
        Name of the hook, of lower-case letters, digits, hyphens and underscores.
    url : str
        URL that receives the entries; the settings of the service must allow its host.
    secret : str, optional
        ``whsec_`` followed by the base64 of 24 to 64 bytes. Default: that of the hook, or a new one.

    Returns
    -------
    AuditHookAnswer
        The hook, with its secret if it is new.

    Raises
    ------
    ProblemResponse
        With code ``hook-refused`` if the URL is not allowed, and ``forbidden`` without the scope ``admin``.

    Examples
    --------
    A service allows no hosts by default:

    >>> client.audit_hook("siem", "https://siem.example.com/calibrant")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    calibrant.client.errors.ProblemResponse: /url: the host is not allowed
    """
    request = with_fields("PUT", path_of("audit", "hooks", hook), {"url": url, "secret": secret})
    return read(AuditHookAnswer, (yield from send(patience, request)))
