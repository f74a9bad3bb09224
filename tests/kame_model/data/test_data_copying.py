"""Lessons of copying: what is fed, what is said, and what was to be said."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from data_schemas.code_layout import CodeLayout
from data_schemas.config.copying import CopyConfig
from kame_model.data.copying import CopyScript, WordPieces, draw_script, draw_trial, get_pieces, make_example
from kame_model.data.lessons import CopySource, make_validation_examples
from kame_model.data.loader import Share
from kame_model.frames.batch import Example
from kame_model.frames.cue import compute_cues
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID, ZERO_ID
from tests.support.vocabularies import make_vocabulary

PIECES = WordPieces(first=range(10, 5000), more=range(5000, 9000), text_card=9000, layout=CodeLayout.make_mimi(3, 16))
"""So many that none is drawn twice by chance where it matters."""
PLAIN = dict.fromkeys(("again", "slow", "lead", "part", "correct", "silent", "slip", "own"), 0.0)
"""Shares of a course in which nothing happens but that oracles come and are said."""


def config(**changes: Any) -> CopyConfig:
    """A course of examples of 200 frames whose hardest lesson is plain but for what is told."""
    shares = {f"{name}_share": share for name, share in PLAIN.items()}
    return CopyConfig.model_validate({"batch_size": 4, "max_frames": 200, **shares, **changes})


def scripts(hardness: float = 1.0, n: int = 30, **changes: Any) -> list[CopyScript]:
    draw = random.Random(0)
    return [draw_script(PIECES, config(**changes), hardness, draw) for _ in range(n)]


def examples(hardness: float = 1.0, n: int = 30, **changes: Any) -> list[Example]:
    return [make_example(each, PIECES, random.Random(1)) for each in scripts(hardness, n, **changes)]


def text_of(example: Example) -> NDArray[np.int32]:
    """What each position reads: what was said at the position before."""
    return example.columns[0, :-1]


def told_by(script: CopyScript) -> dict[int, list[int]]:
    """The oracles that are to be said, by the positions of their starts."""
    oracles, start = dict[int, list[int]](), -1
    for at, token in enumerate(script.oracle.tolist()):
        if token == PIECES.text_card:
            start = at
        elif token != PADDING_ID and start in script.first_frame:
            oracles.setdefault(start, []).append(token)
    return oracles


def words_of(labels: NDArray[np.int32]) -> list[int]:
    return [token for token in labels.tolist() if token > PADDING_ID]


@pytest.mark.parametrize("hardness", [0.0, 0.5, 1.0])
def test_each_oracle_is_to_be_said_once_in_its_order_and_no_guess_is(hardness: float) -> None:
    for script in scripts(hardness):
        example = make_example(script, PIECES, random.Random(1))
        told = [token for oracle in told_by(script).values() for token in oracle]
        said = words_of(example.text_labels)
        assert said == told[: len(said)]
        assert len(said) > len(told) - 80, "the last oracles alone may be cut by the example's end"


@pytest.mark.parametrize("changes", [{}, {"lead_share": 1.0}, {"part_share": 1.0}, {"correct_share": 0.5}])
def test_no_word_is_asked_for_before_its_oracle_was_fed(changes: dict[str, Any]) -> None:
    for each in examples(**changes):
        fed = list[int]()
        for token, label in zip(each.oracle.tolist(), each.text_labels.tolist(), strict=True):
            fed = fed if token == PADDING_ID else [*fed, token]
            assert label <= PADDING_ID or label in fed


def test_words_after_padding_are_announced_without_sound_and_follow_at_once_in_the_first_lesson() -> None:
    for each in examples():
        labels = each.text_labels
        assert not ((labels[:-1] == PADDING_ID) & (labels[1:] > PADDING_ID)).any()
        assert END_OF_PADDING_ID in labels
        assert (each.columns[1:] == ZERO_ID).all()
        assert (each.audio_labels == ZERO_ID).all()
        assert each.columns[0, 0] == PIECES.text_card
    for script in scripts(0.0):
        labels = make_example(script, PIECES, random.Random(1)).text_labels
        assert (labels == END_OF_PADDING_ID).sum() <= len(script.first_frame)


def test_accuracy_counts_tokens_whose_moment_can_be_known() -> None:
    for each in examples(0.0):
        assert (each.answer_mask == (each.text_labels > PADDING_ID)).all()
    for each in examples(slow_share=0.5):
        announced = (text_of(each) == END_OF_PADDING_ID) & (each.text_labels > PADDING_ID)
        assert (each.answer_mask == announced).all()
        assert announced.any()


def test_a_newer_oracle_breaks_off_at_the_end_of_the_word() -> None:
    n_broken = 0
    for script in scripts(correct_share=1.0):
        oracles = list(told_by(script).values())
        said = words_of(make_example(script, PIECES, random.Random(1)).text_labels)
        at = 0
        for oracle in oracles:
            n_same = 0
            while n_same < len(oracle) and said[at + n_same : at + n_same + 1] == [oracle[n_same]]:
                n_same += 1
            at += n_same
            if at < len(said) and n_same < len(oracle):
                n_broken += 1
                assert oracle[n_same] in PIECES.first
        assert at == len(said)
    assert n_broken > 20


def test_leads_are_not_to_be_learnt_and_the_answer_waits_for_their_end() -> None:
    n_led = 0
    for script in scripts(lead_share=1.0):
        each = make_example(script, PIECES, random.Random(1))
        frames = [frame for frame in script.untold if frame < each.n_positions - 1]
        assert (each.text_labels[frames] == ZERO_ID).all()
        assert [int(text_of(each)[frame + 1]) for frame in frames] == [script.untold[frame] for frame in frames]
        assert not set(script.first_frame.values()) & set(frames)
        n_led += len(frames)
    assert n_led > 200


def test_delays_and_silences_are_as_long_as_told() -> None:
    delays, silences = list[int](), list[int]()
    for each in examples(n=60, max_frames=400, max_words=4):
        said = np.flatnonzero(each.text_labels > PADDING_ID)
        silences += np.diff(said).tolist()
        delays += np.flatnonzero(each.oracle == PIECES.text_card)[:1].tolist()
    assert max(delays) > 30
    assert 125 < max(silences) < 125 + 38 + 60


def test_without_an_oracle_nothing_is_to_be_said() -> None:
    for each in examples(silent_share=1.0, lead_share=0.5):
        assert not (each.text_labels > PADDING_ID).any()


def test_words_of_an_oracle_come_again() -> None:
    def share_again(again_share: float) -> float:
        oracles = [oracle for script in scripts(again_share=again_share) for oracle in told_by(script).values()]
        return 1 - sum(len(set(each)) for each in oracles) / sum(map(len, oracles))

    assert share_again(0.4) > share_again(0.0) + 0.15


def test_slips_are_never_learnt_and_the_right_token_follows_whatever_was_said() -> None:
    n_slips = 0
    for script in scripts(slip_share=0.1, correct_share=0.0):
        each = make_example(script, PIECES, random.Random(1))
        cues = np.asarray(compute_cues(text_of(each), each.oracle, PIECES.text_card))
        starts = np.maximum.accumulate(np.where(each.oracle == PIECES.text_card, np.arange(each.n_positions), -1))
        words = each.text_labels > PADDING_ID
        counts = np.isin(starts, list(script.first_frame))
        assert (each.text_labels == cues)[words & counts].mean() > 0.98, "but for words that are broken off"
        n_slips += int((text_of(each)[1:] != each.text_labels[:-1]).sum())
    assert n_slips > 200


def test_silence_follows_an_answer_that_is_begun_again() -> None:
    """The model says all of it twice: the second time nothing of it was to be said."""
    script = CopyScript(np.asarray([3, 9000, 10, 6100, 11] + [3] * 15, np.int32), first_frame={1: 4})
    spoken = make_example(script, PIECES, random.Random(0), [3] * 3 + [0, 10, 6100, 11] * 2 + [3] * 9, 1.0)
    assert spoken.text_labels.tolist() == [3, 3, 3, 0, 10, 6100, 11] + [3] * 13
    assert text_of(spoken).tolist()[5:12] == [10, 6100, 11, 0, 10, 6100, 11]


def test_guesses_stand_in_the_past_and_change_no_oracle() -> None:
    for script in scripts(n=5):
        guesses = np.random.default_rng(0).integers(0, 100, len(script.oracle))
        alone = make_example(script, PIECES, random.Random(1))
        spoken = make_example(script, PIECES, random.Random(1), guesses, 0.3)
        differs = text_of(spoken)[1:] != spoken.text_labels[:-1]
        assert (text_of(spoken)[1:] == guesses[:-1])[differs].all()
        assert 0.15 < differs.mean() < 0.4
        assert (spoken.oracle == alone.oracle).all()


def test_two_processes_share_the_words_of_one_and_ask_for_guesses_at_the_same_steps() -> None:
    course = config(own_share=0.5, lessons=1, min_frames=16, max_frames=16)
    alone = CopySource(PIECES, course, None, 0, 2)
    shares = [CopySource(PIECES, course, None, 0, 2, Share(rank, 2)) for rank in range(2)]
    n_asked = 0
    for step in range(12):
        whole, parts = alone.load_batches(step), [each for one in shares for each in one.load_batches(step)]
        assert all(torch.equal(a.batch.columns, b.batch.columns) for a, b in zip(whole, parts, strict=True))
        assert len({each.with_guesses is None for each in [*whole, *parts]}) == 1
        n_asked += whole[0].with_guesses is not None
    assert 2 < n_asked < 10


def test_a_micro_batch_with_guesses_has_the_same_oracles() -> None:
    micro = CopySource(PIECES, config(own_share=1.0), None, 0, 1).load_batches(0)[0]
    assert micro.with_guesses is not None
    guessed = micro.with_guesses(np.full(micro.batch.oracle.shape, 42))
    assert torch.equal(guessed.oracle, micro.batch.oracle)
    assert (guessed.inputs[:, 0] == 42).float().mean() > 0.2


def test_lessons_become_harder_and_the_stage_ends_with_the_last() -> None:
    loader = CopySource(PIECES, config(lessons=3, smoothing=0.5, max_frames=300), 0.8, 0, 1)
    assert loader.observe(0.9) == {"lesson": 0.0, "lessons": 3.0, "accuracy": pytest.approx(0.45)}
    met, sizes = list[float](), list[tuple[int, ...]]()
    while not loader.is_finished:
        sizes.append(tuple(loader.load_batches(len(sizes))[0].batch.oracle.shape))
        met.append(loader.observe(1.0)["lesson"])
    assert met == sorted(met)
    assert set(met) == {0.0, 1.0, 2.0}
    assert list(dict.fromkeys(sizes)) == [(4, 96), (2, 192), (1, 320)], "a step stays as long"


def test_a_wrong_oracle_is_that_of_the_next_example() -> None:
    made = make_validation_examples(PIECES, config(), 3, seed=0)
    for each, other in zip(made, [*made[1:], made[0]], strict=True):
        assert (each.wrong_oracle == other.example.oracle).all()


def test_a_trial_is_one_oracle_that_comes_late_and_silence_behind_it() -> None:
    draw, delays = random.Random(0), []
    for _ in range(40):
        trial = draw_trial(PIECES, config(again_share=0.2), draw)
        fed = np.flatnonzero(trial.oracle != PADDING_ID)
        delays.append(int(fed[0]))
        assert trial.oracle[fed].tolist() == [PIECES.text_card, *trial.tokens]
        assert len(trial.oracle) - fed[-1] > 125
    assert min(delays) < 6
    assert 30 < max(delays) <= 40


def test_pieces_are_those_of_words(tmp_path: Path) -> None:
    tokenizer = make_vocabulary(tmp_path)
    pieces = get_pieces(tokenizer, CodeLayout.make_mimi(3, 16))
    assert all(tokenizer.starts_word(each) for each in pieces.first)
    assert not any(tokenizer.starts_word(each) for each in pieces.more)
    assert all(tokenizer.decode([each]).strip() for each in [*pieces.first, *pieces.more])
    assert min(pieces.first) > PADDING_ID
