"""Beginning with any checkpoint, and what is said of one that does not fit or is broken."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from data_schemas.code_layout import CodeLayout
from data_schemas.errors import BackendError, ConfigError, StoreError
from kame_model.checkpoint.export import export_checkpoint
from kame_model.checkpoint.kame_json import TrainingFacts
from kame_model.checkpoint.load import init_from_checkpoint, load_checkpoint
from kame_model.checkpoint.summary import summarise
from kame_model.model.front_end import FrontEnd, build_front_end
from tests.support.front_ends import CARD, N_CODEBOOKS, TEXT_CARD, audio_of, random_batch, tiny_config, tiny_front_end

SAME = 1e-5
"""Difference of logits, float32: none was seen of a table, 1.4e-6 of what is found again in it."""


def exported(out: Path, front_end: FrontEnd | None = None, dtype: torch.dtype | None = None) -> Path:
    export_checkpoint(front_end or tiny_front_end(), None, None, out, TrainingFacts(), dtype)
    return out


def edited(out: Path, **changes: Any) -> Path:
    """The same folder with other entries in `kame.json`."""
    facts = json.loads((out / "kame.json").read_text())
    (out / "kame.json").write_text(json.dumps(facts | changes))
    return out


def difference(one: FrontEnd, other: FrontEnd) -> float:
    """The greatest difference of the two's logits on dialogues with oracles."""
    batch = random_batch()
    with torch.no_grad():
        left, right = one(batch.columns, batch.oracle), other(batch.columns, batch.oracle)
    return max(float((left.text - right.text).abs().max()), float((audio_of(left) - audio_of(right)).abs().max()))


@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, SAME), (torch.bfloat16, 0.1)])
def test_a_tied_oracle_is_found_again_in_its_table(dtype: torch.dtype, most: float, tmp_path: Path) -> None:
    tied = tiny_front_end(oracle="tied", tie_text_head=True)
    begun = tiny_front_end(seed=5, oracle="tied", tie_text_head=True)
    init_from_checkpoint(begun, exported(tmp_path / "out", tied, dtype))
    assert difference(begun, tied) < most
    assert difference(load_checkpoint(tmp_path / "out").front_end, tied) < most


def with_cue(seed: int = 0) -> FrontEnd:
    """A front-end that heeds its cue."""
    front_end = tiny_front_end(seed=seed, cue=True)
    with torch.no_grad():
        front_end.get_parameter("cue.projection.weight").normal_(std=0.3)
    return front_end


def test_a_cue_is_found_again(tmp_path: Path) -> None:
    cued, begun = with_cue(), with_cue(seed=5)
    out = exported(tmp_path / "out", cued)
    assert difference(cued, load_checkpoint(out).front_end) < SAME
    init_from_checkpoint(begun, out)
    assert difference(cued, begun) < SAME
    with pytest.raises(ConfigError, match=r"model\.cue is off"):
        init_from_checkpoint(tiny_front_end(), out)


def test_a_free_table_or_text_head_is_no_tied_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has a separate text head"):
        init_from_checkpoint(tiny_front_end(tie_text_head=True), exported(tmp_path / "head"))
    out = exported(tmp_path / "out", tiny_front_end(tie_text_head=True))
    with pytest.raises(ConfigError, match=r"model\.oracle is tied"):
        init_from_checkpoint(tiny_front_end(oracle="tied", tie_text_head=True), out)


def test_kames_release_is_begun_with(tmp_path: Path) -> None:
    theirs = tiny_front_end()
    out = exported(tmp_path / "out", theirs)
    (out / "config.json").rename(out / "moshi_lm_kwargs.json")
    (out / "kame.json").unlink()
    begun = tiny_front_end(seed=5)
    assert init_from_checkpoint(begun, out) is None
    assert difference(begun, theirs) == 0
    assert difference(load_checkpoint(out).front_end, theirs) == 0


@pytest.mark.parametrize("oracle", ["table", "tied"])
def test_moshis_own_has_no_oracle_and_a_table_starts_as_its_text(oracle: str, tmp_path: Path) -> None:
    out = exported(tmp_path / "out")
    (out / "kame.json").unlink()
    state = load_file(out / "model.safetensors")
    del state["oracle_emb.weight"]
    save_file(state, out / "model.safetensors")
    begun = tiny_front_end(seed=5, oracle=oracle)
    before = begun.oracle.make_table(begun.lm.text_emb)
    init_from_checkpoint(begun, out)
    table, text = begun.oracle.make_table(begun.lm.text_emb), begun.lm.text_emb.weight
    assert torch.equal(text, state["text_emb.weight"])
    assert torch.equal(table, text) == (oracle == "table")
    assert not torch.equal(table, before)
    assert torch.equal(load_checkpoint(out).front_end.oracle.embedding.weight, text)
    assert not summarise(out).has_oracle


@pytest.mark.parametrize("more", [{"context": 128}, {"cue": True}])
def test_farther_attention_or_a_cue_changes_nothing_at_first(more: dict[str, Any], tmp_path: Path) -> None:
    begun = tiny_front_end(seed=5, **more)
    init_from_checkpoint(begun, exported(tmp_path / "out"))
    assert difference(begun, tiny_front_end()) == 0


@pytest.mark.parametrize(
    ("text_card", "card", "n_codebooks", "dim", "said"),
    [
        (50, CARD, N_CODEBOOKS, 32, "The vocabulary of .* is 40, but that of the model to train is 50"),
        (TEXT_CARD, 99, N_CODEBOOKS, 32, "The codebook size of .* is 24, but that of the model to train is 99"),
        (TEXT_CARD, CARD, 8, 32, "The number of codebooks of a voice of .* is 3, but that of the model to train is 8"),
        (TEXT_CARD, CARD, N_CODEBOOKS, 64, "The dim of .* is 32, but that of the model to train is 64"),
    ],
)
def test_another_shape_is_named_by_both_values(
    text_card: int, card: int, n_codebooks: int, dim: int, said: str, tmp_path: Path
) -> None:
    begun = build_front_end(tiny_config(dim=dim), text_card, CodeLayout.make_mimi(n_codebooks, card))
    with pytest.raises(ConfigError, match=said):
        init_from_checkpoint(begun, exported(tmp_path / "out"))


def test_another_vocabulary_or_codec_of_the_same_size_is_named_too(tmp_path: Path) -> None:
    codec = {"name": "mimi", "digest": "cccc", "options": {}}
    out = edited(exported(tmp_path / "out"), tokenizer_digest="aaaa", codec=codec)
    init_from_checkpoint(tiny_front_end(), out, tokenizer_digest="aaaa", codec_digest="cccc")
    with pytest.raises(ConfigError, match=r"the tokenizer of digest aaaa, but .* with that of digest bbbb"):
        init_from_checkpoint(tiny_front_end(), out, tokenizer_digest="bbbb")
    with pytest.raises(ConfigError, match=r"the codec of digest cccc, but .* with that of digest dddd"):
        init_from_checkpoint(tiny_front_end(), out, codec_digest="dddd")


def test_a_checkpoint_of_a_newer_kame_is_said_to_be_one(tmp_path: Path) -> None:
    out = edited(exported(tmp_path / "out"), format=6)
    for read in (load_checkpoint, summarise):
        with pytest.raises(StoreError, match="is of format 6; this kame reads 5"):
            read(out)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "kame.json"])
def test_half_a_file_is_said_to_be_one(name: str, tmp_path: Path) -> None:
    out = exported(tmp_path / "out")
    content = (out / name).read_bytes()
    (out / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(StoreError, match=name):
        load_checkpoint(out)


@pytest.mark.parametrize(
    ("changes", "error", "told"),
    [
        ({"dim": 64}, StoreError, "do not match their configuration"),
        ({"no_such_key": 1}, StoreError, "not valid for moshi"),
        ({"lora": True, "lora_rank": 8}, ConfigError, "adapters that are not merged"),
    ],
)
def test_a_configuration_that_its_tensors_do_not_have_is_told(
    changes: dict[str, Any], error: type[Exception], told: str, tmp_path: Path
) -> None:
    out = exported(tmp_path / "out")
    config = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(error, match=told):
        load_checkpoint(out)


def test_a_configuration_that_is_no_object_is_told(tmp_path: Path) -> None:
    (exported(tmp_path / "out") / "config.json").write_text("[]")
    with pytest.raises(StoreError, match=r"config\.json cannot be read: it is not a JSON object"):
        load_checkpoint(tmp_path / "out")


def test_adapters_on_the_hub_are_refused_before_their_weights_are_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(repo_id: str, filename: str, *, revision: str | None = None) -> str:
        assert filename == "moshi_lm_kwargs.json", f"{filename} was downloaded too"
        return str(tmp_path / filename)

    (tmp_path / "moshi_lm_kwargs.json").write_text('{"lora": true}')
    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    with pytest.raises(ConfigError, match="adapters that are not merged"):
        load_checkpoint("somebody/adapters")


def test_a_place_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.safetensors is missing"):
        load_checkpoint(tmp_path)
    with pytest.raises(ConfigError, match="neither a folder nor the name of a Hub repository"):
        load_checkpoint(tmp_path / "not" / "there")


def test_the_hub_out_of_reach_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=r"moshi_lm_kwargs\.json of nobody/nothing .* no such folder exists"):
        load_checkpoint("nobody/nothing")
    out = exported(tmp_path / "out")
    config = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps(config | {"moshi_name": "hf://nobody/nothing/weights.safetensors"}))
    with pytest.raises(BackendError, match=r"weights\.safetensors of nobody/nothing .* configuration of .*out names"):
        load_checkpoint(out)
