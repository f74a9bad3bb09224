"""coqui-tts in its worker, by its public class `TTS.api.TTS`: XTTS, VITS and the other models that it loads."""

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch

from backends.workers.engines.torchaudio_on_cpu import disable_cuda_library
from backends.workers.frames import EngineRefusal

disable_cuda_library()
from TTS.api import TTS  # noqa: E402

_BLOCK_BYTES = 1 << 20
_SPEAKABLE = re.compile(r"\w")
_EASY = "Yes, I do."
"""A text that every model can say, to detect a broken engine."""

_FADE_S = 0.005
_GAP_SAMPLES = 1_000  # the API appends 10,000 zeros to each sentence; no model makes that many itself


class CoquiSynthesiser:
    """One model on one device, seeded for each text, so that the same request gives the same audio."""

    def __init__(self, options: dict[str, Any]) -> None:
        torch.set_num_threads(options["threads"])
        paths = {name: options[name] or None for name in ("model_path", "config_path", "speakers_path")}
        missing = [path for path in (*paths.values(), *options["speaker_wavs"]) if path and not Path(path).exists()]
        if missing:
            raise EngineRefusal(f"there is no {', '.join(missing)}")
        self._api = TTS(
            options["model"],
            model_path=paths["model_path"],
            config_path=paths["config_path"],
            speakers_file_path=paths["speakers_path"],
            progress_bar=False,
        ).to(options["device"])
        self._api.synthesizer.use_cuda = options["device"] != "cpu"
        self._language = _choose_language(self._api, options["language"])
        self._wavs = {Path(path).stem: path for path in options["speaker_wavs"]}
        self._length_scale = getattr(self._api.synthesizer.tts_model, "length_scale", 1.0)

    def describe(self, arguments: dict[str, Any], sound: bytes) -> tuple[dict[str, Any], bytes]:
        """Returns `voices`, `files` (digests of the model's files), `licence`, `has_speed` and `max_chars`.

        `voices` are the recordings to clone with their digests, or, if there are none, the model's speakers, whose
        digests are their names.
        """
        speakers = [] if self._wavs else (self._api.speakers or [])
        voices = {name: _digest_model(Path(path)) for name, path in self._wavs.items()} | {
            name: name for name in speakers
        }
        synthesizer = self._api.synthesizer
        more = (getattr(synthesizer, name, None) for name in ("tts_speakers_file", "tts_languages_file"))
        files = (synthesizer.tts_checkpoint, synthesizer.tts_config_path, synthesizer.vocoder_checkpoint, *more)
        digests = [_digest_model(Path(file)) for file in files if file and Path(file).exists()]
        licence = _find_licence(self._api.manager.models_dict, self._api.model_name)
        description = {"voices": voices, "files": digests, "licence": licence}
        return description | {"has_speed": self._has_speed(), "max_chars": self._find_max_chars()}, b""

    def probe(self) -> None:
        """Synthesises an easy text."""
        self.synthesise({"text": _EASY, "voice": self._choose_voice(), "speed": 1.0, "seed": 0}, b"")

    def synthesise(self, arguments: dict[str, Any], sound: bytes) -> tuple[dict[str, Any], bytes]:
        """Synthesises `text` by `voice` (empty: the model's only one) at `speed`; returns audio and its sample rate.

        Silence at the end is removed, and audio is faded at the silences between sentences to avoid clicks.

        Raises:
            EngineRefusal: there is nothing to say in the text, the model gives no sound for it, or it lacks the speed.
        """
        text, voice = arguments["text"], arguments["voice"]
        if not _SPEAKABLE.search(text):
            raise EngineRefusal(f"there is nothing to say in {text!r}")
        torch.manual_seed(arguments["seed"])
        np.random.seed(arguments["seed"] % (1 << 32))  # coqui's own code draws from it
        who = {"speaker_wav": self._wavs[voice]} if voice in self._wavs else {"speaker": voice or None}
        how = self._make_speed_options(arguments["speed"])
        with torch.inference_mode():
            spoken = self._api.tts(text, language=self._language, **who, **how)
        samples = np.asarray(spoken, dtype="<f4")
        heard = np.flatnonzero(samples)
        if not np.isfinite(samples).all() or not heard.size:
            raise EngineRefusal(f"the model gives no sound for {text[:80]!r}")
        rate_hz = int(self._api.synthesizer.output_sample_rate)
        return {"sample_rate_hz": rate_hz}, _fade_sentences(samples[: heard[-1] + 1], heard, rate_hz).tobytes()

    def _make_speed_options(self, speed: float) -> dict[str, float]:
        """Returns the speed as arguments of a call for XTTS; for VITS, sets its length scale, and returns none.

        Raises:
            EngineRefusal: the model has only speed 1, and another is wanted.
        """
        model = self._api.synthesizer.tts_model
        if hasattr(model, "length_scale"):
            model.length_scale = self._length_scale / speed
            return {}
        if self._is_xtts():
            return {"speed": speed}
        if speed != 1.0:
            raise EngineRefusal(f"{type(model).__name__} speaks at speed 1 only")
        return {}

    def _has_speed(self) -> bool:
        """Returns whether the model supports other speeds than 1."""
        return self._is_xtts() or hasattr(self._api.synthesizer.tts_model, "length_scale")

    def _is_xtts(self) -> bool:
        return "xtts" in type(self._api.synthesizer.tts_model).__name__.lower()

    def _find_max_chars(self) -> int | None:
        """Returns XTTS's limit of characters for the language, or None for other models.

        XTTS drops the end of longer texts, and fails above 400 tokens.
        """
        tokenizer = getattr(self._api.synthesizer.tts_model, "tokenizer", None)
        limits: dict[str, int] = getattr(tokenizer, "char_limits", {})
        return limits.get((self._language or "").split("-")[0])

    def _choose_voice(self) -> str:
        """Returns the first voice to clone, else the model's first speaker; empty if the model has only one voice."""
        return next(iter(self._wavs), "") or next(iter(self._api.speakers or []), "")


def _fade_sentences(samples: Any, heard: Any, rate_hz: int) -> Any:
    """Returns the audio with fades at long silences, which separate sentences.

    `heard` are the indices of samples that are not 0.
    """
    soft = samples.copy()
    for at in np.flatnonzero(np.diff(heard) > _GAP_SAMPLES):
        end, start = heard[at] + 1, heard[at + 1]
        n_fade = min(int(_FADE_S * rate_hz), end, len(soft) - start)
        fade = np.linspace(0, 1, n_fade, dtype="<f4")
        soft[end - n_fade : end] *= fade[::-1]
        soft[start : start + n_fade] *= fade
    return soft


def _choose_language(api: Any, wanted: str) -> str | None:
    """Returns the language argument, which must be None for models of a single language.

    Raises:
        EngineRefusal: the model has several languages, but not the wanted one.
    """
    if not api.is_multi_lingual:
        return None
    if wanted not in api.languages:
        raise EngineRefusal(f"the model does not speak {wanted!r}; it speaks {', '.join(api.languages)}")
    return wanted


def _find_licence(models: dict[str, Any], name: str) -> str:
    """Returns the licence of a model in coqui's own list; empty if the list has none."""
    place: Any = models
    for step in name.split("/"):
        place = place.get(step, {}) if isinstance(place, dict) else {}
    return str(place.get("license", "")) if isinstance(place, dict) else ""


def _digest_model(path: Path) -> str:
    """Computes one SHA-256 over the name and content of a file, or of each file below a model's folder."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    digest = hashlib.sha256()
    for file in files:
        if file.is_file():
            digest.update(file.name.encode())
            with file.open("rb") as stream:
                while block := stream.read(_BLOCK_BYTES):
                    digest.update(block)
    return digest.hexdigest()


ENGINE = CoquiSynthesiser
