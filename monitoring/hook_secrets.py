"""The secrets of a monitor's hooks: those that are given checked, those that are not made."""

from __future__ import annotations

import base64
import hashlib
import hmac

from calibrant.errors import InvalidOption
from monitoring.delivering.signing import PREFIX, InvalidSecret, new_secret, read_secret


def check_secret(secret: str | None, where: str) -> None:
    """Raise ``InvalidOption`` at ``where`` for a secret that deliveries could not be signed with."""
    if secret is None:
        return
    try:
        read_secret(secret)
    except InvalidSecret as error:
        raise InvalidOption.at(where, str(error)) from None


def made_secret(seed: str | None, hook: str) -> str:
    """A fresh secret for a hook; of a request that may be run again, whose secret ``seed`` it has, the same one."""
    if seed is None:
        return new_secret()
    return PREFIX + base64.b64encode(hmac.digest(seed.encode(), f"hook {hook}".encode(), hashlib.sha256)).decode()
