"""WhisperX forced alignment in its worker: aligns a known text with a wav2vec2 model's letters."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from backends.workers.engines.torchaudio_on_cpu import disable_cuda_library
from backends.workers.frames import EngineRefusal

disable_cuda_library()
from nltk.tokenize.punkt import PunktSentenceTokenizer  # noqa: E402
from whisperx import alignment  # noqa: E402

SAMPLE_RATE_HZ = 16_000


class Wav2Vec2Aligner:
    """A wav2vec2 model of letters on one device."""

    def __init__(self, options: dict[str, Any]) -> None:
        torch.set_num_threads(options["threads"])
        # Its sentence splitter would be downloaded. Words without full stops are one sentence for any splitter.
        alignment.nltk_load = lambda place: PunktSentenceTokenizer()
        if options["model_path"] and not Path(options["model_path"]).is_dir():
            raise EngineRefusal(f"there is no folder {options['model_path']}")
        self._device = options["device"]
        self._align = alignment.align
        self._model, self._metadata = alignment.load_align_model(
            options["language"],
            self._device,
            model_name=options["model_path"] or options["model"] or None,
            model_cache_only=bool(options["model_path"]),
        )
        self._model.eval()

    def describe(self, arguments: dict[str, Any], sound: bytes) -> tuple[dict[str, Any], bytes]:
        """Returns a digest of the weights and letters."""
        digest = hashlib.sha256(repr(sorted(self._metadata["dictionary"].items())).encode())
        for name, weights in sorted(self._model.state_dict().items()):
            digest.update(name.encode() + weights.cpu().contiguous().numpy().tobytes())
        return {"digest": digest.hexdigest()}, b""

    def probe(self) -> None:
        """Aligns a word with a second of noise, in which any word is found somewhere."""
        noise = np.random.default_rng(0).normal(0, 0.1, SAMPLE_RATE_HZ).astype("<f4")
        self.align({"words": ["yes"]}, noise.tobytes())

    def align(self, arguments: dict[str, Any], sound: bytes) -> tuple[dict[str, Any], bytes]:
        """Returns start, end (seconds) and score of each of `words` in the audio (16 kHz).

        whisperx guesses the time of a word that it cannot align from the neighbouring words; such a word has no score.

        Raises:
            EngineRefusal: a word has no score, the model knows none of its letters, or whisperx returns other words.
        """
        words, known = arguments["words"], self._metadata["dictionary"]
        if unknown := [word for word in words if not any(letter in known for letter in word.lower())]:
            raise EngineRefusal(f"the model knows no letter of {unknown[0]!r}")
        samples = np.frombuffer(sound, dtype="<f4").copy()
        segment = {"text": " ".join(words), "start": 0.0, "end": len(samples) / SAMPLE_RATE_HZ}
        found = self._align([segment], self._model, self._metadata, samples, self._device)["word_segments"]
        if [each["word"] for each in found] != words:
            raise EngineRefusal(f"{len(found)} of {len(words)} words found")
        if untimed := [each["word"] for each in found if not {"start", "end", "score"} <= each.keys()]:
            raise EngineRefusal(f"no time for {untimed[0]!r}")
        return {"words": [[float(each[name]) for name in ("start", "end", "score")] for each in found]}, b""


ENGINE = Wav2Vec2Aligner
