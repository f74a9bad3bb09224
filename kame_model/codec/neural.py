"""Trains the networks of the codec `codec2-neural` on one voice: its audio, and when which phoneme is said."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from backends.codec.codec2 import Codec2, Codec2Options
from backends.codec.codec2_neural import (
    AHEAD,
    N_BEFORE,
    N_HALVES,
    N_TARGETS,
    N_WINDOWS,
    CausalConv,
    NeuralVocoder,
    compute_mels,
    describe_prosody,
    make_targets,
)
from backends.codec.codec2_parameters import N_LINES, read_parameters
from backends.codec.k_means import refine_means
from data_schemas.config.codec import NeuralCodecConfig
from data_schemas.errors import DatasetError
from kame_model.codec.speech import PhoneClip

SILENCE: Final = "SIL"

_N_FRAMES: Final = 32
"""Length of an example in frames, 2.6 s."""
_N_EXAMPLES: Final = 24
_N_SKIPPED: Final = 8
"""Halves at the start of an example that are not in the loss of the decoder, which does not know what was before."""
_PART_S: Final = 0.02
_LEAST_S: Final = 60.0
_N_FREE: Final = 300
"""Steps before there is a codebook; then the points of the last `_N_SAMPLED` are clustered to make one."""
_N_SAMPLED: Final = 50
_N_CLUSTERINGS: Final = 10
"""Iterations of k-means."""
_DECAY: Final = 0.99
"""Of the codebook's running means (VQ-VAE's, arXiv 1711.00937, appendix A.1)."""
_COMMITMENT: Final = 0.25
_LEAST_USE: Final = 0.02
"""Share of the average use below which an entry is replaced by a point of the batch."""
_HELD_OUT_SHARE: Final = 0.05


class NeuralCodecLearnt(NamedTuple):
    """The trained networks, and the accuracy of phonemes predicted from codes, on 20 ms pieces of held-out speech.

    The accuracy is None if the held-out clips are silent.
    """

    net: NeuralVocoder
    phones_right: float | None


class _Frames(NamedTuple):
    """Concatenated clips as arrays of n frames of 80 ms, each with four parts of 20 ms.

    Attributes:
        mels: [n, N_WINDOWS, N_MELS].
        phones: indices of the phonemes of the parts, [n, 4].
        prosody: [n, N_PROSODY].
        targets: Codec 2's parameters of the parts, [n, 4, N_TARGETS].
        defined: 1 where a target has a value, else 0, [n, 4, N_TARGETS].
    """

    mels: NDArray[np.float32]
    phones: NDArray[np.int64]
    prosody: NDArray[np.float32]
    targets: NDArray[np.float32]
    defined: NDArray[np.float32]

    def select(self, frames: NDArray[np.int64]) -> "_Frames":
        """Returns the frames of these indices, [B, n], as a batch."""
        mels, phones, prosody, targets, defined = self
        return _Frames(mels[frames], phones[frames], prosody[frames], targets[frames], defined[frames])


def learn_networks(clips: Sequence[PhoneClip], config: NeuralCodecConfig) -> NeuralCodecLearnt:
    """Trains encoder, codebook and decoder together; deterministic for the same clips and settings on one machine.

    The loss is that of the phonemes, which a small network finds in the codes, plus that of Codec 2's parameters.
    The first 5 % of the clips, at least one, are held out, and the trained networks are measured on them.

    Raises:
        DatasetError: the other clips are less than a minute of speech, or most of them is silence.
    """
    names = sorted({SILENCE} | {phone.phone for clip in clips for phone in clip.phones})
    frames = [_compute_frames(clip, names) for clip in clips]
    n_held = max(1, round(_HELD_OUT_SHARE * len(frames)))
    if (speech_s := 0.08 * sum(len(each.mels) for each in frames[n_held:])) < _LEAST_S:
        raise DatasetError(
            f"{speech_s:.0f} s of speech are too little to train a codec.", f"Give {_LEAST_S:.0f} s at least."
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        trained = _Training(_concatenate(frames[n_held:]), len(names), config)
        for step in range(config.n_steps):
            trained.step(step / config.n_steps)
        return NeuralCodecLearnt(
            trained.net.eval(), trained.measure(_concatenate(frames[:n_held]), names.index(SILENCE))
        )


def serialise_networks(learnt: NeuralCodecLearnt) -> bytes:
    """Returns the networks' state dictionary as the bytes of a safetensors file, in half precision."""
    from safetensors.torch import save

    return save({name: each.half().contiguous() for name, each in learnt.net.state_dict().items()})


def _compute_frames(clip: PhoneClip, names: Sequence[str]) -> _Frames:
    """Computes the inputs and targets of a clip.

    Args:
        clip: speech and its phonemes.
        names: all phonemes including `SILENCE`; their places are the indices.
    """
    vocoder = Codec2(Codec2Options(bits_per_s=3200))
    pcm, parts = vocoder.analyse(clip.samples)
    parameters = read_parameters(vocoder.read_bits(parts))
    targets, defined = make_targets(parameters)
    ends_s = np.array([each.end_s for each in clip.phones])
    at = np.searchsorted(ends_s, _PART_S * (np.arange(len(parts)) + 0.5), side="right")
    spoken = [names.index(each.phone) for each in clip.phones] + [names.index(SILENCE)]
    n = len(parts) // 4
    return _Frames(
        compute_mels(np.pad(pcm, (N_BEFORE, 0))).reshape(n, N_WINDOWS, -1),
        np.array(spoken)[at].reshape(n, 4),
        describe_prosody(parameters).astype(np.float32),
        targets.astype(np.float32).reshape(n, 4, N_TARGETS),
        defined.astype(np.float32).reshape(n, 4, N_TARGETS),
    )


def _concatenate(frames: Sequence[_Frames]) -> _Frames:
    return _Frames(*(np.concatenate(each) for each in zip(*frames, strict=True)))


class _Training:
    """Networks in training, and the running sums of the codebook. The data is changed in place (`_set_statistics`)."""

    def __init__(self, data: _Frames, n_phones: int, config: NeuralCodecConfig) -> None:
        self._data, self._config, self._n_phones = data, config, n_phones
        self._rng = np.random.default_rng(config.seed)
        self.net = NeuralVocoder(config.width, config.card, config.prosody_card)
        self._set_statistics()
        self._phones = nn.Sequential(
            CausalConv(self.net.entries.shape[1], config.width, 3), nn.GELU(), nn.Conv1d(config.width, 2 * n_phones, 1)
        )
        self._weights = [*self.net.parameters(), *self._phones.parameters()]
        self._optimiser = torch.optim.AdamW(self._weights, config.learning_rate, (0.9, 0.98), weight_decay=0.01)
        self._points: list[Tensor] = []
        self._uses, self._sums = torch.ones(config.card), self.net.entries.clone()
        self._n_done = 0

    def step(self, done_share: float) -> None:
        """Takes one optimiser step on random examples.

        Args:
            done_share: share of all steps that are done, 0 to 1. The learning rate rises for 200 steps and falls
                linearly with this share to 3 % of its maximum.
        """
        for group in self._optimiser.param_groups:
            group["lr"] = self._config.learning_rate * min(1.0, (self._n_done + 1) / 200) * (1 - 0.97 * done_share)
        first = self._rng.integers(0, len(self._data.mels) - _N_FRAMES + 1, _N_EXAMPLES)
        batch = self._data.select(first[:, None] + np.arange(_N_FRAMES))
        loss, points, codes = self._compute_loss(batch)
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._weights, 1.0)
        self._optimiser.step()
        self._update_entries(points.detach().flatten(0, 1), codes, replaces=done_share < 0.8)
        self._n_done += 1

    @torch.no_grad()
    def measure(self, data: _Frames, silence: int) -> float | None:
        """Returns the accuracy of phonemes predicted from the codes, on 20 ms pieces; silence is not counted.

        It is None if all pieces are silence. The network of the phonemes stays in evaluation mode.
        """
        self._phones.eval()
        batch = data.select(np.arange(len(data.mels))[None])
        points = self._encode(batch, noise=0.0)
        entries = self.net.entries[self.net.find_entries(points)]
        wanted = torch.from_numpy(data.phones.reshape(-1, 2))
        found = self._find_phones(entries).argmax(dim=-1)[0]
        wanted = wanted[: len(found)]
        is_speech = wanted != silence
        return float((found == wanted)[is_speech].float().mean()) if is_speech.any() else None

    def _encode(self, batch: _Frames, noise: float) -> Tensor:
        """Returns the encoder's points of half frames, [B, n, dim]; those of the last `AHEAD` halves are missing.

        Args:
            batch: the examples.
            noise: standard deviation of noise added to each normalised mel; one offset per example, with twice this
                deviation, is added to all its mels. 0: none.
        """
        mels = self.net.normalise(torch.from_numpy(batch.mels).flatten(1, 2))
        mels = mels + noise * torch.randn_like(mels) + 2 * noise * torch.randn(len(mels), 1, 1)
        points: Tensor = self.net.encoder(mels.transpose(1, 2))
        return points.transpose(1, 2)[:, AHEAD:]

    def _find_phones(self, entries: Tensor) -> Tensor:
        """Returns logits of each half's two phonemes, predicted from the entries up to the next half.

        The shapes are [B, n, dim] to [B, n - 1, 2, n_phones].
        """
        x = self._phones(entries.transpose(1, 2))
        return torch.as_tensor(x.transpose(1, 2)[:, 1:].reshape(len(x), -1, 2, self._n_phones))

    def _compute_loss(self, batch: _Frames) -> tuple[Tensor, Tensor, Tensor | None]:
        """Returns the loss, the points of the encoder [B, n, dim], and their codes; None: there is no codebook yet."""
        points = self._encode(batch, noise=0.1)
        codes, entries, commitment = None, points, torch.zeros(())
        if self._n_done >= _N_FREE:
            codes = self.net.find_entries(points.detach())
            nearest = self.net.entries[codes]
            commitment = functional.mse_loss(points, nearest)
            entries = points + (nearest - points).detach()  # straight through
        phones = self._find_phones(entries)
        wanted = torch.from_numpy(batch.phones).view(_N_EXAMPLES, -1, 2)[:, : phones.shape[1]]
        said = functional.cross_entropy(phones.flatten(0, 2), wanted.flatten())
        prosody = torch.from_numpy(batch.prosody).repeat_interleave(N_HALVES, dim=1)[:, : entries.shape[1]]
        predicted = self.net.decoder(entries.transpose(1, 2), prosody.transpose(1, 2)).transpose(1, 2)[:, AHEAD:]
        kept = slice(_N_SKIPPED, predicted.shape[1])
        targets, defined = (torch.from_numpy(each).reshape(_N_EXAMPLES, -1, 2 * N_TARGETS) for each in batch[3:])
        off = (predicted - targets[:, : predicted.shape[1]]).square() * defined[:, : predicted.shape[1]]
        return said + off[:, kept].mean() + _COMMITMENT * commitment, points, codes

    @torch.no_grad()
    def _update_entries(self, points: Tensor, codes: Tensor | None, replaces: bool) -> None:
        """Moves each entry of the codebook to the running mean of its points, and replaces unused entries.

        Args:
            points: [n, dim].
            codes: the entry of each point; None: there is no codebook yet. Then the points are collected, and after
                `_N_FREE` steps clustered to make the codebook.
            replaces: whether entries that are hardly used are replaced by points of the batch, in each 50th step.
        """
        if codes is None:
            self._points.append(points)
            if self._n_done == _N_FREE - 1:
                seen = torch.cat(self._points[-_N_SAMPLED:])
                self.net.entries.copy_(_cluster(seen.numpy(), self._config.card, self._config.seed))
                self._sums, self._points = self.net.entries.clone(), []
            return
        codes = codes.flatten()
        self._uses.mul_(_DECAY).add_((1 - _DECAY) * torch.bincount(codes, minlength=len(self._uses)))
        self._sums.mul_(_DECAY).add_((1 - _DECAY) * torch.zeros_like(self._sums).index_add_(0, codes, points))
        if replaces and self._n_done % 50 == 0:
            unused = (self._uses < _LEAST_USE * self._uses.mean()).nonzero()[:, 0]
            self._uses[unused] = 0.5 * self._uses.mean()
            drawn = points[torch.randint(len(points), (len(unused),))]
            self._sums[unused] = drawn * self._uses[unused, None]
        self.net.entries.copy_(self._sums / self._uses.clamp_min(1e-4)[:, None])

    def _set_statistics(self) -> None:
        """Computes the network's means, scales and prosody entries from the data.

        The data is changed in place: the spectral lines among the targets are normalised, and each prosody is replaced
        by its nearest entry.

        Raises:
            DatasetError: fewer frames have sound than there are prosody entries.
        """
        data, net = self._data, self.net
        is_heard = data.prosody[:, 1:3].sum(axis=1) > 0  # entry 0 is silence, and stays zero
        n_heard, n_entries = int(is_heard.sum()), self._config.prosody_card - 1
        if n_heard < n_entries:
            raise DatasetError(
                f"The speech has {n_heard} frames of 80 ms with sound, too few for {n_entries} entries of prosody.",
                "Give clips with more speech, or set codec_training.prosody_card lower.",
            )
        lines, is_loud = data.targets[..., :N_LINES], data.defined[..., 0] > 0
        for of, values in (("mel", data.mels.reshape(-1, data.mels.shape[-1])), ("line", lines[is_loud])):
            getattr(net, f"{of}_mean").copy_(torch.from_numpy(values.mean(axis=0)))
            getattr(net, f"{of}_scale").copy_(torch.from_numpy(values.std(axis=0)))
        lines[:] = (lines - net.line_mean.numpy()) / net.line_scale.numpy()
        net.prosody[1:] = _cluster(data.prosody[is_heard], n_entries, self._config.seed)
        nearest = torch.cdist(torch.from_numpy(data.prosody), net.prosody).argmin(dim=1)
        data.prosody[:] = net.prosody[nearest].numpy()


def _cluster(points: NDArray[np.float32], n: int, seed: int) -> Tensor:
    """Returns `n` means of points, [n_points, d] with n_points >= n, by k-means that starts at some of them."""
    start = np.random.default_rng(seed).choice(points, n, replace=False).astype(np.float64)
    return torch.from_numpy(refine_means(points.astype(np.float64), start, _N_CLUSTERINGS)).float()
