import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from backends import registry
from backends.engine import Samples
from backends.listener.protocol import Heard, ListenerStream

SCRIPT = "one two three|four five"


def sound(time_s: float) -> Samples:
    return np.full(round(time_s * 24_000), 0.1, dtype=np.float32)


def listened(told: list[Heard], **options: str | float) -> ListenerStream:
    ear: ListenerStream = registry.build("listener", "double", {"script": SCRIPT, **options}).listen(told.append)
    return ear


def test_a_word_is_heard_for_each_bit_of_sound_and_turns_with_any_follow_the_script() -> None:
    told: list[Heard] = []
    ear = listened(told)
    ear.feed(np.zeros(24_000, dtype=np.float32))
    ear.end_turn()
    assert told == [Heard("", is_final=True)]
    told.clear()
    for _ in range(3):
        ear.feed(sound(0.25))
        ear.feed(np.zeros(24_000, dtype=np.float32))
        ear.feed(sound(0.2))
        ear.end_turn()
    assert told == [
        *(Heard("one"), Heard("one two"), Heard("one two", is_final=True)),
        *(Heard("four"), Heard("four five"), Heard("four five", is_final=True)),
        *(Heard("one"), Heard("one two"), Heard("one two", is_final=True)),
    ]


@given(st.lists(st.integers(1, 9000), min_size=1, max_size=20))
def test_the_words_do_not_depend_on_how_the_sound_is_cut(lengths: list[int]) -> None:
    whole: list[Heard] = []
    cut: list[Heard] = []
    rng = np.random.default_rng(0)
    said = rng.uniform(0, 0.01, sum(lengths)).astype(np.float32)
    for told, pieces in ((whole, [said]), (cut, np.split(said, np.cumsum(lengths)[:-1]))):
        ear = listened(told)
        for piece in pieces:
            ear.feed(piece)
        ear.end_turn()
    assert cut[-1] == whole[-1]


def test_a_dead_ear_says_so_and_still_ends_turns_and_a_closed_one_is_silent() -> None:
    told: list[Heard] = []
    ear = listened(told, dies_after_s=0.3)
    ear.feed(sound(0.25))
    assert ear.failure is None
    ear.feed(sound(0.25))
    assert ear.failure == "the double died after 0.3 s"
    ear.end_turn()
    assert told == [Heard("one"), Heard("one", is_final=True)]
    ear.close()
    ear.end_turn()
    assert len(told) == 2
