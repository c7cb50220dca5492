"""Tokens that a service must refuse, each with the reason that it counts."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
import zlib
from collections.abc import Callable
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.hashes import SHA256, SHA384
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.integration.token_issuer import TokenIssuer, b64, ec_key, jwk_of, part, rsa_key, signature, token_of

Build = Callable[[TokenIssuer], str]

_RS256 = {"alg": "RS256", "kid": "rsa-1"}
_ES256 = {"alg": "ES256", "kid": "ec-1"}


def _header(changes: dict[str, Any], *, base: dict[str, Any] = _RS256) -> Build:
    """A token that the issuer signed, with another header."""
    return lambda issuer: token_of(_without_none(base | changes), issuer.claims(), issuer.keys[base["kid"]])


def _claims(**changes: Any) -> Build:
    return lambda issuer: issuer.token(**changes)


def _payload(change: Callable[[bytes], bytes]) -> Build:
    """A token that the issuer signed, with another payload."""
    return lambda issuer: token_of(_RS256, change(json.dumps(issuer.claims()).encode()), issuer.keys["rsa-1"])


def _text(change: Callable[[str], str]) -> Build:
    """A valid token whose text is changed."""
    return lambda issuer: change(issuer.token())


def _stranger(**header: Any) -> Build:
    """A token that somebody else signed with RS256."""
    return lambda issuer: token_of(_RS256 | header, issuer.claims(), rsa_key("stranger"))


def _without_none(members: dict[str, Any]) -> dict[str, Any]:
    return {name: member for name, member in members.items() if member is not None}


def _of_public_key(encoding: Encoding, form: PublicFormat, algorithm: str = "HS256") -> Build:
    """A token with a code of authentication whose secret is the public key."""

    def build(issuer: TokenIssuer) -> str:
        secret = issuer.keys["rsa-1"].public_key().public_bytes(encoding, form)
        signed = f"{part({'alg': algorithm, 'kid': 'rsa-1'})}.{part(issuer.claims())}"
        return f"{signed}.{b64(hmac.digest(secret, signed.encode(), algorithm.replace('HS', 'sha')))}"

    return build


def _signed_by(sign: Callable[[TokenIssuer, bytes], bytes], header: dict[str, Any] = _RS256) -> Build:
    def build(issuer: TokenIssuer) -> str:
        signed = f"{part(header)}.{part(issuer.claims())}"
        return f"{signed}.{b64(sign(issuer, signed.encode()))}"

    return build


def _pss(issuer: TokenIssuer, signed: bytes) -> bytes:
    key: Any = issuer.keys["rsa-1"]
    return bytes(key.sign(signed, padding.PSS(padding.MGF1(SHA256()), 32), SHA256()))


def _der(issuer: TokenIssuer, signed: bytes) -> bytes:
    key: Any = issuer.keys["ec-1"]
    return bytes(key.sign(signed, ec.ECDSA(SHA256())))


def _sha384(issuer: TokenIssuer, signed: bytes) -> bytes:
    key: Any = issuer.keys["rsa-1"]
    return bytes(key.sign(signed, padding.PKCS1v15(), SHA384()))


def _swapped(index: int, text: str) -> Callable[[str], str]:
    """Replace a part of a token."""

    def change(token: str) -> str:
        parts = token.split(".")
        parts[index] = text
        return ".".join(parts)

    return change


def _other_end(token: str) -> str:
    """Change bits at the end of the signature that belong to no byte."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return token[:-1] + letters[letters.index(token[-1]) ^ 1]


def _duplicate(name: str, text: str) -> Callable[[bytes], bytes]:
    return lambda payload: payload[:-1] + f', "{name}": {text}}}'.encode()


def _raw(name: str, text: str) -> Callable[[bytes], bytes]:
    """Replace the value of a claim by any text."""

    def change(payload: bytes) -> bytes:
        claims = json.loads(payload)
        claims[name] = "@"
        return json.dumps(claims).replace('"@"', text).encode()

    return change


def _of_stale_key(issuer: TokenIssuer) -> str:
    return token_of(_RS256 | {"kid": "retired"}, issuer.claims(), rsa_key("retired"))


def _nested(issuer: TokenIssuer) -> str:
    return token_of(_RS256 | {"cty": "JWT"}, issuer.token().encode(), issuer.keys["rsa-1"])


def _encrypted(_: TokenIssuer) -> str:
    return ".".join([part({"alg": "RSA-OAEP", "enc": "A256GCM", "kid": "rsa-1"}), *[b64(b"x" * 32)] * 4])


_LONG = "x" * 5000
_NO_TIMES: tuple[Any, ...] = ("0", False, [], {}, "now")
_PEM, _DER = Encoding.PEM, Encoding.DER
_INFO = PublicFormat.SubjectPublicKeyInfo
_HS256_OF_NOTHING = hashlib.sha256(b"").digest()

#: What is wrong with a token -> how it is built, and the reason that the service counts.
HOSTILE: dict[str, tuple[Build, str]] = {
    # No signature, or one of another algorithm.
    **{
        f"alg {alg!r}": (_header({"alg": alg}), "algorithm")
        for alg in ("none", "None", "NONE", "nOnE", "", None, True, 256, ["RS256"], {"RS256": 1}, "rs256", "RS256 ")
    },
    **{
        f"alg {alg}": (_header({"alg": alg}), "algorithm")
        for alg in ("RS384", "RS512", "PS256", "PS512", "ES384", "ES512", "ES256K", "EdDSA", "HS256", "RSA-OAEP", "dir")
    },
    "alg none without a signature": (
        lambda issuer: f"{part({'alg': 'none', 'kid': 'rsa-1'})}.{part(issuer.claims())}.",
        "malformed",
    ),
    "an empty signature": (_text(_swapped(2, "")), "malformed"),
    "HS256 with the public key as PEM": (_of_public_key(_PEM, _INFO), "algorithm"),
    "HS256 with the public key as DER": (_of_public_key(_DER, _INFO), "algorithm"),
    "HS512 with the public key": (_of_public_key(_PEM, _INFO, "HS512"), "algorithm"),
    "HS256 with the key as PKCS 1": (_of_public_key(_PEM, PublicFormat.PKCS1), "algorithm"),
    "RS256 with the id of an EC key": (_header({"kid": "ec-1"}), "unknown-key"),
    "ES256 with the id of an RSA key": (_header({"kid": "rsa-1"}, base=_ES256), "unknown-key"),
    "ES256 and a signature of RS256": (
        _signed_by(lambda issuer, signed: signature(issuer.keys["rsa-1"], signed), _ES256),
        "signature",
    ),
    "RS256 and a signature of PS256": (_signed_by(_pss), "signature"),
    "RS256 and a digest of SHA-384": (_signed_by(_sha384), "signature"),
    "RS256 and a digest in place of a signature": (_signed_by(lambda *_: _HS256_OF_NOTHING), "signature"),
    "a signature of zeros": (_signed_by(lambda *_: bytes(256)), "signature"),
    "a signature of EC in DER": (_signed_by(_der, _ES256), "signature"),
    "a signature of EC with r and s 0": (_signed_by(lambda *_: bytes(64), _ES256), "signature"),
    "a signature of EC with r and s of ones": (_signed_by(lambda *_: b"\xff" * 64, _ES256), "signature"),
    "a signature of EC with a byte more": (
        _signed_by(lambda issuer, signed: signature(issuer.keys["ec-1"], signed) + b"\0", _ES256),
        "signature",
    ),
    # Keys that the issuer does not publish.
    "the key of a stranger": (_stranger(), "signature"),
    "the EC key of a stranger": (lambda issuer: token_of(_ES256, issuer.claims(), ec_key("stranger")), "signature"),
    "a retired key": (_of_stale_key, "unknown-key"),
    "jku of a stranger": (_stranger(jku="http://127.0.0.1:9/keys", kid="stranger"), "unknown-key"),
    "jku and a known id": (_stranger(jku="http://127.0.0.1:9/keys"), "signature"),
    "x5u of a stranger": (_stranger(x5u="http://127.0.0.1:9/chain"), "signature"),
    "x5c of a stranger": (_stranger(x5c=["MIIB"]), "signature"),
    "jwk of a stranger": (_stranger(jwk=jwk_of("rsa-1", rsa_key("stranger"))), "signature"),
    "jwk that is a secret": (_stranger(jwk={"kty": "oct", "k": "AAAA"}), "signature"),
    **{
        f"kid {name}": (_header({"kid": kid}), "unknown-key")
        for name, kid in {
            "missing": None,
            "empty": "",
            "unknown": "nobody",
            "a path": "../../../../dev/null",
            "a URL": "http://127.0.0.1:9/key",
            "of SQL": "' UNION SELECT 'secret' -- ",
            "of a shell": "$(id)|`id`",
            "of Redis": "calibrant::api-keys\r\nFLUSHALL",
            "long": _LONG,
            "a number": 1,
            "a list": ["rsa-1"],
            "an object": {"rsa-1": 1},
            "a null byte": "rsa-1\x00",
            "with a space": "rsa-1 ",
            "in upper case": "RSA-1",
            "that is no text": "\ud800",
        }.items()
    },
    # Headers that change what is signed, or how it is read.
    "crit of something unknown": (_header({"crit": ["exp"], "exp": 1}), "header"),
    "crit that is empty": (_header({"crit": []}), "header"),
    "crit that is a text": (_header({"crit": "b64"}), "header"),
    "b64 false": (_header({"b64": False, "crit": ["b64"]}), "header"),
    "b64 false without crit": (_header({"b64": False}), "header"),
    "b64 false and a detached payload": (
        lambda issuer: (
            f"{part(_RS256 | {'b64': False, 'crit': ['b64']})}.."
            f"{b64(signature(issuer.keys['rsa-1'], part(issuer.claims()).encode()))}"
        ),
        "malformed",
    ),
    "zip": (
        lambda issuer: token_of(
            _RS256 | {"zip": "DEF"}, zlib.compress(json.dumps(issuer.claims()).encode()), issuer.keys["rsa-1"]
        ),
        "header",
    ),
    "a compressed payload without zip": (_payload(zlib.compress), "malformed"),
    "a bomb": (_payload(lambda _: zlib.compress(bytes(1 << 20))), "malformed"),
    "a nested token": (_nested, "header"),
    "an encrypted token": (_encrypted, "malformed"),
    "enc in a signed token": (_header({"enc": "A256GCM"}), "header"),
    "the type of a logout": (_header({"typ": "logout+jwt"}), "header"),
    "the type of a proof of possession": (_header({"typ": "dpop+jwt"}), "header"),
    "a type that is a number": (_header({"typ": 1}), "header"),
    "a header with a name twice": (
        lambda issuer: token_of(
            b'{"alg": "RS256", "kid": "rsa-1", "kid": "ec-1"}', issuer.claims(), issuer.keys["rsa-1"]
        ),
        "malformed",
    ),
    "a header that is a list": (lambda issuer: token_of(b"[]", issuer.claims(), issuer.keys["rsa-1"]), "malformed"),
    "a header that is deep": (
        lambda issuer: token_of(b'{"alg":' + b"[" * 5000, issuer.claims(), issuer.keys["rsa-1"]),
        "malformed",
    ),
    # Texts that are no compact form.
    "no dot": (_text(lambda token: token.replace(".", "")), "malformed"),
    "one dot": (_text(lambda token: token.rpartition(".")[0]), "malformed"),
    "three dots": (_text(lambda token: f"{token}.e30"), "malformed"),
    "only dots": (_text(lambda _: ".."), "malformed"),
    "padding": (_text(lambda token: f"{token}=="), "malformed"),
    "plain base64": (_text(lambda token: token.replace("-", "+").replace("_", "/") + "+/"), "malformed"),
    "a space inside": (_text(lambda token: token.replace(".", ". ")), "malformed"),
    "a comma and a second token": (_text(lambda token: f"{token},{token}"), "malformed"),
    "bits at its end that belong to no byte": (_text(_other_end), "malformed"),
    "a cut signature": (
        _signed_by(lambda issuer, signed: signature(issuer.keys["rsa-1"], signed)[:-8]),
        "signature",
    ),
    "a changed payload": (
        lambda issuer: _swapped(1, part(issuer.claims(team="red")))(issuer.token()),
        "signature",
    ),
    "the signature of another token": (
        lambda issuer: issuer.token().rpartition(".")[0] + "." + issuer.token(sub="bob").rpartition(".")[2],
        "signature",
    ),
    "a JSON serialization": (
        lambda issuer: json.dumps(
            dict(zip(("protected", "payload", "signature"), issuer.token().split("."), strict=True))
        ),
        "malformed",
    ),
    "a name and a password": (lambda _: base64.b64encode(b"alice:secret").decode(), "malformed"),
    "a huge token": (_claims(pad="x" * 30_000), "malformed"),
    "a key of another service": (_text(lambda _: "sk-live-0123456789"), "malformed"),
    "a prefix of keys in another case": (_text(lambda _: "CALK_0123456789abcdef_secret"), "malformed"),
    # Payloads.
    "a payload that is no JSON": (_payload(lambda _: b"alice"), "malformed"),
    "a payload in UTF-16": (_payload(lambda payload: payload.decode().encode("utf-16-le")), "malformed"),
    "a payload that is no UTF-8": (_payload(lambda payload: payload.replace(b"alice", b"\xff\xfe")), "malformed"),
    "a payload that is cut": (_payload(lambda payload: payload[:-1]), "malformed"),
    "a payload that is a list": (_payload(lambda payload: b"[" + payload + b"]"), "malformed"),
    "a payload that is a text": (_payload(lambda _: b'"alice"'), "malformed"),
    "a payload that is null": (_payload(lambda _: b"null"), "malformed"),
    "a deep payload": (_payload(lambda _: b'{"a":' * 1500 + b"1" + b"}" * 1500), "malformed"),
    "a deep claim": (_payload(_raw("deep", "[" * 5000 + "]" * 5000)), "malformed"),
    "an audience twice": (_payload(_duplicate("aud", '"calibrant"')), "malformed"),
    "an end twice": (_payload(_duplicate("exp", "9999999999")), "malformed"),
    "a tenant twice": (_payload(_duplicate("team", '"red"')), "malformed"),
    "a tenant twice, once escaped": (_payload(_duplicate("te\\u0061m", '"red"')), "malformed"),
    "an end of NaN": (_payload(_raw("exp", "NaN")), "malformed"),
    "an end of infinity": (_payload(_raw("exp", "Infinity")), "malformed"),
    "an end beyond numbers": (_payload(_raw("exp", "1e999")), "claims"),
    "an end with 400 digits": (_payload(_raw("exp", "9" * 400)), "claims"),
    "a beginning with 400 digits": (_payload(_raw("nbf", "9" * 400)), "claims"),
    "an issue with 400 digits": (_payload(_raw("iat", "-" + "9" * 400)), "claims"),
    "an end with 5000 digits": (_payload(_raw("exp", "9" * 5000)), "malformed"),
    # Claims.
    **{f"no {name}": (_claims(**{name: None}), "claims") for name in ("iss", "sub", "aud", "exp")},
    "an empty payload": (_payload(lambda _: b"{}"), "claims"),
    **{
        f"exp {time!r}": (_claims(exp=time), "claims")
        for time in ("9999999999", True, [9999999999], {"at": 1}, "tomorrow", "")
    },
    **{f"nbf {time!r}": (_claims(nbf=time), "claims") for time in _NO_TIMES},
    **{f"iat {time!r}": (_claims(iat=time), "claims") for time in _NO_TIMES},
    "expired": (lambda issuer: issuer.token(exp=int(time.time()) - 60), "expired"),
    "expired long ago": (_claims(exp=0), "expired"),
    "an end before 1970": (_claims(exp=-1e18), "expired"),
    "not yet valid": (lambda issuer: issuer.token(nbf=int(time.time()) + 300), "not-yet-valid"),
    "issued in the future": (lambda issuer: issuer.token(iat=int(time.time()) + 300), "not-yet-valid"),
    "another audience": (_claims(aud="billing"), "audience"),
    "other audiences": (_claims(aud=["billing", "calibrant-staging"]), "audience"),
    "an audience in upper case": (_claims(aud="CALIBRANT"), "audience"),
    "an audience that begins alike": (_claims(aud="calibrant.evil.example"), "audience"),
    "an audience with a space": (_claims(aud="billing calibrant"), "audience"),
    "no audience in a list": (_claims(aud=[]), "claims"),
    "an audience that is a number": (_claims(aud=1), "claims"),
    "an audience that is an object": (_claims(aud={"calibrant": True}), "claims"),
    "audiences of several types": (_claims(aud=["calibrant", 1]), "claims"),
    "another issuer": (_claims(iss="https://evil.example"), "issuer"),
    "an issuer with a slash more": (lambda issuer: issuer.token(iss=issuer.url + "/"), "issuer"),
    "an issuer in upper case": (lambda issuer: issuer.token(iss=issuer.url.upper()), "issuer"),
    "issuers": (lambda issuer: issuer.token(iss=[issuer.url]), "claims"),
    "a subject that is a number": (_claims(sub=1), "claims"),
    "an empty subject": (_claims(sub=""), "claims"),
    "a long subject": (_claims(sub="x" * 256), "claims"),
    "a subject with a line break": (_claims(sub="alice\nlevel=info"), "claims"),
    "a subject beyond ASCII": (_claims(sub="аlice"), "claims"),  # noqa: RUF001 - the first letter is Cyrillic
    "scopes that are a number": (_claims(scope=1), "claims"),
    "scopes that are an object": (_claims(scope={"read": True}), "claims"),
    "scopes of several types": (_claims(scope=["read", 1]), "claims"),
    # Tenants.
    **{
        f"tenant {name}": (_claims(team=team), "tenant")
        for name, team in {
            "missing": None,
            "empty": "",
            "with a colon": "red:maps",
            "of shared keys": ":",
            "that is a pattern": "*",
            "with a path": "../red",
            "with a slash": "blue/red",
            "in upper case": "Blue",
            "with a line break": "blue\n",
            "with a null byte": "blue\x00",
            "with a space": "blue red",
            "beyond ASCII": "blüe",
            "of strangers": "-",
            "long": "b" * 64,
            "a list": ["blue"],
            "an object": {"blue": 1},
            "a number": 1,
            "of braces": "{blue}",
        }.items()
    },
}
