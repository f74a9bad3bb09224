from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from data_schemas.config.training import CopyConfig
from kame_model.data.copying import CopyLoader, Pieces, copy_example, judged, pieces_of
from kame_model.data.loader import Share
from kame_model.frames.batch import Example
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID, ZERO_ID
from tests.vocabularies import make_vocabulary

PIECES = Pieces(first=range(10, 60), more=range(60, 100), text_card=100, card=16, n_codebooks=3)


def config(**changes: Any) -> CopyConfig:
    return CopyConfig.model_validate({"batch_size": 4, "correct_share": 0.0} | changes)


def examples(gap: int, n: int = 40, **changes: Any) -> list[Example]:
    import random

    draw = random.Random(0)
    return [copy_example(PIECES, config(**changes), gap, draw) for _ in range(n)]


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


def test_a_loader_gone_on_with_makes_the_same_words_at_the_same_gap() -> None:
    whole, killed, resumed = (CopyLoader(PIECES, config(smoothing=0.0), 0, 2) for _ in range(3))
    for loader in (whole, killed):
        steps(loader, 3)
        loader.observe(0.95)
    resumed.load_state_dict(killed.state_dict())
    assert resumed.observe(None)["gap"] == 1
    assert all(map(torch.equal, steps(whole, 3), steps(resumed, 3)))


def test_two_processes_share_the_words_of_one() -> None:
    alone = CopyLoader(PIECES, config(), 0, 2)
    shares = [CopyLoader(PIECES, config(), 0, 2, Share(rank, 2)) for rank in range(2)]
    together = [each for loader in shares for each in steps(loader, 1)]
    assert all(map(torch.equal, steps(alone, 1), together))


def test_the_gap_grows_with_accuracy_and_the_stage_ends_at_the_widest() -> None:
    loader = CopyLoader(PIECES, config(max_gap_frames=2, smoothing=0.5, accuracy=0.8), 0, 1)
    assert loader.observe(0.9) == {"gap": 0.0, "accuracy": pytest.approx(0.45)}
    gaps = []
    while not loader.is_finished:
        gaps.append(loader.observe(1.0)["gap"])
    assert gaps == sorted(gaps)
    assert set(gaps) == {0.0, 1.0, 2.0}


def test_a_wrong_oracle_is_that_of_the_next_example() -> None:
    made = judged(PIECES, config(), 3, seed=0)
    right = [fed(each.example)[0] for each in made]
    for each, other in zip(made, [*right[1:], right[0]], strict=True):
        tokens = [token for token in each.wrong_oracle.tolist() if token not in (PADDING_ID, PIECES.text_card)]
        assert tokens == other[: len(tokens)]


def test_pieces_are_those_of_words(tmp_path: Path) -> None:
    tokenizer = make_vocabulary(tmp_path)
    pieces = pieces_of(tokenizer, card=16, n_codebooks=3)
    assert all(tokenizer.starts_word(each) for each in pieces.first)
    assert not any(tokenizer.starts_word(each) for each in pieces.more)
    assert all(tokenizer.decode([each]).strip() for each in [*pieces.first, *pieces.more])
    assert min(pieces.first) > PADDING_ID
