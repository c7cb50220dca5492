"""The secrets of webhooks as Standard Webhooks 1.0 writes them: ``whsec_`` and 24 to 64 bytes in base64."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets

from calibrant.errors import InvalidOption

PREFIX = "whsec_"
_LEAST, _MOST, _MADE = 24, 64, 32


def check_secret(secret: str | None, where: str) -> None:
    """Raise ``InvalidOption`` at ``where`` for a secret of another form."""
    if secret is None:
        return
    try:
        known = secret.startswith(PREFIX) and _LEAST <= len(bytes_of(secret)) <= _MOST
    except binascii.Error:
        known = False
    if not known:
        raise InvalidOption.at(where, f"must be {PREFIX} and {_LEAST} to {_MOST} bytes in base64")


def bytes_of(secret: str) -> bytes:
    """The bytes of a secret, with which deliveries are signed."""
    return base64.b64decode(secret.removeprefix(PREFIX), validate=True)


def made_secret(seed: str | None, hook: str) -> str:
    """A fresh secret for a hook; of a request that may be run again, whose secret ``seed`` it has, the same one."""
    if seed is None:
        made = secrets.token_bytes(_MADE)
    else:
        made = hmac.new(seed.encode(), f"hook {hook}".encode(), hashlib.sha256).digest()
    return PREFIX + base64.b64encode(made).decode()
