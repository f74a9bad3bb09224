"""What the assistant's voice is to say: which sentences, how often each kind, and whose never."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from data_schemas.config.speech_rows import SpeechRowsConfig
from data_schemas.errors import ConfigError, DatasetError
from data_schemas.splits import choose_split
from pipelines.meaning import list_common_words
from pipelines.sentences.corpus import Corpus, SourceSentence, draw_sentence, read_corpus
from pipelines.sources.items import read_items
from spoken.reader import speak
from spoken.spoken_text import split_words
from tests.support.sentences import speech_config

LINES = [SourceSentence(f"mine-{n}", "mine", "How many?", f"There are {n} pens.") for n in range(10)]
CORPUS = Corpus(LINES, ["pen", "table"], "digest")


def config(tmp_path: Path, **shares: float) -> SpeechRowsConfig:
    none = dict.fromkeys(("sentence", "words", "numbers", "lead", "stall"), 0.0)
    return speech_config(tmp_path, shares=none | shares)


def test_only_train_items_speak_and_none_that_is_left_out(tmp_path: Path) -> None:
    made = speech_config(tmp_path)
    items = read_items(made.sources[0], None, made.split).items
    train = {each.item_id for each in items if choose_split(each.group_id, made.split) == "train"}
    assert 0 < len(train) < len(items)
    corpus = read_corpus(made)
    assert {each.item_id for each in corpus.lines} == train
    assert {"apples", "green"} < set(corpus.words)
    one, other, *_ = (each for each in items if each.item_id in train)
    left = read_corpus(made, frozenset({one.item_id, other.group_id}))
    assert {each.item_id for each in left.lines} == train - {one.item_id, other.item_id}
    assert left.digest != corpus.digest
    with pytest.raises(DatasetError, match="No sentence of the sources is left"):
        read_corpus(made, frozenset(train))


def test_sentences_have_as_many_words_as_asked_for_and_stand_once(tmp_path: Path) -> None:
    texts = [each.text for each in read_corpus(speech_config(tmp_path, min_words=6)).lines]
    assert len(texts) == len(set(texts))
    assert all("apples left" in each or "How many" in each for each in texts)


def test_another_language_is_refused(tmp_path: Path) -> None:
    made = speech_config(tmp_path)
    source = made.sources[0].model_copy(update={"languages": ["de"]})
    with pytest.raises(ConfigError, match="Only English"):
        read_corpus(made.model_copy(update={"sources": [source]}))


def test_all_lines_are_said_before_one_is_said_again_and_in_another_order(tmp_path: Path) -> None:
    said = [draw_sentence(CORPUS, config(tmp_path, sentence=1), position) for position in range(20)]
    first, second = ([each.written for each in part] for part in (said[:10], said[10:]))
    assert sorted(first) == sorted(second) == sorted(each.text for each in LINES)
    assert first != second
    expected = {(f"mine-{n}", "mine", "How many?") for n in range(10)}
    assert {(each.item_id, each.source, each.about) for each in said} == expected
    assert len({each.sentence_id for each in said}) == 20


def test_kinds_and_validation_have_their_shares_by_position_alone(tmp_path: Path) -> None:
    made = config(tmp_path, sentence=0.5, words=0.3, stall=0.2)
    kinds = Counter(draw_sentence(CORPUS, made, position).kind for position in range(1000))
    assert set(kinds) == {"sentence", "words", "stall"}
    assert 450 < kinds["sentence"] < 550
    assert 150 < kinds["stall"] < 250
    assert draw_sentence(CORPUS, made, 7) == draw_sentence(replace(CORPUS, digest="other"), made, 7)
    configs = (made, made.model_copy(update={"seed": 1}))
    one, other = ([draw_sentence(CORPUS, each, n).written for n in range(9)] for each in configs)
    assert one != other
    made = config(tmp_path, words=1).model_copy(update={"validation_share": 0.1})
    splits = Counter(draw_sentence(CORPUS, made, position).split for position in range(1000))
    assert 70 < splits["validation"] < 130
    assert splits.total() == splits["train"] + splits["validation"]


def test_random_words_are_those_of_the_sources_and_common_ones(tmp_path: Path) -> None:
    texts = [draw_sentence(CORPUS, config(tmp_path, words=1), position).written for position in range(200)]
    words = Counter(word.lower() for text in texts for word in split_words(text))
    assert set(words) <= {*CORPUS.words, *list_common_words()}
    assert 0.4 < (words["pen"] + words["table"]) / words.total() < 0.6
    assert all(3 <= len(split_words(text)) <= 12 for text in texts)


def test_numbers_of_all_sizes_are_read_out(tmp_path: Path) -> None:
    texts = [draw_sentence(CORPUS, config(tmp_path, numbers=1), position).written for position in range(300)]
    said = Counter(word for text in texts for word in split_words(speak(text)))
    scales = ("hundred", "thousand", "million", "point", "dollars", "percent", "minus", "twelve", "ninety")
    assert min(said[each] for each in scales) >= 3, said


@pytest.mark.parametrize("kind", ["lead", "stall"])
def test_leads_and_stalls_are_spoken_as_they_are_written(kind: str, tmp_path: Path) -> None:
    texts = {draw_sentence(CORPUS, config(tmp_path, **{kind: 1}), position).written for position in range(200)}
    assert len(texts) > 50
    assert not any(text.lower().count("help") > 1 for text in texts)
    assert all(speak(text).rstrip(".?") == text.rstrip(".?") for text in texts)
