"""Codec 2 with a neural encoder and decoder: three codes per frame, of which two tell what is said and one how.

The encoder hears 8 kHz audio as a log-mel spectrogram and gives each 40 ms one entry of a codebook. It is trained to
keep the phonemes (as CosyVoice's supervised semantic tokens, arXiv 2407.05407, keep the words), so that a front-end
finds the codes in its text, rather than noise. A third code has the pitch and the power of the 80 ms. The decoder
computes the parameters of Codec 2 at 3,200 bit/s for one voice, that of its training (`kame_model/codec/neural.py`).

Both see one frame ahead: codes describe the frame before, and audio is that of the codes before. Otherwise everything
is causal convolution with the past in the state of the stream.
"""

import math
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from backends.codec.codec2 import RECIPE, VocoderCodec
from backends.codec.codec2_parameters import (
    MODE,
    N_LINES,
    QUIET_DB,
    Parameters,
    get_octaves,
    get_pitch_levels,
    mel_to_hz,
    read_parameters,
    to_mel,
    write_parameters,
)
from backends.codec.learnt_files import LEARNT_FILES
from backends.options import FilePath, Options, OptionValue
from data_schemas import ids
from data_schemas.code_layout import CodeLayout
from data_schemas.errors import BackendError, ConfigError
from data_schemas.fingerprint import get_versions

WEIGHTS: Final = LEARNT_FILES["codec2-neural"]

N_MELS: Final = 32
N_WINDOWS: Final = 8
"""Spectra per frame, one every 10 ms."""
N_HALVES: Final = 2
"""Codes of what is said per frame, one every 40 ms."""
AHEAD: Final = 2
"""Halves of a frame that encoder and decoder see ahead."""
N_TARGETS: Final = N_LINES + 4
"""Numbers for 20 ms: ten line frequencies, power, pitch, and voicing of twice 10 ms."""
N_PROSODY: Final = 4
"""Numbers for 80 ms: pitch, power of each half, and share of voiced sound."""

_RECIPE: Final = 1
"""Version of the processing in this file; raise it when codes or audio change."""
_TEXT_LEAD: Final = 1
"""Frames by which a front-end's text is ahead of the codes, which are one frame late themselves."""
_TEMP: Final = 0.4
_FULL_SCALE: Final = 32_768
_SETTLED: Final = 25
"""Frames of silence after which the state no longer changes: more than the layers see."""
_HOP, _WINDOW, _N_FFT = 80, 200, 256
"""Samples at 8 kHz from one spectrum to the next and of each, and the length of its Fourier transform."""
N_BEFORE: Final = _WINDOW - _HOP
"""Samples at 8 kHz before a frame that its spectra need."""
_DIM: Final = 24
"""Dimensions of a codebook entry."""
_FLOOR: Final = 1e-6
_DB, _OCTAVES = (40.0, 15.0), (1.2, 1 / 3)
"""Mean and scale of power, dB, and of pitch, octaves above 50 Hz, as the decoder computes them."""


_SILENCE: Final = Parameters(  # as Codec 2 itself encodes silence: -72 dB of full scale
    np.tile(np.array([25.0, 400, 800, 1100, 1400, 1700, 2100, 2500, 2900, 3300]), (4, 1)),
    np.zeros((4, 2), np.int64),
    np.zeros(4, np.int64),
    np.zeros(4),
)


class NeuralCodec2Options(Options):
    """Options for the trained networks."""

    path: FilePath = Field(description="Folder that `kame speech` wrote (its `codec`).")


class CausalConv(nn.Conv1d):
    """A convolution over the past: the output for a position needs no later input.

    With `past`, the inputs that the next call needs are kept in it, by layer; without, zeros come first.
    """

    def forward(self, x: Tensor, past: "Past | None" = None) -> Tensor:
        """Convolves [B, n_in, n] to [B, n_out, n / stride], after the last inputs in `past`, which is updated."""
        (size,), (step,), (stride,) = self.kernel_size, self.dilation, self.stride
        n_before = (size - 1) * step + 1 - stride
        if past is None:
            return super().forward(functional.pad(x, (n_before, 0)))
        before = past.get(self)
        x = functional.pad(x, (n_before, 0)) if before is None else torch.cat([before, x], dim=-1)
        past[self] = x[..., x.shape[-1] - n_before :]
        windows = x.unfold(-1, n_before + stride, stride)[..., ::step]  # a convolution of two positions, in a tenth of
        flat = functional.linear(windows.transpose(1, 2).flatten(2), self.weight.flatten(1), self.bias)  # oneDNN's time
        return flat.transpose(1, 2)


Past = dict[CausalConv, Tensor]
"""The last inputs of each layer, [B, n_in, n_before]: the state of one stream."""


class Residual(nn.Module):
    """A causal convolution and a layer for each position, added to their input."""

    def __init__(self, width: int, dilation: int, dropout: float) -> None:
        super().__init__()
        self.mix = CausalConv(width, width, 3, dilation=dilation)
        self.drop = nn.Dropout(dropout)
        self.out = CausalConv(width, width, 1)

    def forward(self, x: Tensor, past: Past | None) -> Tensor:
        """Adds a causal convolution of the input, [B, width, n], to it; continues from `past` and updates it."""
        mixed: Tensor = self.out(self.drop(functional.gelu(self.mix(functional.gelu(x), past))), past)
        return x + mixed


class SpeechEncoder(nn.Module):
    """Maps spectra to points near which there is a codebook entry for what is said."""

    def __init__(self, width: int, dim: int = _DIM) -> None:
        super().__init__()
        self.first = CausalConv(N_MELS, 128, 4, stride=2)
        self.second = CausalConv(128, width, 4, stride=2)
        self.blocks = nn.ModuleList(Residual(width, dilation, 0.1) for dilation in (1, 2, 1, 4))
        self.out = CausalConv(width, dim, 1)

    def forward(self, mels: Tensor, past: Past | None = None) -> Tensor:
        """Maps normalised spectra, [B, N_MELS, 4 n], to points on a sphere, [B, dim, n].

        Point i + AHEAD is that of half i.
        """
        x = self.second(functional.gelu(self.first(mels, past)), past)
        for block in self.blocks:
            x = block(x, past)
        x = self.out(functional.gelu(x), past)
        return torch.as_tensor(functional.normalize(x, dim=1) * x.shape[1] ** 0.5)


class SpeechDecoder(nn.Module):
    """Maps codebook entries and prosody to the numbers of Codec 2's frames."""

    def __init__(self, width: int, n_prosody: int, dim: int = _DIM) -> None:
        super().__init__()
        self.first = CausalConv(dim + n_prosody, width, 1)
        self.blocks = nn.ModuleList(Residual(width, dilation, 0.0) for dilation in (1, 2, 1))
        self.out = CausalConv(width, 2 * N_TARGETS, 1)

    def forward(self, entries: Tensor, prosody: Tensor, past: Past | None = None) -> Tensor:
        """Maps entries, [B, dim, n], and prosody, [B, n_prosody, n], of halves of frames to their targets.

        Those are [B, 2 N_TARGETS, n], for two frames of Codec 2 per half; output i + AHEAD is that of half i.
        """
        x = self.first(torch.cat([entries, prosody], dim=1), past)
        for block in self.blocks:
            x = block(x, past)
        return torch.as_tensor(self.out(functional.gelu(x), past))


class NeuralVocoder(nn.Module):
    """Encoder, decoder, both codebooks, and the statistics by which inputs and outputs are normalised."""

    def __init__(self, width: int, card: int, prosody_card: int) -> None:
        super().__init__()
        self.encoder = SpeechEncoder(width)
        self.decoder = SpeechDecoder(width, N_PROSODY)
        self.register_buffer("entries", torch.randn(card, _DIM))
        self.register_buffer("prosody", torch.zeros(prosody_card, N_PROSODY))
        for name, size in (("mel_mean", N_MELS), ("mel_scale", N_MELS), ("line_mean", 10), ("line_scale", 10)):
            self.register_buffer(name, torch.ones(size))
        self.entries: Tensor
        self.prosody: Tensor
        self.mel_mean: Tensor
        self.mel_scale: Tensor
        self.line_mean: Tensor
        self.line_scale: Tensor

    def find_entries(self, points: Tensor) -> Tensor:
        """Returns the index of the nearest entry for points [..., dim]."""
        return (2 * points @ self.entries.T - self.entries.square().sum(dim=1)).argmax(dim=-1)

    def normalise(self, mels: Tensor) -> Tensor:
        """Returns spectra, [..., N_MELS], normalised by the mean and scale of each band."""
        return (mels - self.mel_mean) / self.mel_scale


class _State:
    """The state of one stream: the layers' pasts, the last samples heard, and the prosody of the frame before."""

    def __init__(self) -> None:
        self.past: Past = {}
        self.heard = np.zeros(N_BEFORE, np.int16)
        self.prosody = 0

    def copy(self) -> "_State":
        """Returns a copy that can be changed independently."""
        copied = _State()
        copied.past, copied.heard, copied.prosody = dict(self.past), self.heard, self.prosody
        return copied


class NeuralCodec2(VocoderCodec):
    """Three codes per frame by a trained encoder, and Codec 2's parameters from them by a trained decoder.

    Raises:
        ConfigError: the folder has no networks.
        BackendError: they are damaged.
    """

    name = "codec2-neural"

    def __init__(self, options: NeuralCodec2Options) -> None:
        super().__init__(MODE)
        self._file: Final = Path(options.path) / WEIGHTS
        self._net: Final = read_networks(self._file)
        self._prosody: Final = self._net.prosody.numpy()

    @property
    def digest(self) -> str:
        """Digest of the library's version, the recipes of both files, and the networks."""
        return ids.digest(self.name, RECIPE, _RECIPE, get_versions("pycodec2"), ids.compute_sha256(self._file))

    @cached_property
    def layout(self) -> CodeLayout:
        """Three codes a frame of equal weight in the loss: the sounds of its first and second half, and its prosody."""
        n_entries, n_prosody = len(self._net.entries), len(self._net.prosody)
        return CodeLayout.make_parametric([n_entries] * N_HALVES + [n_prosody], _TEXT_LEAD, _TEMP)

    def save(self, folder: str) -> dict[str, OptionValue]:
        """Copies the file of the networks into the folder; there are no other options."""
        (Path(folder) / WEIGHTS).write_bytes(self._file.read_bytes())
        return {}

    def make_state(self) -> _State:
        """Makes the state of a stream that has been silent before."""
        return self._settled[0].copy()

    def encode_parts(self, parts: Sequence[bytes], pcm: NDArray[np.int16], state: _State) -> NDArray[np.int16]:
        """Encodes a frame; the codes are those of the frame before.

        A frame without audible sound has the same codes whatever is around it.
        """
        samples = np.concatenate([state.heard, pcm])
        state.heard = samples[-N_BEFORE:]
        prosody, state.prosody = state.prosody, self._find_prosody(read_parameters(self.read_bits(parts)))
        with torch.inference_mode():
            mels = self._net.normalise(torch.from_numpy(compute_mels(samples))).T[None]
            said = self._net.find_entries(self._net.encoder(mels, state.past)[0].T).numpy()
        return np.array([*said, prosody], np.int16) if prosody else self.silence.copy()

    def decode_parts(self, codes: NDArray[np.int16], state: _State) -> list[bytes]:
        """Decodes a frame; the audio is that of the codes before, silence if their third code, the prosody, was 0.

        A code is taken modulo its codebook's size.
        """
        said, prosody = codes[:N_HALVES] % len(self._net.entries), int(codes[N_HALVES]) % len(self._prosody)
        with torch.inference_mode():
            entries = self._net.entries[torch.from_numpy(said.astype(np.int64))].T[None]
            how = self._net.prosody[prosody, None].expand(N_HALVES, -1).T[None]
            targets = self._net.decoder(entries, how, state.past)[0].T.reshape(-1, N_TARGETS).numpy()
        was_quiet, state.prosody = state.prosody == 0, prosody
        parameters = _SILENCE if was_quiet else self._to_parameters(targets)
        return [part.tobytes() for part in np.packbits(write_parameters(parameters), axis=1)]

    @cached_property
    def silence(self) -> NDArray[np.int16]:
        """The codes of a silent frame, [n_codebooks], once the encoder has settled."""
        return self._settled[1]

    @cached_property
    def _settled(self) -> tuple[_State, NDArray[np.int16]]:
        """The state after enough silence that the layers no longer change, and the codes of silence."""
        state, silent = _State(), torch.full((N_WINDOWS, N_MELS), math.log10(_FLOOR))
        how = self._net.prosody[:1].expand(N_HALVES, -1).T[None]
        with torch.inference_mode():
            mels = self._net.normalise(silent).T[None]
            for _ in range(_SETTLED):
                said = self._net.find_entries(self._net.encoder(mels, state.past)[0].T)
            for _ in range(_SETTLED):
                self._net.decoder(self._net.entries[said].T[None], how, state.past)
        return state, np.array([*said.tolist(), 0], np.int16)

    def _find_prosody(self, parameters: Parameters) -> int:
        """Returns the index of the prosody entry nearest to four frames of Codec 2, one of KAME's; 0: silence."""
        return int(np.square(self._prosody - describe_prosody(parameters)).sum(axis=1).argmin())

    def _to_parameters(self, targets: NDArray[np.float32]) -> Parameters:
        """Converts outputs of the decoder, [n, N_TARGETS], to parameters of Codec 2; the reverse of `make_targets`."""
        lines, power, pitch, voicing = np.split(targets.astype(np.float64), [N_LINES, N_LINES + 1, N_LINES + 2], axis=1)
        net = self._net
        lines_hz = np.sort(mel_to_hz(lines * net.line_scale.numpy() + net.line_mean.numpy()), axis=1)
        octaves = _OCTAVES[0] + _OCTAVES[1] * pitch[:, 0]
        return Parameters(
            lines_hz, (voicing > 0.5).astype(np.int64), get_pitch_levels(octaves), _DB[0] + _DB[1] * power[:, 0]
        )


def compute_mels(pcm: NDArray[np.int16]) -> NDArray[np.float32]:
    """Computes log-mel spectra of audio at 8 kHz, [N_BEFORE + 80 n], one every 10 ms: [n, N_MELS], decadic."""
    windows = np.lib.stride_tricks.sliding_window_view(pcm / _FULL_SCALE, _WINDOW)[::_HOP] * np.hanning(_WINDOW)
    power = np.square(np.abs(np.fft.rfft(windows, _N_FFT)))
    return np.log10(power @ _design_mel_bands().T + _FLOOR).astype(np.float32)


def make_targets(parameters: Parameters) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Converts parameters to what a decoder should compute, [n, N_TARGETS], its lines in mel and not yet normalised.

    Returns:
        The targets, and which of them are defined: neither spectrum nor voicing in silence, no pitch without voice.
    """
    is_loud = parameters.power_db > QUIET_DB
    is_voiced = is_loud & (parameters.voicing.max(axis=1) > 0)
    power = (np.maximum(parameters.power_db, QUIET_DB - 2) - _DB[0]) / _DB[1]
    pitch = (get_octaves(parameters.pitch) - _OCTAVES[0]) / _OCTAVES[1]
    defined = np.column_stack([*[is_loud] * N_LINES, np.ones_like(is_loud), is_voiced, is_loud, is_loud])
    return np.column_stack([to_mel(parameters.lines_hz), power, pitch, parameters.voicing]), defined


def describe_prosody(parameters: Parameters) -> NDArray[np.float64]:
    """Describes each four frames of Codec 2 by N_PROSODY numbers: [4 n] to [n, N_PROSODY].

    A step of 1 is about 2.4 semitones, 4 dB, or half of the frame voiced: differences that are heard about equally.
    """
    power_db = np.clip(parameters.power_db - QUIET_DB, 0, None).reshape(-1, 4)
    is_voiced = parameters.voicing.max(axis=1).reshape(-1, 4) * (power_db > 0)
    n_voiced = is_voiced.sum(axis=1)
    octaves = (get_octaves(parameters.pitch).reshape(-1, 4) * is_voiced).sum(axis=1) / np.maximum(n_voiced, 1)
    pitch = 5 * octaves * np.minimum(n_voiced / 2, 1)
    return np.column_stack([pitch, power_db[:, :2].mean(axis=1) / 4, power_db[:, 2:].mean(axis=1) / 4, n_voiced / 2])


def read_networks(file: Path) -> NeuralVocoder:
    """Reads the networks of a file, whose shapes follow from its tensors.

    Raises:
        ConfigError: there is no such file.
        BackendError: it is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not file.is_file():
        raise ConfigError(f"There is no file {file}.", "Create it with `kame speech`, and set its folder.")
    try:
        weights = {name: each.float() for name, each in load_file(file).items()}
        net = NeuralVocoder(len(weights["decoder.out.weight"][0]), len(weights["entries"]), len(weights["prosody"]))
        net.load_state_dict(weights)
    except (SafetensorError, KeyError, RuntimeError) as error:
        what = (str(error).splitlines() or [type(error).__name__])[0]
        raise BackendError(f"{file} contains no networks of this codec: {what}.", "Copy or create it again.") from error
    return net.eval().requires_grad_(False)


@cache
def _design_mel_bands() -> NDArray[np.float64]:
    """Returns triangular bands of equal width in mel, 60 to 3,900 Hz, as weights of the spectrum: [N_MELS, bins]."""
    low, high = (2_595 * math.log10(1 + hz / 700) for hz in (60, 3_900))
    edges = np.linspace(low, high, N_MELS + 2)[:, None]
    mel = 2_595 * np.log10(1 + np.linspace(0, 4_000, _N_FFT // 2 + 1) / 700)
    rising = (mel - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - mel) / (edges[2:] - edges[1:-1])
    return np.asarray(np.clip(np.minimum(rising, falling), 0, None))
