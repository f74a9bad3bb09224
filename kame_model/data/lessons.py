"""The copying stage's micro-batches, and its curriculum: harder as the words are foreseen.

First the gap between words grows, in short examples of one exchange. Then their length doubles, to that of a dialogue:
what had learnt to copy in its first five seconds alone said nothing of an oracle that came after twenty. At last the
oracles themselves become as real ones are: what had copied ten words, all different, foresaw 98 % of such words and
80 % of thirty, 70 % after a piece that comes twice; in dialogues it lost its place and said an answer over and over.
"""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data_schemas import ids
from data_schemas.config.copying import CopyConfig
from kame_model.data.copying import Lesson, Pieces, copy_example
from kame_model.data.example import Judged
from kame_model.data.loader import ALONE, Loader, MicroBatch, Share, rehearses
from kame_model.frames.batch import collate
from kame_model.frames.ids import PADDING_ID

SHORT_FRAMES = 75
"""About the longest of short examples; the long ones begin with twice as many frames."""


def lessons(config: CopyConfig) -> list[Lesson]:
    """The curriculum, from the easiest on."""
    course = [Lesson(gap) for gap in range(config.max_gap_frames + 1)]
    n_frames = min(2 * SHORT_FRAMES, config.max_frames)
    while course[-1].n_frames < config.max_frames:
        course.append(Lesson(config.max_gap_frames, n_frames))
        n_frames = min(2 * n_frames, config.max_frames)
    n_words = min(2 * config.max_words, config.long_words)
    while course[-1].n_frames and course[-1].n_words < config.long_words:
        course.append(Lesson(config.max_gap_frames, config.max_frames, n_words))
        n_words = min(2 * n_words, config.long_words)
    return course


class CopyLoader:
    """Micro-batches of random words; each a pure function of its number and of the lesson.

    Its state is the number of the next step, that of the lesson, and the running accuracy in it.

    Args:
        pieces: of the vocabulary.
        config: sizes and the curriculum.
        seed: of everything drawn.
        accumulation: micro-batches of a step, over all processes.
        share: this process's part of them.
    """

    def __init__(self, pieces: Pieces, config: CopyConfig, seed: int, accumulation: int, share: Share = ALONE) -> None:
        self._pieces, self._config, self._seed = pieces, config, seed
        self._accumulation, self._share = accumulation, share
        self._lessons = lessons(config)
        self._step, self._lesson, self._accuracy, self._finished = 0, 0, 0.0, False

    @property
    def is_finished(self) -> bool:
        """Whether words are foreseen well enough in the last lesson."""
        return self._finished

    def skip_to_last(self) -> None:
        """Goes on with the last lesson, and stays there."""
        self._lesson = len(self._lessons) - 1

    def next_step(self) -> list[MicroBatch]:
        """See `Loader`."""
        self._step += 1
        return self.batches_of(self._step - 1)

    def batches_of(self, step: int) -> list[MicroBatch]:
        """This process's micro-batches of any step of a run, in the lesson at hand."""
        first = step * self._accumulation
        mine = range(first + self._share.rank, first + self._accumulation, self._share.world)
        return [self._batch(number) for number in mine]

    def observe(self, share_right: float | None) -> dict[str, float]:
        """Goes on to the next lesson when the running accuracy is high enough; shows where it is."""
        if share_right is not None:
            kept = self._config.smoothing
            self._accuracy = kept * self._accuracy + (1 - kept) * share_right
        shown = {"lesson": float(self._lesson), "lessons": float(len(self._lessons)), "accuracy": self._accuracy}
        if self._accuracy >= self._config.accuracy:
            self._finished = self._lesson == len(self._lessons) - 1
            if not self._finished:
                self._lesson, self._accuracy = self._lesson + 1, 0.0
        return shown

    def state_dict(self) -> dict[str, Any]:
        """See `Loader`."""
        return {"step": self._step, "lesson": self._lesson, "accuracy": self._accuracy, "finished": self._finished}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `Loader`."""
        self._step, self._lesson = state["step"], state["lesson"]
        self._accuracy, self._finished = state["accuracy"], state["finished"]

    def _batch(self, number: int) -> MicroBatch:
        draw = random.Random(ids.seed_for("copy", self._seed, number))
        lesson = self._lessons[self._lesson]
        n_examples = _n_examples(self._config, lesson)
        examples = [copy_example(self._pieces, self._config, lesson, draw) for _ in range(n_examples)]
        return MicroBatch(number, collate(examples), [])


class Rehearsal:
    """Dialogues, and for a share of the steps the copying stage's last lesson again.

    A corpus has few words. What trains on it alone forgets how to say the others: after 1,400 steps on 278 dialogues
    "acceptability" was heard from the oracle and not said.

    Args:
        dialogues: the loader of the other steps.
        copying: random words; all that is taken of them is the last lesson.
        share: of the steps, spread evenly; that of the dialogues' settings.
    """

    is_finished = False

    def __init__(self, dialogues: Loader, copying: CopyLoader, share: float) -> None:
        self._dialogues, self._copying, self._share = dialogues, copying, share
        self._copying.skip_to_last()
        self._step = 0

    def next_step(self) -> list[MicroBatch]:
        """See `Loader`."""
        step = self._step
        self._step += 1
        if not rehearses(step, self._share):
            return self._dialogues.next_step()
        return [each._replace(is_rehearsal=True) for each in self._copying.batches_of(step)]

    def observe(self, share_right: float | None) -> dict[str, float]:
        """What the dialogues show."""
        return self._dialogues.observe(share_right)

    def state_dict(self) -> dict[str, Any]:
        """See `Loader`."""
        return {"step": self._step, "dialogues": self._dialogues.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `Loader`."""
        self._step = state["step"]
        # A run of before counts its dialogues' steps apart.
        self._dialogues.load_state_dict(state["dialogues"] | {"step": self._step})


def _n_examples(config: CopyConfig, lesson: Lesson) -> int:
    """Fewer as they grow longer, so that a step stays as long."""
    return max(1, config.batch_size * SHORT_FRAMES // max(lesson.n_frames, SHORT_FRAMES))


def judged(pieces: Pieces, config: CopyConfig, n_examples: int, seed: int) -> list[Judged]:
    """Examples of the last lesson that no step trains on, each beside the oracle of the one after it."""
    draw = random.Random(ids.seed_for("copy-validation", seed))
    examples = [copy_example(pieces, config, lessons(config)[-1], draw) for _ in range(n_examples)]
    followers = [*examples[1:], *examples[:1]]
    return [
        Judged(each, _fitted(other.oracle, each.n_positions)) for each, other in zip(examples, followers, strict=True)
    ]


def _fitted(stream: NDArray[np.int32], n_positions: int) -> NDArray[np.int32]:
    fitted = np.full(n_positions, PADDING_ID, np.int32)
    fitted[: len(stream)] = stream[:n_positions]
    return fitted
