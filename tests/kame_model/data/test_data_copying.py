import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from data_schemas.code_layout import CodeLayout
from data_schemas.config.copying import CopyConfig
from kame_model.data.copying import Lesson, Pieces, copy_example, pieces_of
from kame_model.data.lessons import SHORT_FRAMES, CopyLoader, judged, lessons
from kame_model.data.loader import Share
from kame_model.frames.batch import Example
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID, ZERO_ID
from tests.support.vocabularies import make_vocabulary

PIECES = Pieces(first=range(10, 60), more=range(60, 100), text_card=100, layout=CodeLayout.of_mimi(3, 16))


def config(**changes: Any) -> CopyConfig:
    return CopyConfig.model_validate(
        {"batch_size": 4, "max_frames": 0, "long_words": 0, "correct_share": 0.0} | changes
    )


def examples(gap: int, n: int = 40, n_frames: int = 0, n_words: int = 0, **changes: Any) -> list[Example]:
    draw = random.Random(0)
    return [copy_example(PIECES, config(**changes), Lesson(gap, n_frames, n_words), draw) for _ in range(n)]


def fed(example: Example) -> list[list[int]]:
    """Each oracle's tokens as they were fed, cut where a newer one came."""
    oracles: list[list[int]] = []
    for token in example.oracle.tolist():
        if token == PIECES.text_card:
            oracles.append([])
        elif token != PADDING_ID:
            oracles[-1].append(token)
    return oracles


@pytest.mark.parametrize("gap", [0, 1, 4])
def test_the_text_says_what_the_oracle_holds(gap: int) -> None:
    for each in examples(gap):
        said = [token for token in each.text_labels.tolist() if token > PADDING_ID]
        assert fed(each) == [said]


@pytest.mark.parametrize("gap", [0, 4])
def test_no_word_is_asked_for_before_its_oracle_was_fed(gap: int) -> None:
    for each in examples(gap):
        position = dict(enumerate(np.flatnonzero(each.oracle != PADDING_ID)[1:].tolist()))
        for index, at in enumerate(np.flatnonzero(each.text_labels > PADDING_ID).tolist()):
            assert position[index] <= at


def test_there_is_no_sound() -> None:
    for each in examples(2, n=5):
        assert (each.columns[1:] == ZERO_ID).all()
        assert (each.audio_labels == ZERO_ID).all()
        assert each.columns[0, 0] == PIECES.text_card


def test_words_after_padding_are_announced() -> None:
    for each in examples(4):
        text = each.columns[0, 1:]
        assert not ((text[:-1] == PADDING_ID) & (text[1:] > PADDING_ID)).any()
        assert END_OF_PADDING_ID in text


def test_accuracy_counts_tokens_whose_moment_can_be_known() -> None:
    for each in examples(0):
        assert (each.answer_mask == (each.text_labels > PADDING_ID)).all()
    for each in examples(3):
        text, known = each.columns[0, 1:], each.answer_mask
        assert (text[known] > PADDING_ID).all()
        first = np.isin(text, PIECES.first)
        follows = np.append(False, text[:-1] > PADDING_ID)
        assert not known[first & follows].any()
        assert known[first & ~follows].all()


@pytest.mark.parametrize("gap", [0, 2])
def test_a_new_oracle_takes_the_place_of_the_one_being_said(gap: int) -> None:
    for each in examples(gap, correct_share=1.0):
        oracles = fed(each)
        said = [token for token in each.text_labels.tolist() if token > PADDING_ID]
        n_first = len(said) - len(oracles[-1])
        assert said == oracles[0][:n_first] + oracles[-1]


def steps(loader: CopyLoader, n: int) -> list[torch.Tensor]:
    return [each.batch.columns for _ in range(n) for each in loader.next_step()]


def test_a_loader_gone_on_with_makes_the_same_words_in_the_same_lesson() -> None:
    whole, killed, resumed = (CopyLoader(PIECES, config(smoothing=0.0), 0, 2) for _ in range(3))
    for loader in (whole, killed):
        steps(loader, 3)
        loader.observe(0.95)
    resumed.load_state_dict(killed.state_dict())
    assert resumed.observe(None)["lesson"] == 1
    assert all(map(torch.equal, steps(whole, 3), steps(resumed, 3)))


def test_two_processes_share_the_words_of_one() -> None:
    alone = CopyLoader(PIECES, config(), 0, 2)
    shares = [CopyLoader(PIECES, config(), 0, 2, Share(rank, 2)) for rank in range(2)]
    together = [each for loader in shares for each in steps(loader, 1)]
    assert all(map(torch.equal, steps(alone, 1), together))


def test_long_examples_hold_many_exchanges_and_guesses_that_are_not_said() -> None:
    n_guesses = 0
    for each in examples(2, n_frames=300):
        oracles = [oracle for oracle in fed(each) if oracle]
        said = [token for token in each.text_labels.tolist() if token > PADDING_ID]
        spoken = [oracle for oracle in oracles if has_run(said, oracle)]
        assert [token for oracle in spoken for token in oracle] == said
        n_guesses += len(oracles) - len(spoken)
        assert 100 < each.n_positions <= 300 + 4
    assert n_guesses > 40


def test_the_last_lessons_have_oracles_as_long_as_real_ones_and_words_that_come_again() -> None:
    lengths, n_again, n_slow = [], 0, 0
    for each in examples(2, n_frames=400, n_words=36, min_words=20, max_words=20):
        oracles = [oracle for oracle in fed(each) if len(oracle) >= 20]  # guesses are cut where the next one comes
        text = each.text_labels
        said = [token for token in text.tolist() if token > PADDING_ID]
        spoken = [oracle for oracle in oracles if has_run(said, oracle)]
        assert [token for oracle in spoken for token in oracle] == said
        firsts = [[token for token in oracle if token in PIECES.first] for oracle in spoken]
        lengths += list(map(len, firsts))
        n_again += sum(len(words) - len(set(words)) for words in firsts)
        waited = np.flatnonzero(text == END_OF_PADDING_ID) + 1
        n_slow += int(np.isin(text[waited], PIECES.more).sum())
    assert max(lengths) > 30
    assert 0.2 < n_again / sum(lengths) < 0.5, "of 50 words that begin one, a good part comes again by chance too"
    assert n_slow > 100


def test_of_words_said_slowly_only_what_is_announced_can_be_known() -> None:
    for each in examples(2, n=10, n_frames=200, n_words=20):
        text, known = each.columns[0, 1:], each.answer_mask
        announced = np.append(False, text[:-1] == END_OF_PADDING_ID)
        assert (known == (announced & (text > PADDING_ID))).all()


def has_run(said: list[int], oracle: list[int]) -> bool:
    return any(said[at : at + len(oracle)] == oracle for at in range(len(said)))


def test_lessons_widen_the_gap_then_lengthen_the_examples_and_the_stage_ends_with_the_last() -> None:
    course = config(max_gap_frames=2, max_frames=400, smoothing=0.5, accuracy=0.8)
    assert lessons(course) == [Lesson(0), Lesson(1), Lesson(2), Lesson(2, 150), Lesson(2, 300), Lesson(2, 400)]
    loader = CopyLoader(PIECES, course, 0, 1)
    assert loader.observe(0.9) == {"lesson": 0.0, "lessons": 6.0, "accuracy": pytest.approx(0.45)}
    met = []
    while not loader.is_finished:
        met.append(loader.observe(1.0)["lesson"])
    assert met == sorted(met)
    assert set(met) == set(map(float, range(6)))
    at_last = config(max_gap_frames=2, max_frames=400, max_words=10, long_words=36)
    assert lessons(at_last)[5:] == [Lesson(2, 400), Lesson(2, 400, 20), Lesson(2, 400, 36)]
    assert lessons(config(max_gap_frames=0, long_words=36)) == [Lesson(0)], "short examples have no room for them"


def test_a_step_of_long_examples_is_no_longer_than_one_of_short_ones() -> None:
    loader = CopyLoader(PIECES, config(batch_size=32, max_gap_frames=0, max_frames=600, smoothing=0.0), 0, 1)
    sizes = []
    while not loader.is_finished:
        sizes.append(loader.next_step()[0].batch.oracle.shape)
        loader.observe(1.0)
    assert [n for n, _ in sizes] == [32, 16, 8, 4]
    assert all(n * n_positions <= 1.1 * 32 * SHORT_FRAMES for n, n_positions in sizes)


def test_a_wrong_oracle_is_that_of_the_next_example() -> None:
    made = judged(PIECES, config(), 3, seed=0)
    right = [fed(each.example)[0] for each in made]
    for each, other in zip(made, [*right[1:], right[0]], strict=True):
        tokens = [token for token in each.wrong_oracle.tolist() if token not in (PADDING_ID, PIECES.text_card)]
        assert tokens == other[: len(tokens)]


def test_pieces_are_those_of_words(tmp_path: Path) -> None:
    tokenizer = make_vocabulary(tmp_path)
    pieces = pieces_of(tokenizer, CodeLayout.of_mimi(3, 16))
    assert all(tokenizer.starts_word(each) for each in pieces.first)
    assert not any(tokenizer.starts_word(each) for each in pieces.more)
    assert all(tokenizer.decode([each]).strip() for each in [*pieces.first, *pieces.more])
    assert min(pieces.first) > PADDING_ID
