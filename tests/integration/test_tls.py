"""TLS to the store: the embedded server speaks none, so a proxy of the test's own ends it there."""

from __future__ import annotations

import asyncio
import gc
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from calibrant.client import Calibrant
from service.settings import Settings
from tests.integration.conftest import serving
from tests.integration.redis_server import assert_away, ready, redis_server, until
from tests.integration.test_workers import supervisor

BATCH = {"predictions": [0.1, 0.9], "labels": [0, 1]}
# On a busy machine a TLS connection may be cut while the event loop of the test's own server closes, and uvloop warns.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]
FILES = {"ca_certs": "ca.pem", "certfile": "client.pem", "keyfile": "client.key"}


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Garbage is collected, so that the warning does not come in another test."""
    yield
    gc.collect()


class TlsProxy:
    """Ends TLS on a port of its own and passes on what comes; asks for a client's certificate."""

    def __init__(self, context: ssl.SSLContext, target: int) -> None:
        self._context = context
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> TlsProxy:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(600)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(600)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _open(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)

    async def _close(self) -> None:
        self._server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            inner_writer.close()
            writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while received := await reader.read(65536):
        writer.write(received)
        await writer.drain()
    writer.close()


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=600)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, a certificate for 127.0.0.1 alone and one for the client; as ca, server and client .pem, .key."""
    folder = tmp_path_factory.mktemp("tls")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    _openssl("req", "-x509", *key, "-keyout", f"{folder}/ca.key", "-out", f"{folder}/ca.pem", "-subj", "/CN=Test CA")
    for name, place in (("server", "IP:127.0.0.1"), ("client", "DNS:client")):
        path = f"{folder}/{name}"
        _openssl("req", *key, "-keyout", f"{path}.key", "-out", f"{path}.csr", "-subj", f"/CN={name}")
        (folder / f"{name}.ext").write_text(f"subjectAltName={place}\n")
        signed = ("-CA", f"{folder}/ca.pem", "-CAkey", f"{folder}/ca.key", "-CAcreateserial")
        _openssl("x509", "-req", "-in", f"{path}.csr", *signed, "-out", f"{path}.pem", "-extfile", f"{path}.ext")
    return folder


@pytest.fixture
def port(certificates: Path, tmp_path: Path) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    context.load_verify_locations(certificates / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    with redis_server(tmp_path / "redis") as server, TlsProxy(context, server.port) as proxy:
        yield proxy.port


def test_the_service_works_over_tls_with_certificates_of_both_sides(port: int, certificates: Path) -> None:
    options = "&".join(f"ssl_{name}={certificates}/{file}" for name, file in FILES.items())
    for host in ("127.0.0.1", "localhost"):
        away = serving(Settings(f"rediss://{host}:{port}/0?{options}"), outages=host == "localhost")
        with away as url, httpx.Client(base_url=url, timeout=600) as api:
            if host == "127.0.0.1":
                until(lambda: ready(api))
                assert api.post("/batches", json=BATCH).status_code == 201
            else:  # the certificate is another host's
                assert_away(api.get("/health/ready"))
    unchecked = f"rediss://localhost:{port}/0?{options}&ssl_check_hostname=false"
    with serving(Settings(unchecked)) as url, httpx.Client(base_url=url, timeout=600) as api:
        until(lambda: ready(api))


def test_workers_work_over_tls(port: int, certificates: Path, tmp_path: Path) -> None:
    options = "&".join(f"ssl_{name}={certificates}/{file}" for name, file in FILES.items())
    store = f"rediss://127.0.0.1:{port}/0?{options}"
    fit = BATCH | {"predictions": [0.1, 0.4, 0.6, 0.9] * 5, "labels": [0, 1, 0, 1] * 5, "method": "platt"}
    with (
        serving(Settings(store)) as url,
        httpx.Client(base_url=url, timeout=600) as api,
        supervisor(store, tmp_path / "worker.log"),
    ):
        until(lambda: ready(api))
        job = api.post("/maps", json=fit, headers={"Prefer": "respond-async"}).raise_for_status().headers["location"]
        with Calibrant(url) as client:
            assert client.wait(job.rpartition("/")[2]).status == "succeeded"


def test_a_certificate_of_an_unknown_authority_is_an_outage_that_says_why(
    port: int, certificates: Path, caplog: pytest.LogCaptureFixture
) -> None:
    away = serving(Settings(f"rediss://127.0.0.1:{port}/0"), outages=True)
    with away as url, httpx.Client(base_url=url, timeout=600) as api:
        assert_away(api.get("/health/ready"))
    assert "certificate verify failed" in caplog.text
