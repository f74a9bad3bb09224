"""From a dataset to a registered checkpoint: every step, again without work, and stopped half-way."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from backends import registry
from backends.codec.codec2 import VocoderCodec
from data_schemas.config.front_end import DatasetShare, FrontEndConfig, parse_dataset_share
from data_schemas.errors import BackendError, ConfigError, DatasetError
from data_schemas.presets import PRESETS
from data_schemas.records import AudioDialogue
from data_schemas.store import Store
from flows.runs import train
from flows.runs.speech import run_speech
from flows.runs.train import check_datasets, check_vocabulary, get_named_shares, run_front_end
from kame_model.checkpoint import load
from kame_model.checkpoint.files import FACTS
from kame_model.checkpoint.kame_json import TrainedDelays, read_kame_json
from kame_model.checkpoint.load import load_checkpoint
from kame_model.checkpoint.registry import read_registry
from kame_model.encode import token_dataset
from kame_model.encode.folder import TOKENIZER
from kame_model.encode.held_out import read_excluded_ids
from kame_model.encode.manifest import read_manifest
from kame_model.evaluate.recall import items as recall_items
from kame_model.evaluate.report.folder import read_items
from kame_model.train.logs import PICTURE, plot_losses
from kame_model.train.run_facts import read_facts
from tests.support.codecs import count_encoded
from tests.support.sentences import speech_config
from tests.support.small_datasets import noisy_dialogue, write_dataset
from tests.support.vocabularies import make_vocabulary

pytestmark = pytest.mark.full


class Watching:
    """Training's progress, remembered."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def begin(self, step: int, max_steps: int) -> None:
        """Nothing to remember."""

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        self.steps.append(step)

    def on_evaluation(self, step: int, evaluation: Mapping[str, Mapping[str, float]]) -> None:
        """Nothing to remember."""


def files(folder: Path) -> dict[str, Any]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_a_dataset_becomes_a_registered_checkpoint_and_again_does_nothing(config: FrontEndConfig) -> None:
    config = config.model_copy(update={"sampling_settings": {"temp_text": 0.4}})
    made = run_front_end(config)
    assert made.training.step == 3
    (entry,) = read_registry(config.checkpoints)
    assert Path(made.checkpoint) == Path(config.checkpoints) / entry.name
    assert entry.data == made.facts.training.data
    assert any(name.startswith("said once, right oracle after 0.1 s") for name in entry.figures)
    assert made.facts.sampling.temp_text == 0.4
    assert made.facts.trained_delays == TrainedDelays(min_s=0.0, max_s=3.0)
    loaded = load_checkpoint(made.checkpoint)
    assert loaded.load_tokenizer().text_card == loaded.front_end.text_card
    assert loaded.load_codec().card == loaded.front_end.card
    assert (config.of_seed / "evaluation" / "report.md").is_file()
    assert (Path(config.out) / "codec" / "codec.json").is_file()
    assert made.facts.sampling.temp == 0.4, "the codec's own"
    before = files(Path(made.checkpoint))
    watching = Watching()
    run_front_end(config, watching)
    assert watching.steps == []
    assert files(Path(made.checkpoint)) == before
    assert len(read_registry(config.checkpoints)) == 1
    for update, told in (
        ({"sampling_settings": {"temp_text": 0.5}}, r"holds this training, with temp_text 0\.4 instead of 0\.5\."),
        ({"voice": "synthesised"}, "with voice decoded instead of synthesised"),
    ):
        with pytest.raises(ConfigError, match=told):
            run_front_end(config.model_copy(update=update))
    picture = plot_losses(str(config.of_seed / "run"))
    assert picture.startswith(b"\x89PNG")
    assert (config.of_seed / "run" / PICTURE).read_bytes() == picture


@pytest.fixture
def with_speech(quick_config: FrontEndConfig, tmp_path: Path) -> FrontEndConfig:
    """A training with half a minute of speech."""
    codec = {"path": str(tmp_path / "codec")}
    run_speech(speech_config(tmp_path, codec="codec2-learnt", codec_options=codec))
    speaking = {"speak.max_steps": 2, "speak.shares.copying": 85, "copying.batch_size": 2}
    return quick_config.model_copy(
        update={
            "speech": str(tmp_path / "speech"),
            "codec_path": None,
            "settings": quick_config.settings | speaking,
            "evaluate_items": 0,
        }
    )


def test_it_learns_to_speak_first_with_the_vocabulary_and_codec_of_its_speech(with_speech: FrontEndConfig) -> None:
    made = run_front_end(with_speech.model_copy(update={"settings": with_speech.settings | {"copy.max_steps": 1}}))
    speaking, copying, last = (read_facts(with_speech.of_seed / each) for each in ("speak", "copy", "run"))
    assert [each.config.shares.main for each in (speaking, copying, last)] == ["speech", "copying", "dialogues"]
    assert copying.config.init_from == str(with_speech.of_seed / "speak")
    assert last.config.init_from == str(with_speech.of_seed / "copy")
    assert made.facts.training.init_from == f"{Path(with_speech.out).name}/seed-{with_speech.seed}/copy"
    assert Path(last.config.data.datasets[-1].path).name == "speech"
    by = read_manifest(Store(str(with_speech.speech))).made_with
    loaded = load_checkpoint(made.checkpoint)
    assert loaded.load_tokenizer().digest == by.tokenizer_digest
    assert loaded.load_codec().digest == by.codec_digest
    assert not (Path(with_speech.out) / "tokenizer.model").exists()
    assert not (Path(with_speech.out) / "codec").exists()


def test_speech_of_another_vocabulary_or_codec_or_that_says_held_out_items_is_refused(
    with_speech: FrontEndConfig, tmp_path: Path
) -> None:
    said = next(iter(read_excluded_ids([str(with_speech.speech)])))
    held_out = write_dataset(tmp_path / "held", [[replace(noisy_dialogue(50), item_id=said, group_id="q")]])
    for update, told in (
        ({"codec": "codec2"}, "codec codec2.* differs from that of .*speech"),
        ({"tokenizer": "x"}, "tokenizer.* differs from that of .*speech"),
        ({"held_out": str(held_out)}, f"says 1 items of held-out .*held: {said}"),
    ):
        with pytest.raises(ConfigError, match=told):
            run_front_end(with_speech.model_copy(update=update))


@pytest.mark.parametrize(
    ("told", "stages"),
    [
        ({}, "copy dialogues"),
        ({"speech": "s"}, "speak copy dialogues"),
        ({"speech": "s", "settings": {"speak.max_hours": 0, "copy.max_steps": 9}}, "copy dialogues"),
        ({"speech": "s", "init_from": "base"}, "dialogues"),
        ({"init_from": "base", "settings": {"copy.max_hours": 0.5}}, "copy dialogues"),
        ({"preset": "moshi-7b"}, "dialogues"),
    ],
)
def test_stages_are_those_of_the_plan_that_have_a_budget_and_data(told: dict[str, Any], stages: str) -> None:
    assert " ".join(train.list_stages(FrontEndConfig(datasets=["d"], **told))) == stages


def test_a_setting_goes_to_the_stage_that_it_names_and_those_of_the_shape_to_all() -> None:
    settings: dict[str, str | int | float | bool] = {
        "model.dim": 64,
        "speak.max_hours": 0.7,
        "data.swap_share": 0.1,
        "dialogues.shares.speech": 33,
    }
    config = FrontEndConfig(datasets=["d"], speech="s", max_steps=7, settings=settings)
    speak, copy, last = (train.make_train_config(config, each, "t", ["d"]) for each in ("speak", "copy", "dialogues"))
    assert {each.model.dim for each in (speak, copy, last)} == {64}
    assert [each.max_hours for each in (speak, copy, last)] == [0.7, None, None]
    assert (copy.data.swap_share, last.data.swap_share) == (0.5, 0.1)
    assert (speak.shares.speech, copy.shares.speech, last.shares.speech) == (90, 20, 33)
    assert (copy.accuracy, last.max_steps) == (0.99, 7)


def test_the_name_of_another_runs_checkpoint_is_not_its_weights(quick_config: FrontEndConfig, tmp_path: Path) -> None:
    config = quick_config.model_copy(update={"evaluate_items": 0})
    first = run_front_end(config)
    settings = config.settings | {"data.swap_share": 0.2}
    other = run_front_end(config.model_copy(update={"out": str(tmp_path / "b" / "run"), "settings": settings}))
    assert Path(other.checkpoint).name.startswith(Path(first.checkpoint).name + "-")
    assert other.facts.training.run != first.facts.training.run
    assert len(read_registry(config.checkpoints)) == 2


def test_the_device_reaches_the_codec_and_the_model_that_is_evaluated(
    config: FrontEndConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def ask(*arguments: Any) -> None:
        asked.append(str(arguments[-1]["device"] if isinstance(arguments[-1], dict) else arguments[-1]))
        raise BackendError("Not here.", "")

    config = config.model_copy(update={"device": "meta", "codec": "mimi"})  # a device that every machine has
    codec = train.make_codec(config)
    monkeypatch.setattr(registry, "build", ask)
    with pytest.raises(BackendError):
        train.encode(config, next(iter(get_named_shares(config))), str(make_vocabulary(tmp_path).path), codec)
    monkeypatch.setattr(token_dataset, "TokenDataset", Path)
    monkeypatch.setattr(recall_items, "select_rows", lambda dataset, settings: [dataset])
    monkeypatch.setattr(load, "load_checkpoint", ask)
    with pytest.raises(BackendError):
        train.evaluate(config, "nano", "rows", None)
    assert asked == ["meta", "meta"]


def test_moshis_size_comes_with_moshis_weights_vocabulary_and_codec() -> None:
    config = FrontEndConfig.model_validate({"datasets": ["d"], "preset": "moshi-7b", "init_from": None})
    assert (config.init_from, config.tokenizer, config.codec) == tuple(PRESETS["moshi-7b"].begins_with.values())
    assert config.tokenizer == "hf://kyutai/moshiko-pytorch-bf16/tokenizer_spm_32k_3.model"
    named = FrontEndConfig(datasets=["d"], preset="moshi-7b", init_from="mine", codec="mimi")
    assert named.init_from == "mine"
    with pytest.raises(ValidationError, match="moshi-7b requires the codec"):
        FrontEndConfig(datasets=["d"], preset="moshi-7b", codec="codec2")
    assert FrontEndConfig(datasets=["d"]).init_from is None
    own = [FrontEndConfig(datasets=["d"], preset=each).codec_name for each in ("nano", "small")]
    assert own == ["codec2-learnt", "mimi"]
    assert FrontEndConfig(datasets=["d"], preset="small", codec="codec2").codec == "codec2"


def test_a_training_from_the_shipped_checkpoint_has_its_vocabulary_and_codec() -> None:
    shipped = Path(__file__).parents[3] / "examples" / "checkpoints" / "nano"
    facts = read_kame_json(shipped / FACTS)
    assert facts.codec is not None
    taken = train.take_from_checkpoint(FrontEndConfig(datasets=["d"], init_from=str(shipped)))
    assert (taken.tokenizer, taken.codec) == (str(shipped / TOKENIZER), facts.codec.name)
    options = {**taken.codec_options, "path": str(taken.codec_path)}
    assert registry.build("codec", taken.codec_name, options).digest == facts.codec.digest
    named = taken.model_copy(update={"codec_path": None, "codec_options": {}})
    assert train.take_from_checkpoint(named) == taken
    for codec in ("mimi", "codec2-learnt"):
        named = FrontEndConfig(datasets=["d"], init_from=str(shipped), tokenizer="t", codec=codec)
        assert train.take_from_checkpoint(named) == named
    by_path = FrontEndConfig(datasets=["d"], init_from=str(shipped), codec_path=str(shipped / "codec"))
    assert train.complete_codec_and_vocabulary(by_path).codec == facts.codec.name
    assert train.complete_codec_and_vocabulary(FrontEndConfig(datasets=["d"])).codec is None


def test_a_dataset_without_held_out_dialogues_is_registered_without_their_figures(quick_config: FrontEndConfig) -> None:
    made = run_front_end(quick_config.model_copy(update={"evaluate_splits": ["validation"]}))
    (entry,) = read_registry(quick_config.checkpoints)
    assert made.figures == []
    assert not any(name.startswith("said") for name in entry.figures)


def test_settings_are_checked_before_anything_runs(config: FrontEndConfig) -> None:
    for update, told in (
        ({"settings": config.settings | {"lora.rank": 4}}, "init_from: adapters"),
        ({"evaluation_settings": {"sampling.warmth": 1.0}}, r"sampling\.warmth"),
        ({"sampling_settings": {"warmth": 1.0}}, "warmth"),
    ):
        with pytest.raises(ConfigError, match=told):
            run_front_end(config.model_copy(update=update))
    assert not Path(config.out).exists()


def test_a_vocabulary_of_other_pieces_or_texts_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    mine = [[noisy_dialogue(number) for number in range(4)]]
    folder = write_dataset(tmp_path / "data", mine)
    config = FrontEndConfig(datasets=[str(folder)], out=str(tmp_path / "run"))
    config = config.model_copy(update={"vocabulary": 90})  # of eight words no more than 106 can be made
    file = Path(train.make_tokenizer(config))
    before = files(Path(config.out))
    other = write_dataset(tmp_path / "other", [[noisy_dialogue(9)]])
    for update, told in (
        ({"vocabulary": 100}, r"has 90 pieces, but 100 are requested.*--vocabulary 90"),
        ({"datasets": [str(folder), str(other)]}, "trained on other dialogues or oracles .*--tokenizer"),
    ):
        with pytest.raises(ConfigError, match=f"(?s){told}"):
            run_front_end(config.model_copy(update=update))
        assert files(Path(config.out)) == before
    check_vocabulary(config.model_copy(update={"datasets": [str(other)], "tokenizer": str(file)}))
    assert train.make_tokenizer(config) == str(file)


def test_parameters_are_checked_before_anything_runs() -> None:
    for weight in ("0", "nan", "inf"):
        with pytest.raises(ValidationError, match="a weight must be a number greater than 0"):
            FrontEndConfig(datasets=[f"d={weight}"])
    with pytest.raises(ValidationError, match="name at least one folder"):
        FrontEndConfig()
    with pytest.raises(ValidationError, match="max_steps"):
        FrontEndConfig(datasets=["d"], max_steps=0)


def asking(number: int, split: str = "train", question: int | None = None) -> AudioDialogue:
    """A small dialogue of an item of its own, with a question of its own but where another's is named."""
    return replace(noisy_dialogue(number, split), group_id=f"q-{number if question is None else question}")


def held_out_folder(folder: Path, *dialogues: AudioDialogue) -> str:
    return str(write_dataset(folder, [dialogues]))


def test_another_seed_trains_on_what_is_encoded_and_one_table_tells_of_both(
    config: FrontEndConfig, tmp_path: Path
) -> None:
    others = [
        replace(noisy_dialogue(number, "validation", answer=answer), group_id=answer)
        for number, answer in enumerate(("six", "seven", "eight"))
    ]
    held_out = held_out_folder(tmp_path / "held", *others)
    config = config.model_copy(
        update={
            "held_out": held_out,
            "evaluate_items": 3,
            "evaluation_settings": {"n_sounds": 0, "sampling.temp_text": 0.3},
        }
    )
    first = run_front_end(config)
    shared = {name: Path(config.out) / name for name in ("tokenizer.model", "codec", "tokens")}
    before = {name: files(at) if at.is_dir() else at.read_bytes() for name, at in shared.items()}
    second = run_front_end(config.model_copy(update={"seed": 1}))
    assert {name: files(at) if at.is_dir() else at.read_bytes() for name, at in shared.items()} == before
    assert first.facts.training.run != second.facts.training.run
    assert Path(second.checkpoint).name == Path(first.checkpoint).name + "-seed-1"
    told = json.loads((config.of_seed / "evaluation" / "figures.json").read_text())
    assert told["run"]["system"]["sampling"]["temp_text"] == 0.3
    report = json.loads((Path(config.out) / "figures.json").read_text())
    (folders,) = report["run"]["systems"].values()
    assert [Path(each).parent.name for each in folders] == ["seed-1", "seed-0"]
    assert {each["row"]["oracle"] for each in report["rows"]} == {"right", "none", "wrong", "corrected"}
    assert {each["n"] for each in report["rows"] if each["measure"] == "said_once"} == {3}
    assert all(len(each["each"]) == 2 for each in report["rows"])
    dialogues = {each["dialogue_id"] for each in read_items(str(config.of_seed / "evaluation"))}
    assert dialogues == {f"mine-{number}-v0" for number in range(3)}


def test_a_held_out_dataset_whose_questions_are_trained_on_is_refused(config: FrontEndConfig, tmp_path: Path) -> None:
    trained = write_dataset(tmp_path / "trained", [[asking(1)], [asking(2, "test")]])
    same_item = held_out_folder(tmp_path / "held", asking(0, "test"), asking(1, "test", question=9))
    update = {"datasets": [str(trained)], "held_out": same_item}
    with pytest.raises(
        ConfigError, match=r"1 items of .*trained, or their questions, are also in the held-out dataset .*held.*mine-1"
    ):
        run_front_end(config.model_copy(update=update))
    update["held_out"] = held_out_folder(tmp_path / "never", asking(2, "test"))  # the test split trains nothing
    with pytest.raises(ConfigError, match=r"The held-out dataset .*never has no dialogue in train, validation"):
        run_front_end(config.model_copy(update=update))
    for way in ({"evaluate_splits": ["test"]}, {"evaluate_items": 0}):
        check_datasets(config.model_copy(update=update | way))
    assert not Path(config.out).exists()


def test_versions_of_a_datasets_oracles_are_mixed_by_weight(
    quick_config: FrontEndConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded = count_encoded(VocoderCodec, monkeypatch)
    shards = [[noisy_dialogue(number) for number in range(4)]]
    folder = write_dataset(tmp_path / "data", shards)
    write_dataset(folder, shards, "random", "no eggs")
    config = quick_config.model_copy(
        update={
            "datasets": [f"{folder}@default=2", f"{folder}@random"],
            "evaluate_items": 0,
            "tokenizer": str(make_vocabulary(tmp_path).path),
        }
    )
    run_front_end(config)
    mixed = read_facts(config.of_seed / "run").config.data.datasets
    assert [(Path(each.path).name, each.weight) for each in mixed] == [("0-data", 2.0), ("1-data", 1.0)]
    assert [read_manifest(Store(each.path)).oracle_version for each in mixed] == ["default", "random"]
    first, second = (read_manifest(Store(each.path)).shards for each in mixed)
    assert [each.codes for each in first] == [each.codes for each in second]
    assert len(encoded) == 8  # two voices of four dialogues, not once a version of the oracles
    with pytest.raises(DatasetError, match="no oracles of version 'rondom'"):
        run_front_end(config.model_copy(update={"datasets": [f"{folder}@rondom"], "out": str(tmp_path / "none")}))
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("data", DatasetShare("data")),
        ("data=2.5", DatasetShare("data", None, 2.5)),
        ("a/data@random", DatasetShare("a/data", "random")),
        ("data@random=0.5", DatasetShare("data", "random", 0.5)),
        ("me@home/data", DatasetShare("me@home/data")),
        ("data@2/", DatasetShare("data@2/")),
        ("a=b/data", DatasetShare("a=b/data")),
    ],
)
def test_a_dataset_is_named_with_its_oracles_and_its_weight(text: str, share: DatasetShare) -> None:
    assert parse_dataset_share(text) == share
