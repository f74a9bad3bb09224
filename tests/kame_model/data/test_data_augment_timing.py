import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kame_model.data.augment_timing import ANSWER_LAG_FRAMES, NOTICE_FRAMES, FedDialogue, correct_answer, delay_answers
from kame_model.data.oracle_feed import insert_gaps
from kame_model.data.splicing import find_said_frames
from tests.support.known import known
from tests.support.pictures import clip, dialogue, fed_at, picture, sound, words

ONE = dialogue(
    "......QQQQQQ............................",
    "...................ll..abcde.f..t.......", (8, "xy"), (12, "abcdef"),
)  # fmt: skip
LONG = dialogue(
    "......QQQQQQ.......................................",
    "...................ll..abc..de.f..gh..ij...t.......", (8, "xy"), (12, "abcdefghij"),
)  # fmt: skip
TWO = dialogue(
    "..RRR............................",
    "...........mmm..ghij.............", (6, "ghij"),
)  # fmt: skip
BEGINS_WORD = np.zeros(200, np.bool_)
BEGINS_WORD[[ord("a"), ord("f"), ord("g")]] = True


def drawn(*lines: str) -> str:
    return "\n".join(lines)


def told_in_time(found: FedDialogue) -> bool:
    """Whether each token of the answer is fed at the position at which it is to be said, or before."""
    last = found.sides.own.oracle.skip_forbid.nonzero()[0][-1]
    told = next(each for each in found.fed if each.event == last)
    frames = known(find_said_frames(found.sides.own, int(last)))
    return all(at <= frame for at, frame in zip(told.find_token_positions(), frames, strict=False))


def test_an_answer_waits_for_its_oracle_and_another_lead_fills_the_time() -> None:
    late = [fed_at(20, "xy", 0), fed_at(24, "ab.c..def", 1)]
    found = delay_answers(ONE, late, 30, random.Random(1), fillers=[clip("mm")])
    assert picture(*found) == drawn(
        "......QQQQQQ.....................................",
        "...................ll....mm.....abcde.f..t.......",
        ".....................|xy.|ab.c..def..............",
    )
    assert all(sound(each) == words(each.text) for each in found.sides)


def test_an_answer_waits_between_its_words_where_the_oracle_has_a_gap() -> None:
    gap = [fed_at(14, "abcde..........f", 1)]
    found = delay_answers(ONE, gap, 30, random.Random(1), begins_word=BEGINS_WORD)
    assert picture(*found) == drawn(
        "......QQQQQQ.................................",
        "...................ll..abcde......f..t.......",
        "...............|abcde..........f.............",
    )
    before = delay_answers(ONE, gap, 30, random.Random(1))  # it is not known what begins a word
    assert picture(*before).splitlines()[1] == "...................ll.......abcde.f..t......."


def test_an_oracle_in_time_changes_nothing() -> None:
    for at in (5, 12, 20):
        fed = [fed_at(at, "abcdef", 1)]
        found = delay_answers(ONE, fed, 30, random.Random(0))
        assert found.sides is ONE
        assert found.fed == fed


def test_an_answer_to_an_unfinished_question_waits_for_what_is_fed_of_it() -> None:
    """The rest of the guess was withdrawn, so that no token of it arrives."""
    oracle = replace(ONE.own.oracle, ratio=np.array([0.5, 0.8], np.float32))
    sides = ONE._replace(own=replace(ONE.own, oracle=oracle))
    found = delay_answers(sides, [fed_at(24, "abc", 1)], 30, random.Random(1))
    assert picture(*found) == drawn(
        "......QQQQQQ..................................",
        "...................ll........abcde.f..t.......",
        ".........................|abc.................",
    )


def test_what_does_not_fit_makes_the_back_end_quicker() -> None:
    found = delay_answers(ONE, [fed_at(27, "xy", 0), fed_at(31, "abcdef", 1)], 5, random.Random(1))
    assert found.sides.n_frames == ONE.n_frames + 5
    assert told_in_time(found)
    assert found.fed[1].frame - found.fed[0].frame == 4


def test_nobody_is_made_to_wait_while_the_user_talks() -> None:
    text = ONE.other.text.copy()
    text[25] = ord("Q")
    talking = ONE._replace(other=replace(ONE.other, text=text))
    found = delay_answers(talking, [fed_at(30, "abcdef", 1)], 30, random.Random(1))
    assert found.sides is talking
    assert told_in_time(found)


def test_a_later_question_comes_later_with_its_oracle() -> None:
    """The second turn's answer is late as well: each waits for its own."""
    sides = dialogue(
        "....QQQ...............QQQQ........................",
        "............abcd.....................efgh.........", (8, "abcd"), (30, "efgh"),
    )  # fmt: skip
    sides.own.oracle.skip_forbid[0] = True
    found = delay_answers(sides, [fed_at(18, "abcd", 0), fed_at(40, "efgh", 1)], 40, random.Random(3))
    first = 18 + 2 + random.Random(3).randint(*ANSWER_LAG_FRAMES)
    assert words(found.sides.own.text).index("a") == first
    assert words(found.sides.other.text).rindex("QQQQ") == 22 + first - 12
    assert found.fed[1].frame == 40 + first - 12
    assert words(found.sides.own.text).index("e") >= found.fed[1].frame + 2
    assert found.sides.own.oracle.frame.tolist() == [8, 30 + first - 12]


@given(
    delay=st.integers(-10, 60),
    frames_per_token=st.floats(0.5, 4),
    n_spare=st.integers(0, 80),
    knows_words=st.booleans(),
    seed=st.integers(0, 99),
)
def test_each_token_is_told_before_it_is_said(
    delay: int, frames_per_token: float, n_spare: int, knows_words: bool, seed: int
) -> None:
    draw = random.Random(seed)
    told = insert_gaps([*map(ord, "abcdefghij")], frames_per_token, draw)
    come = [fed_at(max(0, 12 + delay), "", 1)._replace(tokens=told)]
    begins_word = BEGINS_WORD if knows_words else None
    found = delay_answers(LONG, come, n_spare, draw, fillers=[clip("mmm")], begins_word=begins_word)
    assert LONG.n_frames <= found.sides.n_frames <= LONG.n_frames + n_spare
    assert found.fed[0].frame == 0 or told_in_time(found)
    assert words(found.sides.own.text).replace(".", "").replace("mmm", "") == "llabcdefghijt"


@pytest.mark.parametrize("seed", range(8))
def test_a_corrected_answer_begins_as_the_one_and_ends_as_the_other(seed: int) -> None:
    found = known(correct_answer(LONG, [fed_at(12, "abcdefghij", 1)], TWO, random.Random(seed)))
    said = words(found.sides.own.text).replace(".", "")
    assert said.endswith("mmmghij")
    assert "llabcdefghij".startswith(said.removesuffix("mmmghij"))
    assert "".join(map(chr, found.fed[-1].tokens)) == "ghij"
    change = words(found.sides.own.text).index("mmm") - 4  # the pause of `TWO` before its lead
    assert NOTICE_FRAMES[0] <= change - found.fed[-1].frame <= NOTICE_FRAMES[1]


def test_a_correction_looks_so() -> None:
    found = known(correct_answer(LONG, [fed_at(12, "abcdefghij", 1)], TWO, random.Random(1)))
    assert picture(*found) == drawn(
        "......QQQQQQ...............................................",
        "...................ll..abc..de.f.....mmm..ghij.............",
        ".............|abcdefghij...|ghij...........................",
    )


def test_a_correction_is_between_words_where_these_are_known() -> None:
    only_g = BEGINS_WORD.copy()
    only_g[ord("f")] = False
    fed = [fed_at(12, "abcdefghij", 1)]
    corrected = [found for seed in range(6) if (found := correct_answer(LONG, fed, TWO, random.Random(seed), only_g))]
    assert corrected, "at least one draw finds a pause before a word"
    assert all("llabcdefmmm" in words(found.sides.own.text).replace(".", "") for found in corrected)


def test_an_answer_without_a_pause_is_not_corrected() -> None:
    assert correct_answer(ONE, [], TWO, random.Random(0)) is None
    assert correct_answer(LONG, [], dialogue("QQQ", "...abcd"), random.Random(0)) is None
