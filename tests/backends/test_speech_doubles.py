import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.aligner.double import DoubleAligner
from backends.tts.double import DoubleTts

WORDS = st.lists(st.sampled_from(["two", "apples", "and", "don't", "DNA", "cost", "A", "lot"]), min_size=1, max_size=30)


@given(words=WORDS, speed=st.floats(0.5, 2))
@pytest.mark.full
def test_every_word_lies_exactly_where_the_aligner_says(words: list[str], speed: float) -> None:
    sound = DoubleTts().synthesise(", ".join(words) + ".", "double_b", speed).samples
    timings = DoubleAligner().align(sound, 24_000, words)
    assert [timing.word for timing in timings] == words
    silent = np.ones(len(sound), dtype=bool)
    for timing in timings:
        start, end = round(timing.start_s * 24_000), round(timing.end_s * 24_000)
        assert abs(sound[start + 200 : end - 200]).max() > 0.25
        silent[start:end] = False
    assert not sound[silent].any()
