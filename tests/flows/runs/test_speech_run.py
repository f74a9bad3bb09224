"""`kame speech` as a run: resumed, in several processes, with more hours, with a vocabulary and a codec of its own."""

import json
from pathlib import Path
from typing import Any

import pytest

from backends.aligner.protocol import AlignmentRefused
from backends.codec.double import DoubleCodec
from data_schemas.config.speech_rows import SpeechRowsConfig
from data_schemas.errors import ConfigError, DatasetError
from flows.runs import speech
from flows.runs.speech import SpeechResult, run_speech
from kame_model.encode.token_dataset import TokenDataset
from kame_model.frames.inner_monologue import read_words
from kame_model.text.tokenizer import Tokenizer
from tests.support.codecs import count_encoded
from tests.support.sentences import speech_config


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech, "SENTENCES_A_PART", 3)


def content(config: SpeechRowsConfig) -> dict[str, bytes]:
    """All files of a run's folder but its lock."""
    out = Path(config.out)
    files = (each for each in out.rglob("*") if each.is_file() and each.name != ".lock")
    return {str(each.relative_to(out)): each.read_bytes() for each in files}


def hours_of(made: SpeechResult) -> float:
    return made.manifest.counts.n_frames / 12.5 / 3600


def test_rows_last_as_long_as_asked_for_and_say_their_sentences(tmp_path: Path) -> None:
    config, told = speech_config(tmp_path), list[float]()
    made = run_speech(config, told.append)
    assert 0.01 <= hours_of(made) < 0.015
    assert sum(told) / 3600 == pytest.approx(hours_of(made))
    assert len(told) == made.n_parts > 1
    dataset, tokenizer = TokenDataset(config.out), Tokenizer(Path(config.out) / "tokenizer.model")
    words = [[word for _, word in read_words(dataset[row].a.text, tokenizer)] for row in range(len(dataset))]
    assert any({"apples", "left"} & set(each) for each in words)
    assert all(words)


def test_stopped_and_gone_on_with_it_has_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, stopped = (speech_config(tmp_path, out=str(tmp_path / name)) for name in ("whole", "stopped"))
    run_speech(whole)
    encode, n_calls = DoubleCodec.encode, 0

    def encode_twice(self: DoubleCodec, sounds: Any) -> Any:
        nonlocal n_calls
        n_calls += 1
        if n_calls > 2:
            raise KeyboardInterrupt
        return encode(self, sounds)

    with monkeypatch.context() as patch:
        patch.setattr(DoubleCodec, "encode", encode_twice)
        with pytest.raises(KeyboardInterrupt):
            run_speech(stopped)
    assert len(list((tmp_path / "stopped" / "parts").iterdir())) == 2
    assert not (tmp_path / "stopped" / "tokens.json").exists()
    run_speech(stopped)
    assert content(stopped) == content(whole)


def test_more_hours_add_parts_and_make_none_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = speech_config(tmp_path)
    before, parts = run_speech(config), {name for name in content(config) if name.startswith("parts")}
    stood = {name: (Path(config.out) / name).stat().st_mtime_ns for name in parts}
    n_samples = count_encoded(DoubleCodec, monkeypatch)
    after = run_speech(config.model_copy(update={"hours": 0.015}))
    assert after.n_parts > before.n_parts
    assert {name: (Path(config.out) / name).stat().st_mtime_ns for name in parts} == stood
    assert 0 < sum(n_samples) / 24_000 < 60 * 0.6
    run_speech(config)
    assert len(TokenDataset(config.out)) == before.manifest.counts.n_rows


@pytest.mark.full
def test_several_processes_make_the_same_bytes(tmp_path: Path) -> None:
    alone, two = (speech_config(tmp_path, out=str(tmp_path / str(n)), workers=n) for n in (1, 2))
    run_speech(alone)
    run_speech(two)
    made = {name: data for name, data in content(two).items() if name in content(alone)}  # they may run ahead
    assert made == content(alone)


def test_a_folder_has_one_way_of_being_made(tmp_path: Path) -> None:
    config = speech_config(tmp_path)
    run_speech(config)
    for change in ({"seed": 1}, {"speech": {"tts": "double", "voice_a": "double_b"}}, {"max_words": 9}):
        with pytest.raises(ConfigError, match="was made with other settings: "):
            run_speech(speech_config(tmp_path, **change))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "note.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is not empty and holds no token rows of this kind"):
        run_speech(speech_config(tmp_path, out=str(tmp_path / "mine")))


@pytest.mark.parametrize(
    "codec", [{}, {"codec": "codec2-learnt", "codec_card": 16, "codec_minutes": 0.5}, {"codec": "codec2-neural"}]
)
def test_where_nothing_can_be_said_the_run_says_why(tmp_path: Path, codec: dict[str, Any]) -> None:
    config = speech_config(tmp_path, gate={"asr": "none", "min_letter_s": 1.0}, **codec)
    with pytest.raises(DatasetError, match=r"None of the 3 sentences of part 0 .* too_short_for_words: "):
        run_speech(config)


def test_where_no_phonemes_are_found_the_run_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AlignmentRefused("the words do not fit the sound")

    monkeypatch.setattr(speech, "align_phones", refuse)
    with pytest.raises(DatasetError, match=r"phonemes of none of the 3 .* of part 0 .* words do not fit the sound\."):
        run_speech(speech_config(tmp_path, codec="codec2-neural"))


def test_without_a_vocabulary_one_is_trained_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech, "_N_TEXTS", 100)
    config = speech_config(tmp_path, tokenizer=None, vocabulary=120)
    made = run_speech(config)
    assert made.manifest.made_with.text_card == 120
    stood = (Path(config.out) / "tokenizer.model").read_bytes()
    run_speech(config.model_copy(update={"hours": 0.012}))
    assert (Path(config.out) / "tokenizer.model").read_bytes() == stood


@pytest.mark.full
def test_without_a_path_the_codec_is_learnt_of_the_voice(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"speech": {"tts": "espeak"}, "alignment": {"aligner": "synthesiser"}}
    learnt = {"codec": "codec2-learnt", "codec_minutes": 0.5, "codec_card": 16}
    config = speech_config(tmp_path, **settings, **learnt)
    made = run_speech(config)
    layout = made.manifest.made_with.layout
    assert (layout.card, layout.n_codebooks) == (16, 6)
    assert made.manifest.codec_options["path"] == str(Path(config.out) / "codec")
    books = (Path(config.out) / "codec" / "codebooks.safetensors").stat().st_mtime_ns
    run_speech(config)
    assert (Path(config.out) / "codec" / "codebooks.safetensors").stat().st_mtime_ns == books
    with pytest.raises(ConfigError, match=r"other settings: codec learnt of 0\.5 minutes"):
        run_speech(speech_config(tmp_path, **settings, **(learnt | {"codec_stages": 1})))


@pytest.mark.parametrize(
    ("codec", "minutes", "says"),
    [
        ("codec2-neural", 1.2, "codec_minutes: networks need at least 1.25 minutes"),
        ("codec2-learnt", 5, "codec_minutes: 512 entries need at least 10.2 minutes"),
    ],
)
def test_a_codec_cannot_be_learnt_from_too_little_speech(tmp_path: Path, codec: str, minutes: float, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        speech_config(tmp_path, codec=codec, codec_minutes=minutes)


@pytest.mark.parametrize(("codec", "minutes"), [("codec2-neural", 120), ("codec2-learnt", 20)])
def test_a_codec_is_learnt_from_as_much_speech_as_it_needs(tmp_path: Path, codec: str, minutes: float) -> None:
    assert speech_config(tmp_path, codec=codec).learning_minutes == minutes


@pytest.mark.full
def test_the_networks_of_a_codec_are_trained_on_the_voice(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"speech": {"tts": "espeak"}, "alignment": {"aligner": "synthesiser"}}
    trained = {"n_steps": 400, "card": 16, "prosody_card": 8, "width": 8}
    learnt = {"codec": "codec2-neural", "codec_minutes": 1.3, "codec_training": trained}
    config = speech_config(tmp_path, **settings, **learnt)
    made = run_speech(config)
    assert made.manifest.made_with.layout.sizes == (16, 16, 8)
    record = json.loads((Path(config.out) / "codec" / "codec.json").read_text())
    assert record["config"]["n_steps"] == 400
    assert record["speech_s"] >= 78
    assert (record["sentences"] > 0, record["left_out"]) == (True, 0)
    assert 0.02 < record["phonemes_right"] <= 1
    networks = (Path(config.out) / "codec" / "neural.safetensors").stat().st_mtime_ns
    run_speech(config)
    assert (Path(config.out) / "codec" / "neural.safetensors").stat().st_mtime_ns == networks
    with pytest.raises(ConfigError, match=r"other settings: codec learnt of 1\.3 minutes: networks"):
        run_speech(speech_config(tmp_path, **settings, **(learnt | {"codec_training": trained | {"seed": 1}})))


def test_held_out_items_say_nothing(tmp_path: Path) -> None:
    config = speech_config(tmp_path)
    run_speech(config)
    ids = {str(each) for _, rows in TokenDataset(config.out).read_shards() for each in rows.read_column("item_id")}
    items = {each for each in ids if each.startswith("gsm8k-")}
    assert items
    other = speech_config(tmp_path, out=str(tmp_path / "other"), without=[config.out])
    run_speech(other)
    said = {str(each) for _, rows in TokenDataset(other.out).read_shards() for each in rows.read_column("item_id")}
    assert not said & items
