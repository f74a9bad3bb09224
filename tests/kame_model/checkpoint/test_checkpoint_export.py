"""A folder that stock moshi loads, and what is in it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from moshi.models import loaders
from moshi.models.lm import LMModel
from safetensors.torch import load_file, save_file

from backends.codec.codec2_learnt import LearntCodec2, LearntCodec2Options
from backends.codec.mimi import Mimi
from data_schemas.config.model import LoraConfig, SamplingConfig
from data_schemas.errors import ConfigError, StoreError
from data_schemas.store import Store, WrittenFile
from kame_model.checkpoint.export import export_checkpoint, record_free_running
from kame_model.checkpoint.files import digest_files
from kame_model.checkpoint.kame_json import (
    FreeShare,
    TrainedDelays,
    TrainingFacts,
    choose_guesses,
    choose_voice,
    read_kame_json,
)
from kame_model.checkpoint.load import init_from_checkpoint, load_checkpoint
from kame_model.checkpoint.summary import summarise
from kame_model.frames.batch import collate
from kame_model.frames.ids import ZERO_ID
from kame_model.model.front_end import FrontEnd, build_front_end
from kame_model.model.lora import add_lora
from kame_model.text.tokenizer import Tokenizer
from tests.support.codecs import TINY_LAYOUT, open_mimi, tiny_mimi, write_codebooks
from tests.support.front_ends import (
    LED_BY_TEXT,
    audio_of,
    random_batch,
    random_example,
    stock_logits,
    tiny_config,
    tiny_front_end,
)
from tests.support.known import known
from tests.support.vocabularies import make_vocabulary

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
NEW = "answer not in the question"
SAID = FreeShare(measure="said_once", oracle="right", delay_s=0.32, group=NEW, n=16, of=19, low=0.62, high=0.94)
TRAINING = TrainingFacts(stage="dialogues", step=120, data=["0123456789abcdef"], figures={"right.text": 1.25})
NONE_SAID = SAID.model_copy(update={"oracle": "none", "delay_s": None, "n": 0, "low": 0.0})


@pytest.fixture(scope="module")
def voice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A codec's folder and a vocabulary, of sizes that go together with `speaking`."""
    folder = tmp_path_factory.mktemp("voice")
    tiny_mimi(folder / "codec")
    make_vocabulary(folder, 300).path.rename(folder / "tokenizer.model")
    return folder


def speaking(seed: int = 0) -> FrontEnd:
    """A front-end that speaks that codec and vocabulary."""
    torch.manual_seed(seed)
    return build_front_end(tiny_config(), 300, TINY_LAYOUT).eval()


def exported(voice: Path, out: Path, front_end: FrontEnd | None = None) -> Path:
    codec = open_mimi(voice / "codec")
    export_checkpoint(front_end or speaking(), Tokenizer(voice / "tokenizer.model"), codec, out, TRAINING)
    return out


@pytest.mark.parametrize("tied", [False, True], ids=["table", "tied"])
def test_stock_moshi_loads_it_less_its_one_key_and_says_the_same(tied: bool, tmp_path: Path) -> None:
    front_end = tiny_front_end(oracle="tied" if tied else "table", tie_text_head=tied)
    export_checkpoint(front_end, None, None, tmp_path / "out", TRAINING)
    assert summarise(tmp_path / "out").n_weights == sum(each.numel() for each in front_end.parameters())
    state, batch = load_file(tmp_path / "out" / "model.safetensors"), random_batch()
    table = state.pop("oracle_emb.weight")
    save_file(state, tmp_path / "stock.safetensors")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    kwargs = {key: value for key, value in config.items() if not key.endswith("_name")}
    stock = loaders.get_moshi_lm(tmp_path / "stock.safetensors", kwargs, dtype=torch.float32)  # strict
    with torch.no_grad():
        ours = front_end(batch.columns, torch.full_like(batch.oracle, ZERO_ID))
        fed = front_end(batch.columns, batch.oracle)
    theirs = stock_logits(stock, batch)
    assert torch.equal(ours.text, theirs.text)
    assert torch.equal(audio_of(ours), audio_of(theirs))
    # And with its own table as the summed condition, stock moshi hears the oracle as we do.
    theirs = stock_logits(stock, batch, table[batch.oracle])
    assert (fed.text - theirs.text).abs().max() < 1e-5
    assert (audio_of(fed) - audio_of(theirs)).abs().max() < 1e-5


def test_moshis_own_reader_finds_every_file(voice: Path, tmp_path: Path) -> None:
    out = exported(voice, tmp_path / "out")
    config = json.loads((out / "config.json").read_text())
    info = loaders.CheckpointInfo.from_hf_repo(
        "not/asked",
        moshi_weights=out / config["moshi_name"],
        mimi_weights=out / config["mimi_name"],
        mimi_config_path=out / config["mimi_config_name"],
        tokenizer=out / config["tokenizer_name"],
        config_path=out / "config.json",
    )
    mimi = info.get_mimi()
    assert (mimi.num_codebooks, mimi.cardinality) == (TINY_LAYOUT.n_codebooks, TINY_LAYOUT.card)
    assert info.get_text_tokenizer().vocab_size() == 300
    assert info.get_moshi(load_weight=False, dtype=torch.float32).dim == 32


def test_names_are_those_of_kyutais_files(tmp_path: Path) -> None:
    export_checkpoint(tiny_front_end(), None, None, tmp_path / "out", TRAINING)
    state = load_file(tmp_path / "out" / "model.safetensors")
    assert state["transformer.layers.0.self_attn.in_proj_weight"].shape == (3 * 32, 32)
    assert state["depformer.layers.1.self_attn.in_proj_weight"].shape == (3 * 3 * 16, 16)
    assert state["depformer.layers.1.self_attn.out_proj.weight"].shape == (3 * 16, 16)
    assert not [name for name in state if "_projs" in name]


def test_all_comes_back(voice: Path, tmp_path: Path) -> None:
    front_end = speaking()
    checkpoint = load_checkpoint(exported(voice, tmp_path / "out", front_end))
    loaded = checkpoint.front_end.state_dict()
    assert loaded.keys() == front_end.state_dict().keys()
    for name, tensor in front_end.state_dict().items():
        assert torch.equal(tensor, loaded[name]), name
    assert known(checkpoint.facts).training == TRAINING
    assert checkpoint.load_tokenizer().digest == known(checkpoint.facts).tokenizer_digest
    codec = checkpoint.load_codec()
    assert isinstance(codec, Mimi)
    assert codec.digest == tiny_mimi(tmp_path / "again").digest


def test_a_mimi_is_found_as_its_facts_say_and_as_before_they_named_files(voice: Path, tmp_path: Path) -> None:
    out, codec = tmp_path / "out", open_mimi(voice / "codec")
    facts = known(export_checkpoint(speaking(), None, codec, out, TRAINING).codec)
    assert (facts.files, facts.options) == (["mimi.json", "mimi.safetensors"], {"n_codebooks": 3})
    assert load_checkpoint(out).load_codec().digest == codec.digest
    told = json.loads((out / "kame.json").read_text())
    del told["codec"]["files"], told["codec"]["package"]  # as older versions wrote it
    (out / "kame.json").write_text(json.dumps(told))
    assert load_checkpoint(out).load_codec().digest == codec.digest


def test_a_codec_of_no_mimi_has_its_files_apart_and_the_card_says_what_stock_moshi_lacks(tmp_path: Path) -> None:
    write_codebooks(tmp_path / "codec", n_stages=2, card=8)
    codec = LearntCodec2(LearntCodec2Options(path=str(tmp_path / "codec")))
    front_end = build_front_end(tiny_config(), 300, codec.layout).eval()
    facts = export_checkpoint(front_end, None, codec, out := tmp_path / "out", TRAINING)
    assert (out / "codec" / "codebooks.safetensors").is_file()
    assert not list(out.glob("mimi*"))
    assert not {"mimi_name", "mimi_config_name"} & json.loads((out / "config.json").read_text()).keys()
    told = known(facts.codec)
    assert (told.name, told.files) == ("codec2-learnt", ["codec/codebooks.safetensors"])
    assert not told.is_mimi
    assert "Its LM loads in stock moshi, its codec `codec2-learnt` does not" in (out / "README.md").read_text()
    shutil.rmtree(tmp_path / "codec")
    assert load_checkpoint(out).load_codec().digest == told.digest


def test_how_it_is_to_be_run_is_told_and_older_folders_do_without(tmp_path: Path) -> None:
    out, own = tmp_path / "out", SamplingConfig(temp_text=0.3, top_k_text=9)
    delays = TrainedDelays(min_s=0.1, max_s=0.8)
    how: dict[str, Any] = {"sampling": own, "trained_delays": delays, "guesses": "hold", "voice": "synthesised"}
    export_checkpoint(speaking(), None, None, out, TRAINING, **how)
    checkpoint = load_checkpoint(out)
    facts = known(checkpoint.facts)
    assert (facts.sampling, facts.trained_delays, facts.guesses) == (own, delays, "hold")
    assert checkpoint.choose_sampling(SamplingConfig(temp_text=0.7)) == SamplingConfig(temp_text=0.7, top_k_text=9)
    chosen = [choose_guesses(*each) for each in ((facts, None), (facts, "feed"), (None, None))]
    assert chosen == ["hold", "feed", "withdraw"]
    heard = [choose_voice(*each) for each in ((facts, None), (facts, "decoded"), (None, None))]
    assert heard == ["synthesised", "decoded", "decoded"]
    rows = dict(summarise(out).format_rows())
    assert (rows["back-end in training"], rows["answers to an unfinished question"]) == ("0.1 to 0.8 s", "hold")
    assert rows["voice"] == "synthesised"
    shutil.copy(GOLDEN / "kame_json_1.json", out / "kame.json")
    older = load_checkpoint(out)
    assert known(older.facts).trained_delays is None
    assert older.choose_sampling(SamplingConfig()) == SamplingConfig()
    assert choose_voice(older.facts, None) == "decoded"
    assert older.front_end.layout == TINY_LAYOUT


def test_the_codes_layout_comes_back_and_stock_moshi_has_its_delays(tmp_path: Path) -> None:
    front_end, batch = tiny_front_end(layout=LED_BY_TEXT), collate([random_example(layout=LED_BY_TEXT)])
    told = SamplingConfig(top_k=9)
    facts = export_checkpoint(front_end, None, None, tmp_path / "out", TRAINING, sampling=told)
    assert facts.sampling == SamplingConfig(top_k=9, temp=0.4), "the codec's own temperature, where nobody says another"
    assert export_checkpoint(
        front_end, None, None, tmp_path / "warm", TRAINING, sampling=SamplingConfig(temp=1.5)
    ).sampling == SamplingConfig(temp=1.5)
    loaded = load_checkpoint(tmp_path / "out").front_end
    assert loaded.layout == LED_BY_TEXT
    assert loaded.lm.delays == [0, 2, 2, 2, 0, 0, 0]
    with torch.no_grad():
        assert torch.equal(front_end(batch.columns, batch.oracle).text, loaded(batch.columns, batch.oracle).text)
    with pytest.raises(ConfigError, match=r"The delays of text and codes of .* is \[0, 2, 2, 2, 0, 0, 0\]"):
        init_from_checkpoint(tiny_front_end(), tmp_path / "out")


def test_adapters_are_merged(tmp_path: Path) -> None:
    front_end, batch = tiny_front_end(), random_batch()
    add_lora(front_end, LoraConfig(rank=4))
    torch.manual_seed(3)
    with torch.no_grad():
        for name, parameter in front_end.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05)
        applied = front_end(batch.columns, batch.oracle)
    facts = export_checkpoint(front_end, None, None, tmp_path / "out", TRAINING)
    with torch.no_grad():
        loaded = load_checkpoint(tmp_path / "out").front_end(batch.columns, batch.oracle)
    assert facts.training.lora
    assert (applied.text - loaded.text).abs().max() < 1e-5


def test_the_summary_tells_without_reading_tensors(voice: Path, tmp_path: Path) -> None:
    summary = summarise(exported(voice, tmp_path / "out"))
    assert summary.n_parameters == sum(each.numel() for each in speaking().state_dict().values())
    assert summary.has_oracle
    told = dict(summary.format_rows())
    assert told["vocabulary"] == "300 pieces"
    assert summary.format_figures() == (["", "right oracle"], [["loss of words", "1.25"]])
    assert "mimi" in told["codec"]
    assert json.loads(json.dumps(summary.to_json()))["facts"]["training"]["step"] == 120


def test_the_cards_own_lines_load_it_with_stock_moshi(
    voice: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = exported(voice, tmp_path / "out")
    card = (out / "README.md").read_text()
    lines = card.split("## With stock moshi")[1].split("```python")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    exec(lines.replace("FOLDER", str(out)), scope)
    assert isinstance(scope["lm"], LMModel)
    assert "`0123456789abcdef`" in card
    assert "`right.text` | 1.25" in card
    assert "| `decoded`: its own" in card
    assert "temperature 0.7 for text and 0.8 for sound" in card
    assert "back-end in training | not known |" in card
    assert "stock moshi, its codec" not in card, "which stock moshi loads"


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("/home/me/checkpoints/nano-3", "nano-3"),
        ("/home/me/corpus-run/seed-0/copy", "corpus-run/seed-0/copy"),
        ("~/runs/copy", "copy"),
        ("../copy", "copy"),
        ("kyutai/moshiko-pytorch-bf16@main", "kyutai/moshiko-pytorch-bf16@main"),
    ],
)
def test_no_folder_of_the_machine_is_told(place: str, name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_checkpoint(speaking(), None, None, out, TrainingFacts(step=1, init_from=place))
    for file in ("kame.json", "README.md"):
        told = (out / file).read_text()
        assert name in told
        assert name == place or place not in told
    assert dict(summarise(out).format_rows())["started from"] == name


def test_an_export_of_before_is_read_without_the_folder_that_it_tells(tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_checkpoint(speaking(), None, None, out, TrainingFacts(step=1, init_from="copy"))
    told = json.loads((out / "kame.json").read_text())
    told["training"]["init_from"] = "/home/me/runs/copy"
    (out / "kame.json").write_text(json.dumps(told))
    assert read_kame_json(out / "kame.json").training.init_from == "copy"


def contents(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def test_free_runs_are_told_in_facts_and_card_and_nothing_else_changes(voice: Path, tmp_path: Path) -> None:
    out = exported(voice, tmp_path / "out")
    before, weights = contents(out), digest_files([out / "model.safetensors"])
    assert "not run freely" in before["README.md"].decode()
    assert "What it says without an oracle was not evaluated." in before["README.md"].decode()
    (out / "README.md.0.kame-writing").touch()  # what a killed run left
    facts = record_free_running(out, [SAID, NONE_SAID])
    after = contents(out)
    assert {name for name in before if before[name] != after[name]} == {"kame.json", "README.md"}
    assert before.keys() == after.keys()
    assert digest_files([out / "model.safetensors"]) == weights
    card = after["README.md"].decode()
    assert "| said once, right oracle after 0.32 s, answer not in the question | 84% [62%, 94%] of 19 |" in card
    assert "How often it gave the true answer without an oracle is among the figures above." in card
    assert read_kame_json(out / "kame.json") == facts
    assert facts.training == TRAINING  # by which a run knows its own export
    assert dict(summarise(out).format_free_running())[SAID.name] == "84% [62%, 94%] of 19"
    (out / "README.md").write_text("edited")
    record_free_running(out, [SAID, NONE_SAID])
    assert (out / "README.md").read_text() == "edited"


def test_free_runs_half_told_are_told_again(voice: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = exported(voice, tmp_path / "out")
    before, write = contents(out), Store.write_bytes

    def fill_up(self: Store, path: str, data: bytes) -> WrittenFile:
        if path == "kame.json":
            raise StoreError("No space left on device.", "")
        return write(self, path, data)

    with monkeypatch.context() as disk:
        disk.setattr(Store, "write_bytes", fill_up)
        with pytest.raises(StoreError, match="No space left"):
            record_free_running(out, [SAID])
    assert contents(out) == before | {"README.md": (out / "README.md").read_bytes()}
    assert record_free_running(out, [SAID]) == read_kame_json(out / "kame.json")
    assert "84%" in (out / "README.md").read_text()


def test_a_full_disk_leaves_nothing_behind(tiny_disk: Path) -> None:
    with pytest.raises(StoreError, match="No space left"):
        export_checkpoint(tiny_front_end(dim=64), None, None, tiny_disk / "out", TRAINING)
    assert list(tiny_disk.iterdir()) == []


def test_vocabulary_and_codec_of_other_sizes_are_refused(voice: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"vocabulary of 40 tokens, .* has 300"):
        export_checkpoint(tiny_front_end(), Tokenizer(voice / "tokenizer.model"), None, tmp_path / "out", TRAINING)
    codec = open_mimi(voice / "codec")
    with pytest.raises(ConfigError, match="3 codebooks of 24 entries, the codec mimi has 3 of 32"):
        export_checkpoint(tiny_front_end(), None, codec, tmp_path / "out", TRAINING)


def test_a_codec_put_in_anothers_place_is_found_out(voice: Path, tmp_path: Path) -> None:
    out = exported(voice, tmp_path / "out")
    tiny_mimi(tmp_path / "other", seed=9)
    shutil.copy(tmp_path / "other" / "mimi.safetensors", out)
    with pytest.raises(StoreError, match="The codec in"):
        load_checkpoint(out).load_codec()
