"""Records for tests: whole ones, of which a test says only what it is about."""

from collections.abc import Sequence
from typing import Any

from data_schemas import ids, splits
from data_schemas.config import FormsConfig, FormShares
from data_schemas.records import Dialogue, Item, Placement, Provenance, Turn, Utterance, WordTiming, WrittenSpan
from spoken.spoken_text import split_words

AFTER = Placement(rule="after", seconds=None, turn_index=None, word_index=None)


def make_item(question: str = "What is one and one?", answer: str = "two", **fields: Any) -> Item:
    """Makes an open question of a source called `mine`; `fields` replace its usual ones."""
    values: dict[str, Any] = {
        "item_id": "mine-1",
        "group_id": splits.make_group_id(question),
        "source": "mine",
        "native_id": "1",
        "split": "train",
        "language": "en",
        "explanation": None,
        "options": (),
        "answer_index": None,
        "category": None,
        "picture": None,
        "picture_digest": None,
        "picture_text": None,
        "licence": "CC0-1.0",
        "revision": None,
    }
    return Item(question=question, answer=answer, **(values | fields))


def make_utterance(text: str, words: Sequence[WordTiming] = (), **fields: Any) -> Utterance:
    """Makes an utterance that is placed after what came before; its times are those of `words`, if there are any."""
    values: dict[str, Any] = {
        "kind": "speech",
        "written_spans": tuple(WrittenSpan(start_char=None, end_char=None) for _ in split_words(text)),
        "placement": AFTER,
        "hearing": None,
        "voice": None,
        "speed": None,
        "start_s": words[0].start_s if words else None,
        "end_s": words[-1].end_s if words else None,
    }
    return Utterance(spoken_text=text, words=tuple(words), **(values | fields))


def make_turn(turn_index: int, speaker: str, utterances: Sequence[Utterance], **fields: Any) -> Turn:
    """Makes a turn whose texts are those of its utterances without backchannels, with all of it as its body."""
    said = " ".join(each.spoken_text for each in utterances if each.kind == "speech")
    values: dict[str, Any] = {
        "written_text": said,
        "spoken_text": said,
        "lead": None,
        "body": said,
        "tail": None,
        "answer_word_index": None,
        "keyword_delay_s": None,
        "cut_s": None,
        "start_s": utterances[0].start_s if utterances else None,
        "end_s": utterances[-1].end_s if utterances else None,
    }
    return Turn(turn_index=turn_index, speaker=speaker, utterances=tuple(utterances), **(values | fields))


def make_dialogue(*turns: Turn, **fields: Any) -> Dialogue:
    """Makes a dialogue of these turns for the item of `make_item()`; `fields` replace its usual ones."""
    item = make_item()
    values: dict[str, Any] = {
        "dialogue_id": ids.make_dialogue_id(item.item_id, 0),
        "item_id": item.item_id,
        "group_id": item.group_id,
        "source": item.source,
        "native_id": item.native_id,
        "variant": 0,
        "split": item.split,
        "language": item.language,
        "category": item.category,
        "licence": item.licence,
        "revision": item.revision,
        "form": "plain",
        "question": item.question,
        "answer": item.answer,
        "provenance": Provenance.from_script("made", seed=0),
    }
    return Dialogue(turns=turns, **(values | fields))


def make_forms(*names: str, **fields: Any) -> FormsConfig:
    """Returns settings under which dialogues have one of these forms and no other, all equally often."""
    shares = FormShares(**{name: float(name in names) for name in FormShares.model_fields})
    return FormsConfig(shares=shares, **fields)
