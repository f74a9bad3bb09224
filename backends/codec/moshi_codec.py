"""Wraps moshi's `MimiModel` of any size as a codec: batches of whole recordings, and streams of frames."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from backends.codec.protocol import CodecStream, Codes
from backends.engine import Samples
from backends.options import OptionValue
from data_schemas.code_layout import CodeLayout
from data_schemas.errors import ConfigError
from data_schemas.units import FRAME_N_SAMPLES, count_covering_frames

if TYPE_CHECKING:
    from moshi.models.compression import MimiModel
    from torch import Tensor

_STEP_FRAMES = 16
"""Recordings are padded with silence to a multiple of this, so that those of similar length share a batch."""

_ROWS = 2
"""Recordings per batch on an accelerator: the two voices of a dialogue, which have the same length, so that no row is
empty.

Counted for 64 dialogues of 12 to 56 s: 1.02 times the work of their frames; with as many rows as make 2,000 frames it
is 1.4 times, with 12,000 frames 6.4 times, and for one dialogue alone 2.6 and 16 times."""

_FRAMES_AT_ONCE = 12_000
"""Maximum frames per batch, about 6 GB for each of Mimi's widest activations (64 channels at 24 kHz)."""


def choose_device(wanted: str) -> str:
    """Returns cuda, or cpu on a machine without it, for `auto`, and any other device as it is.

    Raises:
        ConfigError: a CUDA device is wanted and there is none; other devices are not checked.
    """
    import torch

    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if wanted.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError("There is no CUDA device here.", "Choose cpu or auto.")
    return wanted


class MoshiCodec:
    """A `MimiModel` as a `Codec`.

    The shape of a batch depends only on a recording's own length, never on the rest of the batch: kernels round
    differently for another shape, and a latent halfway between two entries would get another code. A batch that is not
    full is filled with silence. On a CPU a batch is one recording: more at a time were not faster there (tested with 1,
    2, 4 and 8 recordings of 5 s).

    Args:
        files: the files of the model, by the names in a folder that `folder.py` describes.
        n_rows: recordings per batch; None: as many as suit the device.
    """

    def __init__(
        self,
        model: "MimiModel",
        kwargs: dict[str, Any],
        digest: str,
        device: str,
        files: Mapping[str, Path],
        n_rows: int | None = None,
    ) -> None:
        self.model = model.eval()
        self.kwargs = kwargs
        self.digest = digest
        self.device = device
        self._files = files
        self._n_rows = n_rows or (1 if device == "cpu" else _ROWS)

    @property
    def n_codebooks(self) -> int:
        """Number of codebooks in use."""
        return int(self.model.num_codebooks)

    @property
    def card(self) -> int:
        """Size of each codebook."""
        return int(self.model.cardinality)

    @property
    def layout(self) -> CodeLayout:
        """The layout of Mimi."""
        return CodeLayout.make_mimi(self.n_codebooks, self.card)

    def save(self, folder: str) -> dict[str, OptionValue]:
        """Copies its files into the folder, with all codebooks; the returned option says how many of them are used."""
        for name, file in self._files.items():
            shutil.copyfile(file, Path(folder) / name)
        return {"n_codebooks": self.n_codebooks}

    def encode(self, sounds: Sequence[Samples]) -> list[Codes]:
        """Encodes each recording to int16 [n_codebooks, n_frames].

        Raises:
            RuntimeError: a stream of this codec is open.
        """
        self._check_no_stream()
        found = [np.zeros((self.n_codebooks, 0), dtype=np.int16)] * len(sounds)
        for n_frames, n_rows, members in self._make_batches([count_covering_frames(len(each)) for each in sounds]):
            batch = np.zeros((n_rows, 1, n_frames * FRAME_N_SAMPLES), dtype=np.float32)
            for row, member in enumerate(members):
                batch[row, 0, : len(sounds[member])] = sounds[member]
            codes = self._encode(batch)
            for row, member in enumerate(members):
                found[member] = codes[row, :, : count_covering_frames(len(sounds[member]))].copy()
        return found

    def decode(self, codes: Codes) -> Samples:
        """Decodes codes [n_codebooks, n_frames] to audio, 1,920 samples per frame.

        Raises:
            RuntimeError: a stream of this codec is open.
        """
        self._check_no_stream()
        if codes.shape[1] == 0:
            return np.zeros(0, dtype=np.float32)
        sound: Samples = self._decode(codes[None])[0]
        return sound

    @contextmanager
    def stream(self, batch_size: int) -> Iterator[CodecStream]:
        """Yields a stream of `batch_size` voices, all active, for the duration of the block.

        Raises:
            RuntimeError: a stream of this codec is already open.
        """
        self._check_no_stream()
        with self.model.streaming(batch_size):
            yield _Stream(self)

    def _check_no_stream(self) -> None:
        """Raises RuntimeError if a stream of this codec is open."""
        if self.model.is_streaming:
            raise RuntimeError("a stream of this codec is open, and its model has that stream's state")

    def _make_batches(self, n_frames: Sequence[int]) -> Iterator[tuple[int, int, list[int]]]:
        """Yields for each batch its frames per row, its rows, and its recordings' indices, of which there may be fewer.

        `n_frames` are the recordings' lengths; those without frames are skipped.
        """

        def round_up(index: int) -> int:
            return -(-n_frames[index] // _STEP_FRAMES) * _STEP_FRAMES

        wanted = sorted((index for index in range(len(n_frames)) if n_frames[index]), key=round_up)
        for length, group in groupby(wanted, key=round_up):
            members = list(group)
            n_rows = max(1, min(self._n_rows, _FRAMES_AT_ONCE // length))
            for start in range(0, len(members), n_rows):
                yield length, n_rows, members[start : start + n_rows]

    def _encode(self, batch: NDArray[np.float32]) -> NDArray[np.int16]:
        """Encodes [B, 1, n_samples] to [B, n_codebooks, n_frames]."""
        import torch

        with torch.no_grad(), self._skip_compilation():
            codes: Tensor = self.model.encode(torch.from_numpy(batch).to(self.device))
            return codes.to(torch.int16).cpu().numpy()

    def _decode(self, codes: NDArray[np.int16]) -> NDArray[np.float32]:
        """Decodes [B, n_codebooks, n_frames] to [B, n_samples]."""
        import torch

        with torch.no_grad(), self._skip_compilation():
            sound: Tensor = self.model.decode(torch.from_numpy(codes.astype(np.int64)).to(self.device))
            return sound[:, 0].float().clamp(-1, 1).cpu().numpy()  # SEANet's output is unbounded

    def _skip_compilation(self) -> AbstractContextManager[None]:
        """Returns a context without moshi's `torch.compile` on a CPU, where it needs a C++ compiler and a minute."""
        from moshi.utils.compile import no_compile

        return no_compile() if self.device == "cpu" else nullcontext()


class _Stream:
    """The open streams of a codec; encoder and decoder run independently, one frame per call each."""

    def __init__(self, codec: MoshiCodec) -> None:
        self._codec = codec

    def encode_frame(self, samples: NDArray[np.float32]) -> NDArray[np.int16]:
        """Encodes [B, 1920] to [B, n_codebooks]."""
        return self._codec._encode(np.ascontiguousarray(samples, dtype=np.float32)[:, None])[..., 0]

    def decode_frame(self, codes: NDArray[np.int16]) -> NDArray[np.float32]:
        """Decodes [B, n_codebooks] to [B, 1920]."""
        return self._codec._decode(codes[..., None])

    def set_active(self, active: NDArray[np.bool_]) -> None:
        """Sets which streams are active from now on."""
        import torch

        self._codec.model.set_exec_mask(torch.from_numpy(active))

    def reset(self, streams: NDArray[np.bool_]) -> None:
        """Resets streams and makes them active (like moshi's own reset)."""
        import torch

        self._codec.model.reset_streaming(torch.from_numpy(streams))
