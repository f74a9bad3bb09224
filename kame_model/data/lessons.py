"""Micro-batches of random words, and their curriculum: harder as the words are foreseen."""

import random
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data_schemas import ids
from data_schemas.config.copying import CopyConfig
from kame_model.data.copying import Pieces, draw_script, speak
from kame_model.data.example import Judged
from kame_model.data.loader import ALONE, MicroBatch, Share
from kame_model.frames.batch import Batch, collate
from kame_model.frames.ids import PADDING_ID

GUESS_SHARE = 0.3
"""Of the frames of an example, those at which the model's own guess is said, where it has a part in its past."""


class CopySource:
    """Micro-batches of random words; each a pure function of its number, of the lesson, and of what the model guesses.

    Its state is the number of the lesson, and the running accuracy in it.

    Args:
        pieces: of the vocabulary.
        config: sizes and the curriculum.
        accuracy: share of the words' tokens foreseen at which the next lesson begins, and after the last all is
            learnt; None: the last lesson alone, without end.
        seed: of everything drawn.
        accumulation: micro-batches of a step, over all processes.
        share: this process's part of them.
    """

    def __init__(
        self,
        pieces: Pieces,
        config: CopyConfig,
        accuracy: float | None,
        seed: int,
        accumulation: int,
        share: Share = ALONE,
    ) -> None:
        self._pieces, self._config, self._wanted, self._seed = pieces, config, accuracy, seed
        self._accumulation, self._share = accumulation, share
        self._lesson, self._accuracy, self._finished = 0 if accuracy else config.lessons - 1, 0.0, False

    @property
    def is_finished(self) -> bool:
        """Whether words are foreseen well enough in the last lesson."""
        return self._finished

    def batches_of(self, step: int) -> list[MicroBatch]:
        """See `Source`; of any step, in the lesson at hand."""
        first = step * self._accumulation
        mine = range(first + self._share.rank, first + self._accumulation, self._share.world)
        drawn = random.Random(ids.seed_for("guesses", self._seed, step)).random()  # all processes alike
        asks = drawn < self._hardness * self._config.own_share
        return [self._make_batch(number, asks) for number in mine]

    def observe(self, share_right: float | None) -> dict[str, float]:
        """Goes on to the next lesson when the running accuracy is high enough; shows where it is."""
        if share_right is not None:
            kept = self._config.smoothing
            self._accuracy = kept * self._accuracy + (1 - kept) * share_right
        shown = {"lesson": float(self._lesson), "lessons": float(self._config.lessons), "accuracy": self._accuracy}
        if self._wanted is not None and self._accuracy >= self._wanted:
            self._finished = self._lesson == self._config.lessons - 1
            if not self._finished:
                self._lesson, self._accuracy = self._lesson + 1, 0.0
        return shown

    def state_dict(self) -> dict[str, Any]:
        """See `Source`."""
        return {"lesson": self._lesson, "accuracy": self._accuracy, "finished": self._finished}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `Source`."""
        self._lesson, self._accuracy, self._finished = state["lesson"], state["accuracy"], state["finished"]

    @property
    def _hardness(self) -> float:
        return self._lesson / (self._config.lessons - 1) if self._config.lessons > 1 else 1.0

    def _make_batch(self, number: int, asks: bool) -> MicroBatch:
        seed = ids.seed_for("copy", self._seed, number)
        make = partial(_make_batch, self._pieces, self._config, self._hardness, seed)
        return MicroBatch(number, make(), [], "copying", with_guesses=make if asks else None)


def _make_batch(
    pieces: Pieces, config: CopyConfig, hardness: float, seed: int, guesses: NDArray[np.integer] | None = None
) -> Batch:
    """A micro-batch, the same with the same seed; fewer examples as they grow longer, so that a step stays as long.

    Args:
        guesses: [B, S] what the model would say in the very micro-batch without them.
    """
    draw = random.Random(seed)
    n_frames = config.min_frames + hardness * (config.max_frames - config.min_frames)
    n_examples = max(1, round(config.batch_size * config.min_frames / n_frames))
    scripts = [draw_script(pieces, config, hardness, draw) for _ in range(n_examples)]
    draws = [random.Random(draw.getrandbits(64)) for _ in scripts]
    if guesses is None:
        return collate([speak(script, pieces, own) for script, own in zip(scripts, draws, strict=True)])
    spoken = zip(scripts, draws, guesses, strict=True)
    return collate([speak(script, pieces, own, guessed, GUESS_SHARE) for script, own, guessed in spoken])


def make_judged_examples(pieces: Pieces, config: CopyConfig, n_examples: int, seed: int) -> list[Judged]:
    """Examples of the last lesson that no step trains on, each beside the oracle of the one after it."""
    draw = random.Random(ids.seed_for("copy-validation", seed))
    examples = [speak(draw_script(pieces, config, 1.0, draw), pieces, draw) for _ in range(n_examples)]
    followers = [*examples[1:], *examples[:1]]
    return [
        Judged(each, _fit_length(other.oracle, each.n_positions))
        for each, other in zip(examples, followers, strict=True)
    ]


def _fit_length(stream: NDArray[np.int32], n_positions: int) -> NDArray[np.int32]:
    fitted = np.full(n_positions, PADDING_ID, np.int32)
    fitted[: len(stream)] = stream[:n_positions]
    return fitted
