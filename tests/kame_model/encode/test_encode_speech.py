"""Single utterances to token rows: what a row holds, and which files stand when there are more parts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends.codec.double import DoubleCodec, DoubleCodecOptions
from backends.engine import Samples
from data_schemas.errors import BackendError
from data_schemas.records import Reject, SpokenSentence
from data_schemas.store import Store
from data_schemas.units import SAMPLE_RATE_HZ
from kame_model.encode import speech
from kame_model.encode.manifest import TokenManifest
from kame_model.encode.speech import (
    SpeechFacts,
    add_silence,
    compact_parts,
    count_rejects,
    read_part_duration_s,
    write_part,
)
from kame_model.encode.token_dataset import TokenDataset
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID
from kame_model.frames.inner_monologue import read_words
from kame_model.text.tokenizer import Tokenizer
from tests.support.token_rows import timed
from tests.support.vocabularies import make_vocabulary

CODEC = DoubleCodec(DoubleCodecOptions(n_codebooks=4, card=64))
FACTS = SpeechFacts(sentences="s", voice="v", speech="p", codec="c", tokenizer="t")
BEFORE_S = 0.08


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "speech"))


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return make_vocabulary(tmp_path)


def said(number: int, split: str = "train", length_s: float = 0.8) -> tuple[SpokenSentence, Samples]:
    """Two words in noise, between silence."""
    sentence = SpokenSentence(
        sentence_id=f"speech-0-{number:07d}",
        kind="sentence",
        split=split,
        source="mine",
        item_id="mine-1",
        spoken_text="Sixty litres.",
        voice="double_a",
        speed=1.0,
        words=tuple(timed(("Sixty", 0.0, 0.32), ("litres", 0.32, 0.72))),
    )
    sound = np.random.default_rng(number).uniform(-0.5, 0.5, round(length_s * SAMPLE_RATE_HZ)).astype(np.float32)
    return sentence, add_silence(sound, BEFORE_S, 0.4)


def write(store: Store, number: int, *of: tuple[SpokenSentence, Samples], n_rejects: int = 0) -> float:
    reject = Reject(item_id="mine-1", source="mine", stage="sentence", reason="number", detail="12 34")
    return write_part(store, number, of, [reject] * n_rejects, CODEC)


def compact(store: Store, n_parts: int, tokenizer: Tokenizer) -> TokenManifest:
    return compact_parts(store, n_parts, FACTS, CODEC, {"n_codebooks": 4, "card": 64}, tokenizer, BEFORE_S, {})


def test_a_row_is_an_utterance_of_the_assistants_to_which_nobody_listens(store: Store, tokenizer: Tokenizer) -> None:
    sentence, sound = said(0)
    part_s = write(store, 0, (sentence, sound))
    compact(store, 1, tokenizer)
    row = TokenDataset(store.root)[0]
    assert (row.dialogue_id, row.item_id, row.source, row.form) == (
        sentence.sentence_id,
        "mine-1",
        "speech",
        "sentence",
    )
    assert row.duration_s == pytest.approx(row.n_frames * 0.08) == part_s == 1.28
    assert [(frame, word) for frame, word in read_words(row.a.text, tokenizer)] == [(1, "sixty"), (5, "litres")]
    assert row.a.text[0] == END_OF_PADDING_ID  # the silence before has its place
    assert np.array_equal(row.a.codes, CODEC.encode([sound])[0])
    assert set(row.b.text.tolist()) == {PADDING_ID}
    assert np.array_equal(row.b.codes, CODEC.encode([np.zeros_like(sound)])[0])
    assert (row.question, row.answer, len(row.a.oracle), len(row.b.oracle)) == ("", "", 0, 0)
    assert not row.a.answer_mask.any()
    assert len(row.a.answer_mask) == len(row.b.answer_mask) == row.n_frames


def test_more_parts_make_more_shards_and_only_the_last_one_anew(
    store: Store, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speech, "PARTS_A_SHARD", 2)
    for number in range(3):
        write(store, number, said(number))
    first = compact(store, 3, tokenizer)
    stood = {path: store.read_bytes(path) for path in store.list_files("rows")}
    write(store, 3, said(3), said(4))
    second = compact(store, 4, tokenizer)
    assert [each.rows.n_rows for each in first.shards] == [2, 1]
    assert [each.rows.n_rows for each in second.shards] == [2, 3]
    assert second.shards[0] == first.shards[0]
    assert store.read_bytes(first.shards[0].rows.path) == stood[first.shards[0].rows.path]
    assert not store.exists(first.shards[1].codes.path)
    assert TokenDataset(store.root).dialogue_ids == [f"speech-0-{number:07d}" for number in range(5)]


def test_what_stands_is_not_made_again(store: Store, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    write(store, 0, said(0))
    before = compact(store, 1, tokenizer)
    monkeypatch.setattr(speech, "make_utterance_row", None)
    assert compact(store, 1, tokenizer) == before
    store.remove(before.shards[0].rows.path)
    with pytest.raises(TypeError):
        compact(store, 1, tokenizer)


def test_splits_have_shards_of_their_own(store: Store, tokenizer: Tokenizer) -> None:
    write(store, 0, said(0), said(1, "validation"), said(2))
    manifest = compact(store, 1, tokenizer)
    assert [(each.split, each.rows.n_rows) for each in manifest.shards] == [("train", 2), ("validation", 1)]
    assert manifest.counts.n_rows == 3
    assert TokenDataset(store.root).splits == ["train", "train", "validation"]


def test_a_part_tells_how_long_it_lasts_and_what_was_refused(store: Store) -> None:
    assert read_part_duration_s(store, 0) is None
    part_s = write(store, 0, said(0), said(1), n_rejects=2)
    write(store, 1, said(2))
    assert read_part_duration_s(store, 0) == part_s == 2 * 1.28
    assert count_rejects(store, 2) == {"number": 2}


class Wrong(DoubleCodec):
    """Gives one frame too many."""

    def encode(self, sounds: Any) -> Any:
        return [np.pad(each, ((0, 0), (0, 1))) for each in super().encode(sounds)]


def test_a_codec_that_breaks_its_word_leaves_no_part(store: Store) -> None:
    with pytest.raises(BackendError, match=r"returned codes .* for speech-0-0000000"):
        write_part(store, 0, [said(0)], [], Wrong(DoubleCodecOptions()))
    assert not store.list_files("")
