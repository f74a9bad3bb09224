"""Source of copying micro-batches with a curriculum: lessons get harder as the accuracy on the words rises."""

import random
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data_schemas import ids
from data_schemas.config.copying import CopyConfig
from data_schemas.config.training import LENGTH_MULTIPLE
from kame_model.data.copying import WordPieces, draw_script, make_example
from kame_model.data.example import ValidationExample
from kame_model.data.loader import ALONE, MicroBatch, Share
from kame_model.frames.batch import Batch, collate
from kame_model.frames.ids import PADDING_ID

GUESS_SHARE = 0.3
"""Share of an example's frames at which the model's own guess is said, if the example is made with guesses."""


class CopySource:
    """Micro-batches of random words; each is a pure function of its number, the lesson and the model's guesses.

    Its state is the number of the lesson, and the running accuracy in it.

    Args:
        pieces: pieces of the vocabulary.
        config: sizes and the curriculum.
        accuracy: share of correctly predicted word tokens at which the next lesson begins, and after the last lesson
            the source is finished; None: only the last lesson, without end.
        seed: seed of everything that is drawn.
        accumulation: micro-batches of a step, over all processes.
        share: the part of them that this process gets.
        multiple: lengths of micro-batches are multiples of it.
    """

    def __init__(
        self,
        pieces: WordPieces,
        config: CopyConfig,
        accuracy: float | None,
        seed: int,
        accumulation: int,
        share: Share = ALONE,
        multiple: int = LENGTH_MULTIPLE,
    ) -> None:
        self._multiple = multiple
        self._pieces, self._config, self._wanted, self._seed = pieces, config, accuracy, seed
        self._accumulation, self._share = accumulation, share
        self._lesson, self._accuracy, self._finished = 0 if accuracy else config.lessons - 1, 0.0, False

    @property
    def is_finished(self) -> bool:
        """Whether the accuracy in the last lesson is high enough."""
        return self._finished

    def load_batches(self, step: int) -> list[MicroBatch]:
        """Returns this process's micro-batches of the current lesson; the steps may be loaded in any order."""
        first = step * self._accumulation
        mine = range(first + self._share.rank, first + self._accumulation, self._share.world)
        drawn = random.Random(ids.derive_seed("guesses", self._seed, step)).random()  # the same in all processes
        asks = drawn < self._hardness * self._config.own_share
        return [self._make_batch(number, asks) for number in mine]

    def observe(self, share_right: float | None) -> dict[str, float]:
        """Updates the running accuracy, unless the share is None, and begins the next lesson if it is high enough.

        Returns:
            The lesson, the number of lessons, and the accuracy, as they were before a new lesson began.
        """
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
        """Returns the lesson, the accuracy in it, and whether the last one is finished."""
        return {"lesson": self._lesson, "accuracy": self._accuracy, "finished": self._finished}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the lesson and its accuracy from `state_dict`."""
        self._lesson, self._accuracy, self._finished = state["lesson"], state["accuracy"], state["finished"]

    @property
    def _hardness(self) -> float:
        """Difficulty of the current lesson: 0 in the first to 1 in the last."""
        return self._lesson / (self._config.lessons - 1) if self._config.lessons > 1 else 1.0

    def _make_batch(self, number: int, asks: bool) -> MicroBatch:
        """Makes a micro-batch of the current lesson; with `asks`, one to be made again with the model's guesses."""
        seed = ids.derive_seed("copy", self._seed, number)
        make = partial(_make_batch, self._pieces, self._config, self._hardness, seed, self._multiple)
        return MicroBatch(number, make(), [], "copying", with_guesses=make if asks else None)


def _make_batch(
    pieces: WordPieces,
    config: CopyConfig,
    hardness: float,
    seed: int,
    multiple: int,
    guesses: NDArray[np.integer] | None = None,
) -> Batch:
    """Makes a micro-batch of copying examples; it has about the same number of frames for any `hardness`.

    Args:
        pieces: pieces of the vocabulary.
        config: sizes and the curriculum.
        hardness: 0 to 1.
        seed: the same seed gives the same micro-batch.
        multiple: its length is a multiple of it.
        guesses: [B, S] what the model would say in the same micro-batch without guesses.
    """
    draw = random.Random(seed)
    n_frames = config.min_frames + hardness * (config.max_frames - config.min_frames)
    n_examples = max(1, round(config.batch_size * config.min_frames / n_frames))
    scripts = [draw_script(pieces, config, hardness, draw) for _ in range(n_examples)]
    draws = [random.Random(draw.getrandbits(64)) for _ in scripts]
    if guesses is None:
        made = [make_example(script, pieces, own) for script, own in zip(scripts, draws, strict=True)]
    else:
        spoken = zip(scripts, draws, guesses, strict=True)
        made = [make_example(script, pieces, own, guessed, GUESS_SHARE) for script, own, guessed in spoken]
    return collate(made, multiple)


def make_validation_examples(
    pieces: WordPieces, config: CopyConfig, n_examples: int, seed: int
) -> list[ValidationExample]:
    """Makes examples of the last lesson that are not used in training.

    The wrong oracle of each is that of the next one (of the last one: the first's), cut or padded to its length.
    """
    draw = random.Random(ids.derive_seed("copy-validation", seed))
    examples = [make_example(draw_script(pieces, config, 1.0, draw), pieces, draw) for _ in range(n_examples)]
    followers = [*examples[1:], *examples[:1]]
    return [
        ValidationExample(each, _fit_length(other.oracle, each.n_positions))
        for each, other in zip(examples, followers, strict=True)
    ]


def _fit_length(stream: NDArray[np.int32], n_positions: int) -> NDArray[np.int32]:
    """Cuts a stream to a number of positions, or extends it with padding."""
    fitted = np.full(n_positions, PADDING_ID, np.int32)
    fitted[: len(stream)] = stream[:n_positions]
    return fitted
