"""Held-out questions as audio with the key words of their answers, from a dataset or from token rows."""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

import numpy as np

from backends.engine import Samples
from data_schemas import ids
from data_schemas.config.recall import RecallConfig
from data_schemas.manifest import MANIFEST
from data_schemas.reader import DatasetReader
from data_schemas.records import AudioDialogue
from data_schemas.units import FRAME_N_SAMPLES, seconds_to_samples
from kame_model.checkpoint.load import load_checkpoint
from kame_model.encode.dialogue import find_question_and_answer
from kame_model.encode.token_dataset import TokenDataset
from kame_model.evaluate.answers.key_words import extract_words, find_key_words
from kame_model.evaluate.recall.items import select_rows
from kame_model.evaluate.recall.turns import INTERRUPTION, find_turns
from pipelines.audio import decode_flac
from pipelines.mixing.timing import CHANNEL


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A question of a caller; `answer` are the key words of the true answer."""

    dialogue_id: str
    sound: Samples
    answer: tuple[str, ...]


def draw_questions(folder: str, checkpoint: str, splits: Sequence[str], n: int, seed: int) -> list[Question]:
    """Draws at most `n` questions of the dialogues in some splits by seed, without dialogues with an interruption.

    Of token rows, `n` are drawn before those with an interruption are left out.

    Args:
        folder: folder of a dataset, whose audio is played; or of token rows, whose codes are first decoded by the
            checkpoint's codec, which makes recognition harder.
    """
    if (Path(folder) / MANIFEST).exists():
        return list(islice(_draw_from_dataset(folder, splits, seed), n))
    config = RecallConfig.model_validate({"splits": list(splits), "n_items": n, "items_seed": seed})
    loaded = load_checkpoint(checkpoint)
    codec, found = loaded.codec(), []
    for row, turns in find_turns(select_rows(TokenDataset(folder), config), loaded.tokenizer()):
        if row.form != INTERRUPTION:
            sound = codec.decode(np.ascontiguousarray(row.b.codes[:, : turns[0].start + 1]))
            found.append(Question(row.dialogue_id, sound, turns[0].key))
    return found


def _draw_from_dataset(folder: str, splits: Sequence[str], seed: int) -> Iterator[Question]:
    """Yields a question of each item, in an order drawn by seed, with the sources in turn."""
    reader = DatasetReader(folder)
    by_source: dict[str, dict[str, str]] = defaultdict(dict)
    for dialogue in reader.dialogues():
        if dialogue.split in splits and dialogue.form != INTERRUPTION and _find_answering_turn(dialogue) is not None:
            by_source[dialogue.source].setdefault(dialogue.item_id, dialogue.dialogue_id)
    drawn = []
    for source, items in sorted(by_source.items()):
        found = sorted(items.values())
        random.Random(ids.derive_seed("delays", seed, source)).shuffle(found)
        drawn.append(found)
    for dialogue_id in (each for turn in zip_longest(*drawn) for each in turn if each is not None):
        yield _make_question(reader.dialogue(dialogue_id)[0])


def _find_answering_turn(dialogue: AudioDialogue) -> int | None:
    """Returns the index of the assistant's first turn with the whole answer; None if there is none."""
    for turn in dialogue.turns:
        if turn.speaker == "A" and turn.answer_word_index is not None and turn.cut_s is None:
            return turn.turn_index
    return None


def _make_question(dialogue: AudioDialogue) -> Question:
    """Makes the question of a dialogue: the user's audio up to the end of the last user turn before the answer."""
    answering = _find_answering_turn(dialogue)
    assert answering is not None
    end_s = max(turn.end_s or 0.0 for turn in dialogue.turns[:answering] if turn.speaker == "B")
    user = decode_flac(dialogue.flac)[: seconds_to_samples(end_s), CHANNEL["B"]]
    _, answer = find_question_and_answer(dialogue.turns)
    user = np.pad(user, (0, -len(user) % FRAME_N_SAMPLES))
    return Question(dialogue.dialogue_id, user.astype(np.float32), find_key_words(extract_words(answer)))
