"""Measures how a front-end answers during training: a few validation dialogues run freely, with their own oracles.

The measure is that of `kame evaluate recall`, with fewer dialogues, one delay, and without the silence after the
recording, so an answer that comes late is cut off: a curve that shows when a run begins to answer, not a result to
publish. The texts of the first dialogues are returned with it.
"""

from collections.abc import Sequence
from typing import Final

import torch

from data_schemas import ids
from data_schemas.config.model import SamplingConfig
from data_schemas.config.recall import RecallConfig
from data_schemas.free_running import FreeDialogue, FreeTurn
from data_schemas.guesses import Guesses
from kame_model.encode.token_dataset import TokenDataset
from kame_model.evaluate.recall.free_running import MakesGenerator, make_script, plan_batches, run_freely
from kame_model.evaluate.recall.items import select_rows
from kame_model.evaluate.recall.turns import AskedDialogue, Turn, count_words, decode_said_words, find_turns, judge_turn
from kame_model.frames.inner_monologue import read_words
from kame_model.model.front_end import FrontEnd
from kame_model.model.streaming import FrontEndGen
from kame_model.text.tokenizer import Tokenizer
from kame_model.train.free_samples import N_KEPT, FreeResult

DELAY_S: Final = 0.32
"""Delay of the back-end in seconds; the one that `kame evaluate recall` uses if it uses only one."""

_BATCH_SIZE: Final = 32
_MOST_CHARACTERS: Final = 2000
"""Maximum length of a text that is kept."""


def draw_dialogues(
    datasets: Sequence[TokenDataset], tokenizer: Tokenizer, n_dialogues: int, seed: int
) -> list[AskedDialogue]:
    """Draws validation dialogues whose answer follows an oracle that contains it, from the datasets in turn.

    Args:
        datasets: datasets with the vocabulary of the tokenizer.
        tokenizer: the tokenizer.
        n_dialogues: maximum number of dialogues.
        seed: seed of the run.
    """
    choice = RecallConfig(splits=["validation"], n_items=n_dialogues, items_seed=seed)
    found = [find_turns(select_rows(each, choice), tokenizer) for each in datasets]
    turns = [each[at] for at in range(n_dialogues) for each in found if at < len(each)]
    return turns[:n_dialogues]


def measure_dialogues(
    front_end: FrontEnd,
    asked: Sequence[AskedDialogue],
    tokenizer: Tokenizer,
    generator: MakesGenerator = FrontEndGen,
    guesses: Guesses = "feed",
) -> FreeResult:
    """Runs dialogues freely; returns shares of their turns by name, and the texts of the first `N_KEPT` dialogues.

    Each dialogue runs once with the right oracle and the model's own text and audio.

    `once`: the key words of the answer were said once, and no other answer. `first`: the first of all answers that were
    said is the right one; only of turns in which another answer can be recognised. `words`: share of the oracle's words
    that were said in order. `silent`: nothing was said. `recorded_once`: `once` of the recording, the maximum to
    expect. `turns` is not a share, but the number of turns.

    Args:
        front_end: on one device, all weights of one type; its mode is restored. Global random states are not used.
        asked: at least one dialogue.
        tokenizer: the tokenizer.
        generator: makes the streaming generator.
        guesses: how answers to an unfinished question are treated, as in training.
    """
    was_training, sampling = front_end.training, SamplingConfig()
    front_end.eval()
    said: list[Sequence[int]] = [()] * len(asked)
    with torch.random.fork_rng():
        for batch in plan_batches([each.row.n_frames for each in asked], _BATCH_SIZE):
            group = [asked[at] for at in batch]
            scripts = [make_script(each, None, "right", DELAY_S, 0.0, tokenizer, guesses=guesses) for each in group]
            runs = run_freely(front_end, scripts, sampling, ids.derive_seed("free dialogues") % 2**63, generator)
            for at, ran in zip(batch, runs, strict=True):
                said[at] = ran.text.tolist()
    front_end.train(was_training)
    texts = list(zip(asked, said, strict=True))
    turns = [_compute_turn_figures(turn, each, text, tokenizer) for each, text in texts for turn in each.turns]
    names = dict.fromkeys(name for each in turns for name in each)
    of_each = {name: [each[name] for each in turns if name in each] for name in names}
    figures = {name: sum(values) / len(values) for name, values in of_each.items()} | {"turns": float(len(turns))}
    return FreeResult(figures, [_make_free_dialogue(each, text, tokenizer) for each, text in texts[:N_KEPT]])


def _compute_turn_figures(
    turn: Turn, asked: AskedDialogue, text: Sequence[int], tokenizer: Tokenizer
) -> dict[str, float]:
    """Returns the figures of one turn; `first` is missing if no other answer can be recognised."""
    said = decode_said_words(text, tokenizer, turn.start, turn.end)
    answered = judge_turn(turn, said)
    recorded = judge_turn(turn, decode_said_words(asked.row.a.text, tokenizer, turn.start, turn.end))
    counts = count_words(turn.oracle_words, [each.word for each in said])
    first = {} if answered.is_right_first is None else {"first": float(answered.is_right_first)}
    return {
        "once": float(answered.is_said_once),
        **first,
        "words": counts.n_in_order / max(1, counts.n_expected),
        "silent": float(not said),
        "recorded_once": float(recorded.is_said_once),
    }


def _make_free_dialogue(asked: AskedDialogue, text: Sequence[int], tokenizer: Tokenizer) -> FreeDialogue:
    """Makes the record of a dialogue that the model ran freely: its first question, and the turns that can be judged.

    Args:
        asked: the dialogue as recorded.
        text: the model's text stream, one token per frame.
    """
    question = _shorten(asked.turns[0].question)
    turns = [_make_free_turn(each, asked, text, tokenizer) for each in asked.turns]
    return FreeDialogue(dialogue_id=asked.row.dialogue_id, question=question, turns=turns)


def _make_free_turn(turn: Turn, asked: AskedDialogue, text: Sequence[int], tokenizer: Tokenizer) -> FreeTurn:
    """Makes the record of one turn: its oracle, the model's text, the recording's, and the judgement."""
    answered = judge_turn(turn, decode_said_words(text, tokenizer, turn.start, turn.end))
    return FreeTurn(
        oracle=_shorten(tokenizer.decode(asked.row.a.oracle.get_fed(turn.event).tolist())),
        said=_read_said(text, turn, tokenizer),
        recorded=_read_said(asked.row.a.text.tolist(), turn, tokenizer),
        is_right=answered.is_said_once,
        delay_s=answered.delay_s,
    )


def _read_said(text: Sequence[int], turn: Turn, tokenizer: Tokenizer) -> str:
    """Returns the words of a text stream in the frames of a turn, shortened if it is very long."""
    return _shorten(" ".join(word for frame, word in read_words(text, tokenizer) if turn.start <= frame < turn.end))


def _shorten(text: str) -> str:
    """Returns a text of at most `_MOST_CHARACTERS` characters, with an ellipsis if it was longer."""
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"
