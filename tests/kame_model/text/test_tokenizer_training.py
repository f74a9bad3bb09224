"""A vocabulary of our own: special ids, whole number words, the same bytes, and what cannot be made."""

import random
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st
from num2words import num2words

from data_schemas.errors import ConfigError, DatasetError, StoreError
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID
from kame_model.text.tokenizer import Tokenizer
from kame_model.text.tokenizer_training import NUMBER_WORDS, train_tokenizer
from tests.support.vocabularies import TEXTS, make_vocabulary


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return make_vocabulary(tmp_path_factory.mktemp("vocabulary"))


def test_it_has_moshis_special_ids_and_as_many_pieces_as_asked_for(tokenizer: Tokenizer) -> None:
    pieces = sentencepiece.SentencePieceProcessor(str(tokenizer.path))
    assert (pieces.pad_id(), pieces.unk_id(), pieces.is_control(END_OF_PADDING_ID)) == (PADDING_ID, 2, True)
    assert tokenizer.text_card == pieces.vocab_size() == 300


def test_every_spoken_word_can_be_written_and_its_marks_capitals_and_accents_change_nothing(
    tokenizer: Tokenizer,
) -> None:
    assert tokenizer.unknown_id not in tokenizer.encode("the quick brown fox jumps over the lazy dog's jar of quartz")
    assert tokenizer.unknown_id in tokenizer.encode("x squared is 9")
    said = tokenizer.encode("that's sixty litres so it is not naive")
    assert tokenizer.encode("That’s SIXTY litres. So, it is not naïve!") == said
    assert tokenizer.decode(said) == "that's sixty litres so it is not naive"


@pytest.mark.parametrize("word", NUMBER_WORDS)
def test_a_number_word_is_one_piece_wherever_it_stands(tokenizer: Tokenizer, word: str) -> None:
    alone = tokenizer.encode(word)
    assert len(alone) == 1
    placed = tokenizer.place_words(["So", f"{word.capitalize()},", "clips"])
    assert [each.id for each in placed if each.word_index == 1] == alone


@given(number=st.integers(-(10**12), 10**12))
def test_a_number_has_a_token_a_word(tokenizer: Tokenizer, number: int) -> None:
    words = num2words(number).replace("-", " ").replace(",", "").split()
    assert [each.word_index for each in tokenizer.place_words(words)] == list(range(len(words)))


def test_the_same_texts_give_the_same_bytes_in_any_order_and_place(tmp_path: Path) -> None:
    mixed = random.Random(0).sample(TEXTS, len(TEXTS))
    first = train_tokenizer(TEXTS, 300, tmp_path / "here.model").tokenizer
    again = train_tokenizer(mixed, 300, tmp_path / "elsewhere" / "there.model").tokenizer
    assert first.path.read_bytes() == again.path.read_bytes()
    assert str(tmp_path).encode() not in first.path.read_bytes()


def test_own_words_can_be_whole(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(TEXTS, 300, tmp_path / "own.model", ["mitochondria"]).tokenizer
    assert len(tokenizer.encode("Mitochondria.")) == 1
    with pytest.raises(ConfigError, match="'Water tank' cannot be a piece of its own"):
        train_tokenizer(TEXTS, 300, tmp_path / "own.model", ["Water tank"])


def test_the_figures_are_those_of_the_corpus(tmp_path: Path) -> None:
    trained = train_tokenizer(["Ten tons, ten!", "Zymurgy."], 70, tmp_path / "few.model")
    assert (trained.n_words, trained.n_different_words, trained.n_words_whole) == (4, 3, 2)
    assert trained.n_tokens == 2 + len(trained.tokenizer.encode("tons")) + len(trained.tokenizer.encode("zymurgy"))


def test_a_vocabulary_too_small_for_the_corpus_says_what_it_takes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"A vocabulary of 60 is too small.*Choose 67 or more"):
        train_tokenizer(TEXTS, 60, tmp_path / "small.model")
    with pytest.raises(ConfigError, match=r"Choose 70 or more"):
        train_tokenizer([*TEXTS, "ωψφ"], 69, tmp_path / "small.model")
    assert train_tokenizer(TEXTS, 67, tmp_path / "small.model").tokenizer.text_card == 67


def test_a_corpus_too_small_for_the_vocabulary_says_what_it_makes(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"are too few for a vocabulary of 5000 pieces; the maximum is \d+"):
        train_tokenizer(TEXTS, 5000, tmp_path / "large.model")
    with pytest.raises(DatasetError, match="There is no text"):
        train_tokenizer(["", " -- "], 300, tmp_path / "none.model")
    assert not list(tmp_path.iterdir())


def test_another_vocabulary_of_that_name_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "kept.model"
    train_tokenizer(TEXTS, 300, out)
    train_tokenizer(TEXTS, 300, out)
    with pytest.raises(StoreError, match="already exists"):
        train_tokenizer(TEXTS, 301, out)
    assert Tokenizer(out).text_card == 300
