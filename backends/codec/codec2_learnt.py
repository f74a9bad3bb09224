"""Codec 2 with codebooks learnt from speech: six codes per frame, or four, for the voices they come from.

The parameters of Codec 2 at 3,200 bit/s, one set per 20 ms, become codes of 40 ms: the spectrum's line frequencies,
held for 40 ms, by k-means in one stage or several (residual quantisation); and voicing, pitch and power together, by
the example nearest to each mean. Each of the two halves of a frame has a code per stage and one more: a frame has six
codes with two stages, the default, and four with one.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from backends.codec.codec2 import RECIPE, TEXT_LEAD, Codec2, Codec2Options, FramewiseCodec
from backends.codec.codec2_parameters import (
    MODE,
    QUIET_DB,
    Parameters,
    compute_gain_db,
    get_octaves,
    mel_to_hz,
    read_parameters,
    to_mel,
    write_parameters,
)
from backends.codec.k_means import refine_means
from backends.codec.learnt_files import LEARNT_FILES
from backends.options import FilePath, Options, OptionValue
from data_schemas import ids
from data_schemas.code_layout import CodeLayout
from data_schemas.errors import BackendError, ConfigError, DatasetError
from data_schemas.fingerprint import get_versions

if TYPE_CHECKING:
    from backends.engine import Samples

BOOKS: Final = LEARNT_FILES["codec2-learnt"]

_RECIPE: Final = "codec2-learnt"
"""Version of this file's processing of audio and codes: append a number when either changes ("codec2-learnt 2").

The first has none, so that checkpoints and token rows made before there was a version keep their digest."""

_TEMP: Final = 0.4
"""Sampling temperature of a front-end's codes: that of the experiment in which a small one learnt to speak them."""

_BEAM: Final = 8
"""Beam width: partial sums kept at each stage of the search for the nearest sum of entries."""
_N_ITERATIONS: Final = 12
_LEAST_EXAMPLES: Final = 20
"""Minimum average number of halves of frames with sound per learnt entry."""
_MOST_ENTRIES: Final = 512


class LearntCodec2Options(Options):
    """Options for the codebooks."""

    path: FilePath = Field(description="Folder that `kame codec learn` wrote.")
    n_stages: int = Field(default=0, ge=0, le=8, description="Number of stages of the spectrum to use; 0: all.")


class Codebooks(NamedTuple):
    """Codebooks: `lines` [n_stages, card, 10] in mel; `voicing` [card, 2, 2], `pitch` and `power_db` [card, 2]."""

    lines: NDArray[np.float32]
    voicing: NDArray[np.int64]
    pitch: NDArray[np.int64]
    power_db: NDArray[np.float32]


class LearntCodec2(FramewiseCodec):
    """Speech as entries of learnt codebooks: the spectrum's by stage, then voicing, pitch and power; each by time.

    Raises:
        ConfigError: the folder has no codebooks, or fewer stages than requested.
        BackendError: they are damaged.
    """

    name = "codec2-learnt"

    def __init__(self, options: LearntCodec2Options) -> None:
        super().__init__(MODE)
        self._file: Final = Path(options.path) / BOOKS
        books = read_codebooks(self._file)
        if options.n_stages > len(books.lines):
            raise ConfigError(
                f"{self._file} has {len(books.lines)} stages, not {options.n_stages}.",
                f"Ask for {len(books.lines)} at most.",
            )
        self._books: Final = books._replace(lines=books.lines[: options.n_stages or None])
        self._prosody: Final = _describe_prosody(books.voicing, books.pitch, books.power_db)
        self._quiet: Final = int(np.argmin(compute_gain_db(mel_to_hz(books.lines[0]))))

    @property
    def digest(self) -> str:
        """Digest of the library's version, the recipes of both files, the codebooks and the number of stages used."""
        return ids.digest(
            _RECIPE, RECIPE, get_versions("pycodec2"), ids.compute_sha256(self._file), len(self._books.lines)
        )

    @cached_property
    def layout(self) -> CodeLayout:
        """The stages of the spectrum and one more codebook, for each half of a frame."""
        n_stages, card, _ = self._books.lines.shape
        return CodeLayout.make_parametric([card] * 2 * (n_stages + 1), TEXT_LEAD, _TEMP)

    def save(self, folder: str) -> dict[str, OptionValue]:
        """Copies the file with all codebooks into the folder; the returned option says how many stages are used."""
        (Path(folder) / BOOKS).write_bytes(self._file.read_bytes())
        return {"n_stages": len(self._books.lines)}

    def to_codes(self, parts: Sequence[bytes]) -> NDArray[np.int16]:
        """Converts four frames of Codec 2 to the codes of one of our frames, [2 * (n_stages + 1)].

        Halves of a frame without sound all have the same codes for the spectrum.
        """
        by_half = read_parameters(self.read_bits(parts)).group_in_pairs()
        is_quiet = (by_half.power_db <= QUIET_DB).all(axis=1)
        lines = _search_entries(to_mel(by_half.lines_hz[:, 1]), self._books.lines)
        lines[0, is_quiet], lines[1:, is_quiet] = self._quiet, 0
        prosody = _describe_prosody(by_half.voicing, by_half.pitch, by_half.power_db)
        nearest = np.square(prosody[:, None] - self._prosody).sum(axis=-1).argmin(axis=1)
        return np.concatenate([*lines, nearest]).astype(np.int16)

    def to_parts(self, codes: NDArray[np.int16]) -> list[bytes]:
        """Converts codes, [2 * (n_stages + 1)], to four frames of Codec 2; a code is taken modulo `card`."""
        *stages, prosody = codes.reshape(-1, 2) % self.card
        mel = sum(book[stage] for book, stage in zip(self._books.lines, stages, strict=True))
        lines_hz = np.sort(mel_to_hz(np.repeat(np.asarray(mel), 2, axis=0)), axis=1)
        books = self._books
        parameters = Parameters(
            lines_hz,
            books.voicing[prosody].reshape(-1, 2),
            books.pitch[prosody].reshape(-1),
            books.power_db[prosody].reshape(-1).astype(np.float64),
        )
        return [part.tobytes() for part in np.packbits(write_parameters(parameters), axis=1)]


def read_codebooks(file: Path) -> Codebooks:
    """Reads the codebooks of a file.

    Raises:
        ConfigError: there is no such file.
        BackendError: it is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    if not file.is_file():
        raise ConfigError(f"There is no file {file}.", "Create it with `kame codec learn`, and set its folder.")
    try:
        return Codebooks(**load_file(file))
    except (SafetensorError, TypeError) as error:
        raise BackendError(f"{file} contains no codebooks: {error}.", "Copy or create it again.") from error


def learn_codebooks(sounds: Sequence["Samples"], n_stages: int, card: int | None, seed: int) -> Codebooks:
    """Learns codebooks by k-means on audio at 24 kHz, which should have some minutes of each voice to encode.

    Args:
        n_stages: codebooks of the spectrum.
        card: entries of each codebook; None: the largest power of two for which there is enough speech, at most 512.

    Raises:
        DatasetError: there is too little speech.
    """
    codec, whole = Codec2(Codec2Options(bits_per_s=3200)), []
    for codes in codec.encode(sounds):
        whole += [part for frame in codes.T for part in codec.to_parts(frame)]
    by_half = read_parameters(codec.read_bits(whole)).group_in_pairs()
    has_sound = (by_half.power_db > QUIET_DB).any(axis=1)
    n_enough = int(has_sound.sum()) // _LEAST_EXAMPLES
    card = card or max(2, min(_MOST_ENTRIES, 1 << max(0, n_enough.bit_length() - 1)))
    if n_enough < card:
        raise DatasetError(
            f"{has_sound.sum() * 0.04:.0f} s of speech are too little for {card} entries.",
            f"Give {_LEAST_EXAMPLES * card * 0.04:.0f} s at least, or ask for fewer entries.",
        )
    rng, left, lines = np.random.default_rng(seed), to_mel(by_half.lines_hz[has_sound, 1]), []
    for _ in range(n_stages):
        lines.append(_find_means(left, card, rng))
        left = left - lines[-1][_find_nearest(left, lines[-1])]
    prosody = _describe_prosody(by_half.voicing, by_half.pitch, by_half.power_db)
    means = _find_means(prosody, card, rng)
    nearest = np.array([np.square(prosody - mean).sum(axis=1).argmin() for mean in means])
    return Codebooks(
        np.stack(lines).astype(np.float32),
        by_half.voicing[nearest],
        by_half.pitch[nearest],
        by_half.power_db[nearest].astype(np.float32),
    )


def _describe_prosody(
    voicing: NDArray[np.integer], pitch: NDArray[np.integer], power_db: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Maps halves of frames to points, [n, 8], whose distance is about as large as the difference that one hears.

    A step of 1 is about 2.4 semitones, 3 dB, or two thirds of a voicing. Voicing is [n, 2, 2], pitch and power [n, 2].
    """
    loud = np.clip((power_db - QUIET_DB) / 6, 0, 1)
    octaves = get_octaves(pitch)
    level = np.clip(power_db - QUIET_DB, 0, None) / 3
    voiced = 1.5 * voicing * loud[..., None]
    return np.concatenate([5 * octaves * voicing.max(axis=-1) * loud, level, voiced.reshape(len(voiced), -1)], axis=1)


def _find_means(points: NDArray[np.float64], n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Finds `n` means of points, [n_points, d], by k-means; returns [n, d]."""
    first = np.unique(points, axis=0)
    return refine_means(points, rng.choice(first, n, replace=len(first) < n), _N_ITERATIONS)


def _find_nearest(points: NDArray[np.float64], means: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns the index of the nearest mean of each point: points [n_points, d] and means [n, d] to [n_points]."""
    from scipy.cluster.vq import vq

    return np.asarray(vq(points, means)[0], np.int64)


def _search_entries(points: NDArray[np.float64], books: NDArray[np.float32]) -> NDArray[np.int64]:
    """Searches for one entry of each book whose sum is nearest to each point, [n, d]; returns indices, [n_books, n].

    It is a beam search, so that the result may not be the very nearest.
    """
    left, found = points[:, None], np.zeros((0, len(points), 1), np.int64)
    for book in books:
        distances = np.square(left[:, :, None] - book).sum(axis=-1)  # [n, beam, card]
        kept = distances.reshape(len(points), -1).argsort(axis=1, kind="stable")[:, :_BEAM]
        before, entry = np.divmod(kept, len(book))
        found = np.concatenate([np.take_along_axis(found, before[None], axis=2), entry[None]])
        left = np.take_along_axis(left, before[..., None], axis=1) - book[entry]
    return found[..., 0]
