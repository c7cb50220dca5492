"""Signatures of webhooks: Standard Webhooks 1.0.0, symmetric scheme ``v1``.

The specification: github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md, "Signature scheme" and
"Webhook headers". Signed is ``id.timestamp.body``, by HMAC-SHA256. A secret is written as ``whsec_`` and 24 to 64 bytes
in base64. While a secret is changed the header holds a signature by each, separated by a space.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Sequence

PREFIX = "whsec_"
#: Bytes of a secret, and of one that is made here.
LEAST_BYTES, MOST_BYTES, NEW_BYTES = 24, 64, 32


class InvalidSecret(ValueError):
    """A text that is no secret; the error does not repeat it."""


def new_secret() -> str:
    """A secret that cannot be guessed."""
    return PREFIX + base64.b64encode(secrets.token_bytes(NEW_BYTES)).decode()


def read_secret(text: str) -> bytes:
    """The bytes of a secret; raises ``InvalidSecret``."""
    wanted = f"must be {PREFIX} and {LEAST_BYTES} to {MOST_BYTES} bytes in base64"
    if not text.startswith(PREFIX):
        raise InvalidSecret(wanted)
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidSecret(wanted) from None  # the cause holds the text
    if not LEAST_BYTES <= len(key) <= MOST_BYTES:
        raise InvalidSecret(wanted)
    return key


def sign(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """The header ``webhook-signature``: a signature by each key, in this order.

    >>> sign([b"a key of 24 bytes at least"], "msg_1", 1674087231, b"{}")
    'v1,qAveFQ9Qh73G+BkaRGpPi9tWAcoU0Kkrlyp3ddJpWIY='
    """
    signed = f"{message_id}.{timestamp}.".encode() + body
    made = (base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode() for key in keys)
    return " ".join(f"v1,{each}" for each in made)


def headers(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers by which a receiver knows who sent ``body``; ``timestamp`` is that of this attempt, in seconds."""
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(keys, message_id, timestamp, body),
    }
