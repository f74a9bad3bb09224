"""Draws utterances from the speech rows of a mixture (`kame speech`), in which only the assistant speaks."""

import random
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from kame_model.data.splicing import TokenClip, cut_clip
from kame_model.encode.token_dataset import TokenDataset

ANSWERS = ("sentence", "words", "numbers")
"""Forms of rows that may replace an answer."""

STALLS = ("stall",)
"""Forms of rows that are said if nothing is known."""


class SpeechRows:
    """Utterances of the training split, drawn up to a length; empty if no dataset of the mixture has speech rows."""

    def __init__(self, datasets: Sequence[TokenDataset]) -> None:
        self._datasets = datasets
        self._answers, self._stalls = (self._sort_by_length(forms) for forms in (ANSWERS, STALLS))

    def draw_answer(self, n_most: int, draw: random.Random) -> TokenClip | None:
        """Draws an utterance of at most `n_most` frames for an answer; None if there is none."""
        return self._draw(self._answers, n_most, draw)

    def draw_stall(self, n_most: int, draw: random.Random) -> TokenClip | None:
        """Draws what is said if nothing is known, of at most `n_most` frames; None if there is none."""
        return self._draw(self._stalls, n_most, draw)

    @property
    def has_answers(self) -> bool:
        """Whether any row may replace an answer."""
        return len(self._answers) > 0

    def _sort_by_length(self, forms: Iterable[str]) -> NDArray[np.int64]:
        """Returns int64[N, 3]: frames, dataset and row of each training utterance of these forms, shortest first."""
        found = [
            (int(dataset.lengths[row]), number, row)
            for number, dataset in enumerate(self._datasets)
            for row in np.flatnonzero(dataset.is_speech).tolist()
            if dataset.splits[row] == "train" and dataset.forms[row] in forms
        ]
        return np.asarray(sorted(found), np.int64).reshape(-1, 3)

    def _draw(self, rows: NDArray[np.int64], n_most: int, draw: random.Random) -> TokenClip | None:
        """Draws one of the utterances of at most `n_most` frames, all with equal probability; None if there is none."""
        n_fit = int(np.searchsorted(rows[:, 0], n_most, side="right"))
        if n_fit == 0:
            return None
        _, dataset, row = rows[draw.randrange(n_fit)].tolist()
        said = self._datasets[dataset][row].a
        return cut_clip(said.text, said.codes)
