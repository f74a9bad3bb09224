"""Conformance test of codecs, built-in ones and plug-ins."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from backends.codec.protocol import Codec, Codes
from backends.conformance import check_identity, make_chirps, require
from backends.engine import Samples
from backends.options import OptionValue
from backends.registry import build, find_options_class, validate_options
from data_schemas.units import FRAME_N_SAMPLES, count_covering_frames

_LENGTHS = (3 * FRAME_N_SAMPLES, 1, 40_000, 0, 61_000, 30_721)
_LEAST_EQUAL = 0.99
"""Minimum share of equal codes when computed in another way: a latent halfway between two entries may go either way."""
_SOUND_TOLERANCE = 1e-4


def check_codec(codec: Codec) -> None:
    """Checks the promises of `Codec` and `CodecStream`, on audio of up to three seconds.

    Raises:
        PromiseBroken: a promise does not hold.
    """
    check_identity(codec)
    found = (codec.n_codebooks, codec.card)
    require(
        found == (codec.layout.n_codebooks, codec.layout.card),
        "its layout has the number of codebooks and the largest size",
    )
    _check_recordings(codec)
    _check_any_codes(codec)
    _check_streams(codec)
    _check_reset(codec)
    _check_inactive(codec)
    _check_save(codec)


def _check_recordings(codec: Codec) -> None:
    """Checks shape, type and range of codes and decoded audio for recordings of many lengths.

    Neither the other recordings of a call nor later audio may change the codes of a recording, and different audio must
    have different codes.
    """
    sounds = [make_chirps(seed, n_samples) for seed, n_samples in enumerate(_LENGTHS)]
    encoded = codec.encode(sounds)
    require(len(encoded) == len(sounds), "each recording has its codes")
    for sound, codes in zip(sounds, encoded, strict=True):
        n_frames = count_covering_frames(len(sound))
        require(codes.shape == (codec.n_codebooks, n_frames), f"{len(sound)} samples have {n_frames} frames of codes")
        below = np.array(codec.layout.sizes)[:, None]
        require(codes.dtype == np.int16 and np.all((codes >= 0) & (codes < below)), "codes are int16 in [0, size)")
        decoded = codec.decode(codes)
        require(decoded.shape == (n_frames * FRAME_N_SAMPLES,), "codes become 1,920 samples a frame")
        _check_decoded(decoded)
    alone = [codec.encode([sound])[0] for sound in sounds]
    require(all(map(_are_equal, alone, encoded)), "other recordings do not change a recording's codes")
    longer = codec.encode([np.concatenate([sounds[0], sounds[4]])])[0]
    require(_are_equal(longer[:, :3], encoded[0]), "later audio does not change a frame's codes")
    require(len(np.unique(encoded[4], axis=1).T) > 4, "different audio has different codes")


def _check_any_codes(codec: Codec) -> None:
    """Checks random codes: a front-end may output codes in an order that no encoder would."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, codec.card, (3, codec.n_codebooks, 25)).astype(np.int16)
    with codec.stream(3) as stream:
        streamed = np.concatenate([stream.decode_frame(codes[..., at]) for at in range(25)], axis=1)
    for row in range(3):
        _check_decoded(codec.decode(codes[row]))
        _check_decoded(streamed[row])


def _check_decoded(sound: Samples) -> None:
    """Checks that decoded audio is finite float32 in [-1, 1]."""
    require(sound.dtype == np.float32 and np.isfinite(sound).all(), "decoded audio is float32 and finite")
    require(np.abs(sound).max(initial=0) <= 1, "decoded audio lies in [-1, 1], whatever the codes are")


def _check_streams(codec: Codec) -> None:
    """Checks that streams give the codes and audio of the whole recordings."""
    sounds = _make_sounds(40)
    codes, decoded = encode_and_decode_streamed(codec, sounds)
    require(
        _are_equal(codes, np.stack(codec.encode(list(sounds)))), "streamed frames have the codes of the whole recording"
    )
    for row in range(len(sounds)):
        require(_is_equal_sound(decoded[row], codec.decode(codes[row])), "streamed codes have the audio of the whole")


def _check_reset(codec: Codec) -> None:
    """Checks that one of several streams can be reset: it starts again, and the others continue."""
    sounds = _make_sounds(12)
    frames, (undisturbed, decoded) = sounds.reshape(3, 12, FRAME_N_SAMPLES), encode_and_decode_streamed(codec, sounds)
    said = decoded.reshape(3, 12, FRAME_N_SAMPLES)
    codes, heard = [], []
    with codec.stream(3) as stream:
        for at in range(6):
            stream.encode_frame(frames[:, at])
            stream.decode_frame(undisturbed[..., at])
        stream.reset(np.array([True, False, False]))
        for at in range(6):
            codes.append(stream.encode_frame(np.stack([frames[0, at], *frames[1:, at + 6]])))
            heard.append(stream.decode_frame(np.stack([undisturbed[0, :, at], *undisturbed[1:, :, at + 6]])))
    later, sound = np.stack(codes, axis=-1), np.stack(heard, axis=1)
    require(_are_equal(later[0], undisturbed[0, :, :6]), "a stream that is reset starts again")
    require(_are_equal(later[1:], undisturbed[1:, :, 6:]), "the others do not change when one is reset")
    require(_is_equal_sound(sound[0], said[0, :6]), "a stream that is reset decodes from its start")
    require(_is_equal_sound(sound[1:], said[1:, 6:]), "the others continue decoding when one is reset")


def _check_inactive(codec: Codec) -> None:
    """Checks that input to an inactive stream has no effect, and that the others continue."""
    sounds = _make_sounds(8)
    frames, (undisturbed, decoded) = sounds.reshape(3, 8, FRAME_N_SAMPLES), encode_and_decode_streamed(codec, sounds)
    said = decoded.reshape(3, 8, FRAME_N_SAMPLES)
    with codec.stream(3) as stream:
        for at in range(4):
            stream.encode_frame(frames[:, at])
            stream.decode_frame(undisturbed[..., at])
        stream.set_active(np.array([False, True, True]))
        stream.encode_frame(np.stack([make_chirps(9, FRAME_N_SAMPLES), *frames[1:, 4]]))
        stream.decode_frame(np.stack([undisturbed[0, :, 7], *undisturbed[1:, :, 4]]))
        stream.set_active(np.array([True, True, True]))
        codes = stream.encode_frame(np.stack([frames[0, 4], *frames[1:, 5]]))
        sound = stream.decode_frame(np.stack([undisturbed[0, :, 4], *undisturbed[1:, :, 5]]))
    require(_are_equal(codes[0], undisturbed[0, :, 4]), "audio given to an inactive stream has no effect")
    require(_are_equal(codes[1:], undisturbed[1:, :, 5]), "the others continue while one is inactive")
    require(_is_equal_sound(sound[0], said[0, 4]), "codes given to an inactive stream have no effect")
    require(_is_equal_sound(sound[1:], said[1:, 5]), "the others continue decoding while one is inactive")


def _check_save(codec: Codec) -> None:
    """Checks that a codec built from what `save` wrote and returned has the same digest and codes."""
    sound = make_chirps(5, 5 * FRAME_N_SAMPLES)
    with TemporaryDirectory(prefix="kame-codec-") as folder:
        options = codec.save(folder)
        files = list(Path(folder).iterdir())
        require(all(each.is_file() for each in files), "saved files are in the folder itself")
        require(not {"path", "device"} & set(options), "the options that `save` returns exclude path and device")
        again = _rebuild(codec, options | ({"path": folder} if files else {}))
        require(again.digest == codec.digest, "a codec that is built from what it saved has the same digest")
        require(_are_equal(again.encode([sound])[0], codec.encode([sound])[0]), "built again it gives the same codes")


def _rebuild(codec: Codec, options: dict[str, OptionValue]) -> Codec:
    """Builds another codec of the same class from options; one of a plug-in is built by the registry."""
    made_by: Callable[..., Codec] = type(codec)
    taken = find_options_class(made_by)
    if taken is None:
        again: Codec = build("codec", codec.name, options)
        return again
    return made_by(validate_options(f"codec {codec.name!r}", taken, options))


def encode_and_decode_streamed(codec: Codec, sounds: NDArray[np.float32]) -> tuple[NDArray[np.int16], Samples]:
    """Encodes audio [B, n_samples], in whole frames, frame by frame, and decodes each frame's codes at once.

    Returns:
        Codes [B, n_codebooks, n_frames] and decoded audio [B, n_samples].
    """
    frames = sounds.reshape(len(sounds), -1, FRAME_N_SAMPLES)
    codes, decoded = [], []
    with codec.stream(len(sounds)) as stream:
        for frame in np.moveaxis(frames, 1, 0):
            codes.append(stream.encode_frame(frame))
            decoded.append(stream.decode_frame(codes[-1]))
    return np.stack(codes, axis=-1), np.concatenate(decoded, axis=1)


def _make_sounds(n_frames: int) -> NDArray[np.float32]:
    """Makes three different sounds of this many frames, [3, n_samples]."""
    return np.stack([make_chirps(seed, n_frames * FRAME_N_SAMPLES) for seed in range(3)])


def _are_equal(one: Codes, other: Codes) -> bool:
    """Returns whether codes have the same shape, and at least a share of `_LEAST_EQUAL` of them is equal."""
    return one.shape == other.shape and (one.size == 0 or bool((one == other).mean() >= _LEAST_EQUAL))


def _is_equal_sound(one: Samples, other: Samples) -> bool:
    """Returns whether sounds have the same shape, and no sample differs by `_SOUND_TOLERANCE` or more."""
    return one.shape == other.shape and bool(np.abs(one - other).max(initial=0) < _SOUND_TOLERANCE)
