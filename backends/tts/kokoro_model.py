"""Kokoro's model: phonemes to sound, and how long each phoneme lasts.

The published graph gives the sound alone; the durations it makes on the way are named as a second output when it is
loaded. One session a process.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.engine import Samples
from backends.tts import kokoro_assets
from data_schemas.errors import BackendError

DURATION_UNIT_S = 0.025
"""Durations count in 600 samples at 24 kHz; their sum is exactly the sound's length."""

_DURATIONS = "/encoder/Clip_output_0"


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A piece of speech as the model gave it.

    Symbol k of `phonemes` lasts from `edges_s[k]` to `edges_s[k + 1]`, float64 [n_phonemes + 1], in the model's count.
    """

    phonemes: str
    samples: Samples
    edges_s: NDArray[np.float64]


def say(phonemes: str, table: kokoro_assets.VoiceTable, speed: float) -> Piece:
    """Says at most 510 phonemes; those outside the model's vocabulary are left out, and of `Piece.phonemes` too."""
    known = tokenizer().known(phonemes)
    tokens = tokenizer().tokenize(known)
    inputs = {
        "tokens": np.array([[0, *tokens, 0]], dtype=np.int64),
        "style": table[np.newaxis, len(tokens) - 1],  # [1, 256]
        "speed": np.array([speed], dtype=np.float32),
    }
    sound, durations = session().run(["audio", _DURATIONS], inputs)
    return Piece(known, sound.reshape(-1), np.cumsum(durations.reshape(-1)[:-1], dtype=np.float64) * DURATION_UNIT_S)


@cache
def tokenizer() -> Any:
    """Text to phonemes by eSpeak NG, and phonemes to the model's tokens.

    Raises:
        BackendError: eSpeak does not load.
    """
    from kokoro_onnx.tokenizer import Tokenizer

    try:
        return Tokenizer()
    except (RuntimeError, OSError) as error:
        raise BackendError(f"eSpeak NG does not load: {error}.", "Type: make install") from error


@cache
def session() -> Any:
    """The model, ready to run, on one thread: processes, not threads, fill the cores."""
    import onnx
    import onnxruntime

    model = onnx.load(str(kokoro_assets.model_path()))  # the file's SHA-256 has been checked
    model.graph.output.append(onnx.helper.make_tensor_value_info(_DURATIONS, onnx.TensorProto.FLOAT, None))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
