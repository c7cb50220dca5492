"""A real issuer of tokens on loopback: signs with RSA and EC keys, publishes them, and fails as a test wants it to."""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from tests.integration.threads import in_thread

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
AUDIENCE = "calibrant"


@cache
def rsa_key(name: str, bits: int = 2048) -> rsa.RSAPrivateKey:
    """A key with this name, the same one during a run of the tests."""
    assert name
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


@cache
def ec_key(name: str) -> ec.EllipticCurvePrivateKey:
    """A key on P-256 with this name."""
    assert name
    return ec.generate_private_key(ec.SECP256R1())


def b64(content: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _number(number: int, size: int | None = None) -> str:
    return b64(number.to_bytes(size or (number.bit_length() + 7) // 8, "big"))


def jwk_of(kid: str, key: PrivateKey) -> dict[str, Any]:
    """The public key as an issuer publishes it."""
    common = {"kid": kid, "use": "sig"}
    if isinstance(key, rsa.RSAPrivateKey):
        numbers = key.public_key().public_numbers()
        return {**common, "kty": "RSA", "alg": "RS256", "n": _number(numbers.n), "e": _number(numbers.e)}
    point = key.public_key().public_numbers()
    return {**common, "kty": "EC", "crv": "P-256", "alg": "ES256", "x": _number(point.x, 32), "y": _number(point.y, 32)}


def signature(key: PrivateKey, signed: bytes) -> bytes:
    """The signature of RS256 or ES256, by the kind of the key."""
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(signed, padding.PKCS1v15(), SHA256())
    r, s = decode_dss_signature(key.sign(signed, ec.ECDSA(SHA256())))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def part(content: Mapping[str, Any] | bytes) -> str:
    """A part of a token, from a JSON object or bytes."""
    return b64(content if isinstance(content, bytes) else json.dumps(content).encode())


def token_of(header: Mapping[str, Any] | bytes, claims: Mapping[str, Any] | bytes, key: PrivateKey) -> str:
    """A signed token of any header and payload."""
    signed = f"{part(header)}.{part(claims)}"
    return f"{signed}.{b64(signature(key, signed.encode()))}"


class TokenIssuer(ThreadingHTTPServer):
    """An issuer. ``keys`` are those that it publishes, ``document`` replaces members of its discovery document.

    ``answers`` replaces the response to a path: a status, bytes, or ``stall``. ``requests`` are the paths requested.
    """

    daemon_threads = True

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = f"http{'' if context is None else 's'}://127.0.0.1:{self.server_address[1]}/realms/main"
        self.keys: dict[str, PrivateKey] = {"rsa-1": rsa_key("first"), "ec-1": ec_key("first")}
        self.others: list[Any] = []
        self.document: dict[str, Any] = {}
        self.answers: dict[str, int | bytes | str] = {}
        self.requests: list[str] = []
        self.resume = threading.Event()

    def claims(self, **changes: Any) -> dict[str, Any]:
        """The claims of a valid token; those with the value None are left out."""
        now = int(time.time())
        claims = {
            "iss": self.url,
            "sub": "alice",
            "aud": AUDIENCE,
            "exp": now + 600,
            "iat": now,
            "team": "blue",
            "scope": "read write",
        }
        return {name: claim for name, claim in (claims | changes).items() if claim is not None}

    def token(self, kid: str = "rsa-1", **changes: Any) -> str:
        """A token signed with a published key."""
        key = self.keys[kid]
        algorithm = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
        return token_of({"alg": algorithm, "kid": kid, "typ": "JWT"}, self.claims(**changes), key)

    def answer(self, path: str) -> tuple[int, bytes]:
        """The status and body of a response."""
        answer = self.answers.get(path)
        if answer == "stall":
            self.resume.wait(600)
            return 503, b""
        if isinstance(answer, int):
            return answer, b""
        if isinstance(answer, bytes):
            return 200, answer
        if path == "/realms/main/.well-known/openid-configuration":
            return 200, json.dumps({"issuer": self.url, "jwks_uri": f"{self.url}/keys"} | self.document).encode()
        if path == "/realms/main/keys":
            entries = [*self.others, *(jwk_of(kid, key) for kid, key in self.keys.items())]
            return 200, json.dumps({"keys": entries}).encode()
        return 404, b""


class _Handler(BaseHTTPRequestHandler):
    server: TokenIssuer

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        status, body = self.server.answer(self.path)
        with contextlib.suppress(OSError):  # the service did not wait
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", f"{self.server.url}/keys")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def do_POST(self) -> None:
        """The token endpoint, for every client."""
        self.server.requests.append(self.path)
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"access_token": self.server.token(), "expires_in": 600}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


@contextlib.contextmanager
def token_issuer(context: ssl.SSLContext | None = None) -> Iterator[TokenIssuer]:
    """A running issuer, with https if there is a context."""
    with in_thread(TokenIssuer(context)) as issuer:
        try:
            yield issuer
        finally:
            issuer.resume.set()
