"""TLS by files: a server with a certificate of its own, and who trusts it."""

import asyncio
import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from data_schemas.config.serving import LimitsConfig, ServeConfig
from data_schemas.errors import BackendError, ConfigError
from data_schemas.units import SAMPLE_RATE_HZ
from flows.runs.serve import run_server
from kame_model.serve.client.client import ServerCall, play_in_real_time, talk
from tests.support.serving import tiny_checkpoint

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny checkpoint, and beside it a certificate for 127.0.0.1 with its key."""
    folder = tmp_path_factory.mktemp("tls")
    tiny_checkpoint(folder)
    certify(folder / "chain.pem", folder / "key.pem")
    certify(folder / "other.pem", folder / "other-key.pem")
    return folder


def certify(chain: Path, key_file: Path) -> None:
    """Writes a certificate that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kame")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))


def with_password(folder: Path) -> None:
    """Writes the key once more, as secret-key.pem."""
    key = serialization.load_pem_private_key((folder / "key.pem").read_bytes(), None)
    encrypted = serialization.BestAvailableEncryption(b"open sesame")
    (folder / "secret-key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encrypted)
    )


def config(folder: Path, **care: Any) -> ServeConfig:
    """A server whose chat model is down."""
    chat = {"engine": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "none"}
    files = {"certificate": str(folder / "chain.pem"), "private_key": str(folder / "key.pem")}
    return ServeConfig.model_validate(
        {
            "checkpoint": str(folder / "export"),
            "port": 0,
            "device": "cpu",
            "back_ends": [{"chat": chat}],
            "listener": {"engine": "double"},
            "cascade": {"tts": "double"},
            "limits": {"max_sessions": 1},
            "care": files | care,
        }
    )


@pytest.fixture
def trusted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """Trusts the certificate, as `kame talk` is told to."""
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "chain.pem"))
    return ssl.create_default_context(cafile=folder / "chain.pem")


async def test_a_conversation_over_tls(folder: Path, trusted: ssl.SSLContext) -> None:
    sound = np.zeros(SAMPLE_RATE_HZ, np.float32)
    async with run_server(config(folder)) as running:
        assert running.url.startswith("https://127.0.0.1:")
        async with httpx.AsyncClient(verify=trusted) as client:
            assert (await client.get(f"{running.url}/readyz")).status_code == 200
            page = await client.get(running.url)
        talked = await talk(ServerCall(url=running.url), play_in_real_time(sound, silence_s=0.2))
    assert "<title>Talk with KAME</title>" in page.text
    assert page.headers["strict-transport-security"] == "max-age=31536000"
    assert talked.ended == ""
    assert talked.events[0]["kind"] == "started"
    assert talked.player.n_samples > SAMPLE_RATE_HZ / 2


async def test_browsers_are_not_kept_to_tls_where_the_host_says_so(folder: Path, trusted: ssl.SSLContext) -> None:
    async with run_server(config(folder, hsts_s=0)) as running, httpx.AsyncClient(verify=trusted) as client:
        assert "strict-transport-security" not in (await client.get(f"{running.url}/healthz")).headers


async def test_who_does_not_finish_the_handshake_is_closed_in_time(folder: Path, trusted: ssl.SSLContext) -> None:
    limits = {"max_sessions": 1, "entry_timeout_s": 0.1}
    patient = config(folder).model_copy(update={"limits": LimitsConfig.model_validate(limits)})
    async with run_server(patient) as running, asyncio.timeout(30):
        url = httpx.URL(running.url)
        silent = [await asyncio.open_connection(url.host, url.port) for _ in range(12)]
        for reader, writer in silent:
            with suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
        async with httpx.AsyncClient(verify=trusted) as client:
            figures = (await client.get(f"{running.url}/metrics")).text
    assert 'kame_connections{state="before_entry"} 1.0' in figures


async def test_who_does_not_trust_it_or_speaks_without_tls_is_told(folder: Path) -> None:
    sound = np.zeros(SAMPLE_RATE_HZ, np.float32)
    async with run_server(config(folder)) as running:
        with pytest.raises(BackendError, match=r"no trusted certificate.*SSL_CERT_FILE"):
            await talk(ServerCall(url=running.url), play_in_real_time(sound, 0))
        with pytest.raises(BackendError, match="No server answers"):
            await talk(ServerCall(url=running.url.replace("https", "http")), play_in_real_time(sound, 0))
        await asyncio.sleep(0)
        assert running.server.sessions == {}


@pytest.mark.parametrize(
    ("care", "told"),
    [
        ({"certificate": "none.pem"}, "none.pem"),
        ({"private_key": "other-key.pem"}, "other-key.pem"),
        ({"certificate": "key.pem"}, "key.pem"),
        ({"private_key": "secret-key.pem"}, "without a password"),
    ],
    ids=["not there", "of another certificate", "no certificate", "with a password"],
)
async def test_files_that_do_not_fit_are_told_before_anything_is_loaded(
    folder: Path, care: dict[str, str], told: str
) -> None:
    with_password(folder)
    faulty = config(folder, **{name: str(folder / file) for name, file in care.items()})
    with pytest.raises(ConfigError, match=told):
        async with run_server(faulty.model_copy(update={"checkpoint": "there/is-none"})):
            pass
