"""Bearer tokens of an issuer: JSON Web Tokens (RFC 7519), verified as RFC 8725 advises. Needs the extra ``oidc``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import jwt
from jwt import PyJWK
from pydantic import TypeAdapter, ValidationError

from backend.store.keyspace import DEFAULT_TENANT
from schemas.keys import Tenant, TokenMapping
from service.callers import Caller
from service.errors import Forbidden, InvalidToken

# --- The keys of an issuer: a JSON Web Key Set (RFC 7517)

#: The algorithm of a key, by its type. A token never chooses it.
ALGORITHMS: Final = MappingProxyType({"RSA": "RS256", "EC": "ES256"})
#: The members of public keys, by their type. Others, such as those of private keys, are not read.
_MEMBERS: Final = MappingProxyType({"RSA": ("kty", "n", "e"), "EC": ("kty", "crv", "x", "y")})
#: Most keys of an issuer, characters of a key's id, and bits of an RSA key: larger ones take long to verify with.
_MOST_KEYS, _MOST_ID, _MOST_BITS = 100, 256, 8192


class SigningKey(NamedTuple):
    """A public key of an issuer, and its members as published."""

    key: PyJWK
    jwk: dict[str, str]


def read_keys(entries: Any) -> dict[tuple[str, str], SigningKey]:
    """The usable keys among those of a set, by id and algorithm; raises ``ValueError`` if there is none."""
    if not isinstance(entries, list) or len(entries) > _MOST_KEYS:
        raise ValueError(f"the keys are not a list of at most {_MOST_KEYS} keys")
    keys = {}
    for entry in entries:
        with suppress(jwt.PyJWTError, ValueError, TypeError, KeyError):  # a key of another kind, or a damaged one
            kid, algorithm = entry["kid"], ALGORITHMS[entry["kty"]]
            if _is_for_signatures(entry, algorithm):
                jwk = {"kid": str(kid), **{name: str(entry[name]) for name in _MEMBERS[entry["kty"]]}}
                key = PyJWK(jwk, algorithm)
                size = getattr(key.key, "key_size", 0)
                if not key.Algorithm.check_key_length(key.key) and size <= _MOST_BITS:
                    keys[str(kid), algorithm] = SigningKey(key, jwk)
    if not keys:
        raise ValueError("there is no key for RS256 or ES256 with an id")
    return keys


def _is_for_signatures(entry: Mapping[str, Any], algorithm: str) -> bool:
    return (
        isinstance(entry["kid"], str)
        and 0 < len(entry["kid"]) <= _MOST_ID
        and entry.get("use", "sig") == "sig"
        and entry.get("alg", algorithm) == algorithm
        and "verify" in entry.get("key_ops", ["verify"])
        and entry.get("crv", "P-256") == "P-256"
    )


# --- The parts of a token

_MOST_BYTES = 16 * 1024
#: Most objects and lists of a part.
_MOST_OPENED = 500
_COMPACT = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+", re.ASCII)
#: Header parameters that change what is signed or how it is read. Those that name keys (jku, jwk, x5u) have no effect.
_UNSUPPORTED = frozenset({"crit", "b64", "zip", "enc", "cty"})
_TYPES = (None, "jwt", "at+jwt", "application/at+jwt")


def read_token_header(token: str) -> tuple[str, str]:
    """The id of the key and the algorithm of a token; raises ``InvalidToken``."""
    if len(token) > _MOST_BYTES or not _COMPACT.fullmatch(token):
        raise InvalidToken("malformed")
    header = _read_object(token.partition(".")[0])
    algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ")
    if algorithm not in ALGORITHMS.values():
        raise InvalidToken("algorithm")
    if header.keys() & _UNSUPPORTED or (kind.lower() if isinstance(kind, str) else kind) not in _TYPES:
        raise InvalidToken("header")
    if not isinstance(kid, str):
        raise InvalidToken("unknown-key")
    return kid, str(algorithm)


def _read_object(part: str) -> dict[str, Any]:
    """The JSON object in a part of a token; no two readers can read it differently."""
    try:
        text = jwt.utils.base64url_decode(part).decode("utf-8")
        is_flat = text.count("[") + text.count("{") <= _MOST_OPENED
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse) if is_flat else None
    except (ValueError, RecursionError):
        raise InvalidToken("malformed") from None
    if not isinstance(document, dict):
        raise InvalidToken("malformed")
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name occurs twice")
    return members


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not part of JSON")


# --- What a token must have, and whom it identifies

_TENANT: TypeAdapter[str] = TypeAdapter(Tenant)
_SUBJECT = re.compile(r"[\x20-\x7e]{1,255}")
_REQUIRED = ("iss", "sub", "aud", "exp")
_MOST_VALUES = 1000
_REASONS: Final[Mapping[type[jwt.PyJWTError], str]] = MappingProxyType(
    {
        jwt.InvalidSignatureError: "signature",
        jwt.ExpiredSignatureError: "expired",
        jwt.ImmatureSignatureError: "not-yet-valid",
        jwt.InvalidIssuerError: "issuer",
        jwt.InvalidAudienceError: "audience",
        jwt.MissingRequiredClaimError: "claims",
    }
)


@dataclass(frozen=True)
class TokenRules:
    """What the service requires of tokens, and how their claims name the tenant and the scopes.

    A claim is its name, or a JSON pointer (RFC 6901). ``scopes`` has the scopes that values of a claim grant.
    """

    issuer: str
    audiences: tuple[str, ...]
    tenant_claim: str
    scopes_claim: str
    scopes: Mapping[str, frozenset[str]]
    leeway: float

    @property
    def mapping(self) -> TokenMapping:
        """What tokens grant, for the audit log."""
        scopes = {value: " ".join(sorted(granted)) for value, granted in self.scopes.items()}
        claims = {"tenant_claim": self.tenant_claim, "scopes_claim": self.scopes_claim}
        return TokenMapping(issuer=self.issuer, scopes=scopes, **claims)

    def caller_of(self, token: str, key: PyJWK) -> Caller:
        """The caller that a token identifies; raises ``InvalidToken``, and ``Forbidden`` without any scope."""
        claims = _read_object(token.split(".")[1])
        _check_types(claims)
        try:
            jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                issuer=self.issuer,
                audience=self.audiences,
                leeway=self.leeway,
                options={"require": list(_REQUIRED)},
            )
        except jwt.PyJWTError as error:
            raise InvalidToken(_REASONS.get(type(error), "malformed")) from None
        subject = f"oidc:{claims['sub']}"
        return Caller(
            tenant=self._tenant(claims),
            scope=self._scope(claims),
            name=subject,
            key_id=subject,
            expires_at=claims["exp"] + self.leeway,
        )

    def _tenant(self, claims: Mapping[str, Any]) -> str:
        if not self.tenant_claim:
            return DEFAULT_TENANT
        try:
            return _TENANT.validate_python(_claim(claims, self.tenant_claim), strict=True)
        except ValidationError:
            raise InvalidToken("tenant") from None

    def _scope(self, claims: Mapping[str, Any]) -> str:
        value = _claim(claims, self.scopes_claim)
        values = value.split(" ") if isinstance(value, str) else value
        if value is not None and not _is_texts(values):
            raise InvalidToken("claims")
        granted = {scope for text in values or () for scope in self.scopes.get(text, ())}
        if not granted:
            challenge = {"WWW-Authenticate": 'Bearer error="insufficient_scope"'}
            raise Forbidden("the token has no scope of this service").with_headers(challenge)
        return " ".join(sorted(granted))


def _claim(claims: Mapping[str, Any], place: str) -> Any:
    """The value of a claim; None if it is missing."""
    names = place.split("/")[1:] if place.startswith("/") else []
    value: Any = claims
    for name in [name.replace("~1", "/").replace("~0", "~") for name in names] or [place]:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


#: The latest time in seconds that PyJWT can compare; it also excludes infinity and NaN.
_LATEST = 2.0**63


def _check_types(claims: Mapping[str, Any]) -> None:
    """Raise ``InvalidToken`` for a registered claim of another type than RFC 7519 gives it, or a missing one."""
    times = [claims.get(name, 0) for name in ("exp", "nbf", "iat")]
    audience, subject = claims.get("aud"), claims.get("sub")
    are_times = all(type(time) in (int, float) and abs(time) < _LATEST for time in times)
    is_audience = isinstance(audience, str) or _is_texts(audience)
    is_subject = isinstance(subject, str) and _SUBJECT.fullmatch(subject)
    if not (are_times and is_audience and is_subject and isinstance(claims.get("iss"), str) and "exp" in claims):
        raise InvalidToken("claims")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= _MOST_VALUES and all(isinstance(text, str) for text in value)
