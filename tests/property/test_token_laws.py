"""Whatever is sent as a token is refused or identifies a caller, and no change of a valid token is accepted."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.keys import scopes_of
from service.callers import Caller
from service.errors import Forbidden, InvalidToken
from service.tokens import TokenRules, read_keys, read_token_header
from tests.integration.token_issuer import PrivateKey, b64, ec_key, jwk_of, rsa_key, token_of

ISSUER = "https://id.example.com"
PRIVATE: dict[str, PrivateKey] = {"RS256": rsa_key("first"), "ES256": ec_key("first")}
KEYS = read_keys([jwk_of("1", key) for key in PRIVATE.values()])
RULES = TokenRules(ISSUER, ("calibrant",), "team", "scope", {"read": frozenset({"read"})}, 30.0)
CLAIMS: dict[str, Any] = {
    "iss": ISSUER,
    "sub": "alice",
    "aud": "calibrant",
    "exp": 2**40,
    "team": "blue",
    "scope": "read",
}

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
_VALUES = st.recursive(
    _SCALARS | st.sampled_from([*CLAIMS.values(), "RS256", "ES256", "none", "1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_HEADERS = st.dictionaries(
    st.sampled_from(["alg", "kid", "typ", "crit", "b64", "zip", "jku", "jwk", "cty", "x"]), _VALUES, max_size=3
)
_CHANGES = st.dictionaries(st.sampled_from([*CLAIMS, "nbf", "iat", "jti", "x"]), _VALUES, max_size=3)


def verify(token: str) -> Caller | None:
    """The caller of a token; None if it is refused."""
    try:
        return RULES.caller_of(token, KEYS[read_token_header(token)].key)
    except (InvalidToken, Forbidden, KeyError):
        return None


@pytest.mark.slow
@given(st.text() | st.binary().map(lambda content: content.decode("latin-1")))
def test_no_text_is_a_token(text: str) -> None:
    assert verify(text) is None


@given(st.lists(st.binary(max_size=60).map(b64), min_size=1, max_size=5))
def test_no_bytes_in_the_form_of_a_token_are_one(parts: list[str]) -> None:
    assert verify(".".join(parts)) is None


@given(st.sampled_from(["RS256", "ES256"]), _HEADERS, _CHANGES)
def test_a_signed_token_is_refused_or_names_a_caller_with_its_own_claims(
    algorithm: str, header: dict[str, Any], changes: dict[str, Any]
) -> None:
    claims = CLAIMS | changes
    token = token_of({"alg": algorithm, "kid": "1"} | header, json.dumps(claims).encode(), PRIVATE[algorithm])
    caller = verify(token)
    if caller is not None:
        assert (caller.tenant, caller.key_id) == (claims["team"], f"oidc:{claims['sub']}")
        assert claims["iss"] == ISSUER
        assert "calibrant" in claims["aud"]
        assert caller.expires_at == claims["exp"] + RULES.leeway
        assert claims["exp"] + RULES.leeway > time.time()
        assert scopes_of(caller.scope) == scopes_of("read")
        assert header.keys().isdisjoint({"crit", "b64", "zip", "cty"})


@given(st.sampled_from(["RS256", "ES256"]), st.data())
def test_a_change_of_any_letter_of_a_token_is_noticed(algorithm: str, data: st.DataObject) -> None:
    token = token_of({"alg": algorithm, "kid": "1"}, CLAIMS, PRIVATE[algorithm])
    assert verify(token) is not None
    place = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.characters(codec="latin-1").filter(lambda letter: letter != token[place]))
    assert verify(token[:place] + letter + token[place + 1 :]) is None
