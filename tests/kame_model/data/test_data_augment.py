import random

import numpy as np
import pytest

from data_schemas.code_layout import CodeLayout
from kame_model.data.augment import (
    append_silence,
    cut_lead,
    cut_tail,
    exchange_lead,
    exchange_tail,
    find_answer_span,
    replace_answer,
    stall_answer,
    substitute_answer,
    swap_answer,
)
from kame_model.data.copying import WordPieces
from kame_model.data.splicing import QUIET_FRAMES, DialogueSides, find_handover
from tests.support.known import known
from tests.support.pictures import clip, dialogue, picture, sound, words

ONE = dialogue(
    "......QQQQQQ............................",
    "...................ll..abcde.f..t.......", (8, "xy"), (12, "abcdef"),
)  # fmt: skip
TWO = dialogue(
    "..RRR............................",
    "...........mmm..ghij.............", (6, "ghij"),
)  # fmt: skip
PIECES = WordPieces(
    [ord(each) for each in "abcdefgh"], [ord(each) for each in "ijklmnop"], 200, CodeLayout.make_mimi(2, 200)
)


def drawn(*lines: str) -> str:
    return "\n".join(lines)


def sounds_as_said(sides: DialogueSides) -> bool:
    """Whether each speaker's sound is that of the words."""
    return all(sound(each) == words(each.text) for each in sides)


def test_an_answer_is_swapped_for_anothers_with_its_oracle_and_its_lead() -> None:
    joined = known(swap_answer(ONE, TWO))
    assert picture(joined) == drawn(
        "......QQQQQQ...........................",
        ".................mmm..ghij.............",
        ".............|ghij.....................",
    )
    assert sounds_as_said(joined)
    assert np.flatnonzero(joined.own.answer_mask).tolist() == [22, 23, 24, 25]


def test_guesses_before_the_first_frame_are_left_out_of_a_swap() -> None:
    early = dialogue(
        "....QQQQQQQQQQQQQQQQQ............",
        ".......................abcd......", (8, "xy"), (20, "ef"), (22, "abcd"),
    )  # fmt: skip
    short = dialogue("QQQ.............", "..........efgh..", (7, "efgh"))
    joined = known(swap_answer(short, early))
    assert picture(joined) == drawn(
        "QQQ...............",
        "........abcd......",
        "......|e|abcd.....",
    )


@pytest.mark.parametrize("n_before", [1, QUIET_FRAMES])
def test_a_dialogue_in_which_the_answer_begins_early_is_not_cut(n_before: int) -> None:
    text = ONE.own.text.copy()
    text[13 - n_before] = ord("l")  # a word of a lead, while the question still runs
    early = ONE._replace(own=type(ONE.own)(text, ONE.own.codes, ONE.own.oracle, ONE.own.answer_mask))
    assert find_handover(early.own) is None
    assert swap_answer(early, TWO) is None
    assert swap_answer(TWO, early) is None


@pytest.mark.parametrize(
    "sides",
    [
        dialogue("QQQ......", "......abcd"),
        dialogue("QQQ......", "......lllltt", (3, "llll")),
        dialogue("QQQ...........", "..........abcd", (5, "abce")),
    ],
    ids=["no oracle", "no answer", "another answer"],
)
def test_an_answer_that_is_not_the_oracles_alone_gets_no_other_words(sides: DialogueSides) -> None:
    assert find_answer_span(sides) is None
    assert substitute_answer(sides, PIECES, random.Random(0)) is None


def test_an_utterance_is_said_for_the_answer_with_its_sound_and_its_oracle() -> None:
    span = known(find_answer_span(ONE))
    said = known(replace_answer(ONE, span, clip("ghijgh..k....")))
    assert picture(said) == drawn(
        "......QQQQQQ.................................",
        "...................ll..ghijgh..k.....t.......",
        ".........|xy.|ghijghk........................",
    )
    assert sounds_as_said(said)
    assert said.own.answer_mask.sum() == 7
    over = dialogue("......QQQQQQ.............Q....", "...................ll..abcde.f", (8, "xy"), (12, "abcdef"))
    assert find_answer_span(over) is None, "the user talks over it"


def test_a_right_guess_tells_the_utterance_and_what_follows_comes_later() -> None:
    """A follow-up question, whose oracle moves with it."""
    sides = dialogue(
        "....QQQQQQ...............QQQ...............",
        "..............abcd................efgh.....", (6, "abcd"), (10, "abcd"), (28, "efgh"),
    )  # fmt: skip
    sides.own.oracle.skip_forbid[1], sides.own.oracle.ratio[1] = True, 1.0
    sides.own.answer_mask[20:] = False  # the answer is the first one
    span = known(find_answer_span(sides))
    said = known(replace_answer(sides, span, clip("ijkijk........")))
    assert picture(said) == drawn(
        "....QQQQQQ...................QQQ...............",
        "..............ijkijk..................efgh.....",
        ".......|ijk|ijkijk...............|efgh.........",
    )


def test_without_speech_the_answer_has_other_pieces_and_no_sound() -> None:
    changed = known(substitute_answer(ONE, PIECES, random.Random(3)))
    said, before = words(changed.own.text), words(ONE.own.text)
    assert said.replace(".", "").strip("lt") == picture(changed).splitlines()[2][13:].strip("|.")
    assert [each == "." for each in said] == [each == "." for each in before]
    assert said != before
    assert sound(changed.own) == "...................ll..~~~~~~~~~t......."
    answer = [at for at, each in enumerate(before) if each in "abcdef"]
    assert all(said[at] in "abcdefgh" for at in answer), "a beginning of a word stands for a beginning"
    assert len({said[at] for at in answer}) == len(answer)


def test_without_an_oracle_the_answer_is_a_stall_and_silence() -> None:
    stall = known(stall_answer(ONE, [clip("ss")], random.Random(1)))
    assert picture(stall) == drawn(
        "......QQQQQQ............................",
        "...................ll.......ss..........",
        "........................................",
    )
    assert sounds_as_said(stall)
    assert not stall.own.answer_mask.any()
    for answerless in (dialogue("QQQ......", "......abcd"), dialogue("QQQ......", "......lllltt", (3, "llll"))):
        assert find_handover(answerless.own) is None
        assert stall_answer(answerless, [], random.Random(0)) is None


def test_a_lead_and_a_stall_stand_one_after_the_other_and_what_does_not_fit_is_left_out() -> None:
    both = known(stall_answer(ONE, [clip("mm"), clip("sss")], random.Random(2)))
    assert picture(both).splitlines()[1] == "...................ll.....mm....sss....."
    long = known(stall_answer(ONE, [clip("m" * 20)], random.Random(2)))
    assert picture(long).splitlines()[1] == "...................ll..................."


@pytest.mark.parametrize("n_frames", [1, 7, 50])
def test_behind_the_last_word_both_are_silent_as_they_were_at_the_end(n_frames: int) -> None:
    after = known(append_silence(ONE, n_frames))
    assert picture(after) == "\n".join(line + "." * n_frames for line in picture(ONE).splitlines())
    assert sounds_as_said(after)


def test_who_talks_to_the_end_is_not_repeated() -> None:
    assert append_silence(dialogue("QQQ...", ".....l"), 9) is None
    assert append_silence(dialogue("QQQQQQ", "l....."), 9) is None
    assert append_silence(ONE, 0) is None


def test_a_lead_is_what_stands_between_the_question_and_the_answer() -> None:
    lead = known(cut_lead(ONE))
    assert "".join(map(chr, lead.codes[0])) == "ll.."
    assert cut_lead(dialogue("QQQ...........", "..........abcd", (7, "abcd"))) is None


def test_a_lead_is_exchanged_for_anothers() -> None:
    said = known(exchange_lead(ONE, clip("mmm..mm...")))
    assert picture(said) == drawn(
        "......QQQQQQ..................................",
        "...................mmm..mm...abcde.f..t.......",
        ".........|xy.|abcdef..........................",
    )
    assert sounds_as_said(said)
    assert said.own.answer_mask.sum() == 6


def test_a_tail_is_exchanged_for_anothers() -> None:
    said = known(exchange_tail(ONE, clip("mmm..mm.......")))
    assert picture(said) == drawn(
        "......QQQQQQ..................................",
        "...................ll..abcde.f..mmm..mm.......",
        ".........|xy.|abcdef..........................",
    )
    assert sounds_as_said(said)


def test_a_tail_ends_before_the_users_next_turn() -> None:
    followed = dialogue(
        "....QQ.......................RRR.............",
        "..........abcd...tt.t......................u.", (6, "abcd"),
    )  # fmt: skip
    tail = known(cut_tail(followed))
    assert words(tail.text) == "tt.t......."
    said = known(exchange_tail(followed, clip("m.......")))
    assert picture(said).splitlines()[:2] == [
        "....QQ....................RRR.............",
        "..........abcd...m......................u.",
    ]


@pytest.mark.parametrize(
    "sides",
    [
        TWO,
        dialogue("QQQ......", "......abcd"),
        dialogue("QQQ.................R", "..........abcd...tt..", (6, "abcd")),
        dialogue("QQQ..................", "..........ab.t.......", (6, "abcd")),
    ],
    ids=["no tail", "no oracle", "interrupted tail", "half an answer"],
)
def test_without_a_whole_tail_none_is_exchanged(sides: DialogueSides) -> None:
    assert cut_tail(sides) is None
    assert exchange_tail(sides, clip("m.......")) is None


@pytest.mark.parametrize(
    "sides",
    [
        dialogue("QQQ......", "......abcd"),
        dialogue("QQQ..................", "..............abcd.....", (6, "abcd")),
        dialogue("QQQ.........RR.......", "..........ll.....abcd..", (6, "abcd")),
    ],
    ids=["no oracle", "no lead", "the user talks"],
)
def test_without_a_lead_of_its_own_a_dialogue_gets_none(sides: DialogueSides) -> None:
    assert exchange_lead(sides, clip("m.......")) is None
