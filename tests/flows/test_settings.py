"""What is typed and what stands in YAML become one configuration, the later over the earlier."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from data_schemas.config import RefreshConfig
from data_schemas.config.serving import ServeConfig
from data_schemas.errors import ConfigError
from flows.settings import (
    build_config,
    list_differences,
    list_sample_sources,
    parse_settings,
    parse_sources,
    read_yaml,
    validate_settings,
)


def written(folder: Path, text: str) -> Path:
    (folder / "mine.yaml").write_text(text, encoding="utf-8")
    return folder / "mine.yaml"


def test_sources_with_and_without_files_and_maps() -> None:
    assert parse_sources(["gsm8k", "mine=a=b.jsonl"], ["mine:question=q,answer=a"]) == [
        {"name": "gsm8k", "path": None, "columns": {}},
        {"name": "mine", "path": "a=b.jsonl", "columns": {"question": "q", "answer": "a"}},
    ]


def test_a_map_without_a_name_is_of_the_last_source() -> None:
    assert parse_sources(["gsm8k", "mine=x.jsonl"], ["question=q,answer=a"])[1]["columns"] == {
        "question": "q",
        "answer": "a",
    }


@pytest.mark.parametrize(
    ("sources", "maps"),
    [
        ([], ["question=q"]),
        (["mine=x"], ["question"]),
        (["mine=x"], ["question="]),
        (["mine=x"], ["=q"]),
        (["mine=x"], [""]),
        (["mine=x"], ["other:question=q"]),
    ],
)
def test_maps_that_fit_nothing_are_refused(sources: list[str], maps: list[str]) -> None:
    with pytest.raises(ConfigError, match="is not a list of field=COLUMN"):
        parse_sources(sources, maps)


def test_options_go_to_their_source_with_values_as_yaml_has_them() -> None:
    given = ["gsm8k:hub_split=test", "first_place=1,hub_id=a/b:c"]
    gsm8k, mine = parse_sources(["gsm8k", "mine"], [], options=given)
    assert gsm8k["options"] == {"hub_split": "test"}
    assert mine["options"] == {"first_place": 1, "hub_id": "a/b:c"}
    with pytest.raises(
        ConfigError, match=r"--source-option x:a=b is not a list of option=value.*kame backends options source"
    ):
        parse_sources(["gsm8k"], [], options=["x:a=b"])


def test_a_source_given_twice_is_refused_not_halved() -> None:
    with pytest.raises(ConfigError, match="'gsm8k' is given twice"):
        parse_sources(["gsm8k=a.jsonl", "gsm8k=b.jsonl"], [])


def test_a_licence_goes_to_its_source() -> None:
    mine, other = parse_sources(["mine=x.jsonl", "gsm8k"], [], ["mine=CC BY-SA 4.0, a=b"])
    assert mine["licence"] == "CC BY-SA 4.0, a=b"
    assert "licence" not in other


@pytest.mark.parametrize("licence", ["", "mine", "mine=", "other=MIT"])
def test_licences_that_fit_nothing_are_refused(licence: str) -> None:
    with pytest.raises(ConfigError, match=r"--licence .*is not NAME=LICENCE"):
        parse_sources(["mine=x.jsonl"], [], [licence])


def test_options_go_over_the_file_and_the_file_over_the_profile(tmp_path: Path) -> None:
    file = written(tmp_path, "seed: 1\nlimit: 5\nchat: {model: small, timeout_s: 3}\n")
    config = build_config("gpu", file, {"seed": 2, "chat.model": "large", "limit": None})
    assert (config.seed, config.limit) == (2, 5)
    assert (config.chat.model, config.chat.timeout_s) == ("large", 3.0)
    assert config.chat.engine == "vllm"


def test_a_file_of_all_settings_gives_the_configuration_back(tmp_path: Path) -> None:
    config = build_config("gpu", None, {"out": "x", "oracle.version": "v2"})
    assert build_config("embedded", written(tmp_path, yaml.safe_dump(config.model_dump())), {}) == config


@pytest.mark.parametrize(
    ("text", "options", "why"),
    [
        ("seed: [", {}, "must be a YAML file"),
        ("just text", {}, "is not a mapping of settings"),
        ("", {}, "is not a mapping of settings"),
        ("sede: 1", {}, "sede: Extra inputs"),
        ("chat: {modle: x}", {}, "chat.modle: Extra inputs"),
        ("seed: one", {}, "seed: Input should be a valid integer"),
        ("1: 2", {}, "is invalid"),
        ("speech: kokoro", {}, "speech: Input should be"),
        ("chat: openai", {"chat.base_url": "http://x/v1"}, "chat"),
        ("oracle:", {"oracle.version": "v2"}, "oracle"),
    ],
)
def test_a_wrong_file_is_told_field_by_field(tmp_path: Path, text: str, options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        build_config("embedded", written(tmp_path, text), options)


def test_a_field_that_is_made_from_a_wrong_one_is_not_told_beside_it() -> None:
    with pytest.raises(ConfigError) as wrong:
        validate_settings(ServeConfig, {"checkpoint": "nano", "limits": {"max_sessions": "many"}})
    assert str(wrong.value).startswith(
        "The configuration is invalid: limits.max_sessions: Input should be a valid integer. "
    )


def test_a_fault_of_several_fields_is_told_in_its_own_words() -> None:
    with pytest.raises(ConfigError) as wrong:
        validate_settings(ServeConfig, {"checkpoint": "nano", "back_ends": [{"name": "a"}, {"name": "a"}]})
    assert "invalid: back_ends: two back-ends have the same name; names must be unique. " in str(wrong.value)


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere.yaml"):
        build_config("embedded", tmp_path / "nowhere.yaml", {})
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ConfigError, match="must be a YAML file"):
        build_config("embedded", tmp_path / "bytes.yaml", {})


def test_a_profile_nobody_knows_is_answered_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"no profile 'tpu'.*embedded, gpu"):
        build_config("tpu", None, {})


def test_differences_name_each_field_with_both_values() -> None:
    left = RefreshConfig()
    right = build_config("embedded", None, {"seed": 3, "chat.port": 8_000})
    assert list_differences(left, right) == [("chat.port", 0, 8_000), ("seed", 0, 3)]
    assert list_differences(left, left) == []


def test_our_sample_items_are_three_sources() -> None:
    found = list_sample_sources()
    assert [each.name for each in found] == ["gsm8k", "hssbench", "mmlu_pro"]
    assert all(each.path and Path(each.path).is_file() for each in found)


@pytest.mark.parametrize(
    ("typed", "value"), [("1e-5", 1e-5), ("3E+2", 300.0), ("-1.5e-3", -1.5e-3), ("1e", "1e"), ("e5", "e5")]
)
def test_powers_of_ten_are_numbers_typed_or_in_a_file(typed: str, value: object, tmp_path: Path) -> None:
    assert parse_settings([f"optim.learning_rate={typed}"]) == {"optim.learning_rate": value}
    (tmp_path / "own.yaml").write_text(f"learning_rate: {typed}\n")
    assert read_yaml(tmp_path / "own.yaml") == {"learning_rate": value}


def test_any_setting_is_typed_by_its_dotted_name() -> None:
    typed = parse_settings(["forms.tail_share=0.3", "speech.voices_b=[am_adam, bf_emma]", "gate.asr=none"])
    config = build_config("embedded", None, typed)
    assert (config.forms.tail_share, config.speech.voices_b, config.gate.asr) == (0.3, ["am_adam", "bf_emma"], "none")


@pytest.mark.parametrize("text", ["forms.tail_share", "=3", "a=[", "a="])
def test_a_setting_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="has no value that can be set"):
        parse_settings([text])


def test_a_section_that_is_off_is_set_and_one_nobody_knows_is_named() -> None:
    seeing = build_config("embedded", None, parse_settings(["pictures.engine=openai", "pictures.model=m"])).pictures
    assert seeing is not None
    assert (seeing.engine, seeing.model) == ("openai", "m")
    with pytest.raises(ConfigError, match="hssbench: Extra inputs"):
        build_config("embedded", None, parse_settings(["hssbench.x=1"]))


def test_pictures_and_licences_go_to_their_sources() -> None:
    (parsed,) = parse_sources(["hssbench=h.jsonl"], [], ["hssbench=own"], ["hssbench=shots"])
    assert (parsed["licence"], parsed["pictures"]) == ("own", "shots")
    with pytest.raises(ConfigError, match="--pictures gsm8k=shots is not NAME=FOLDER"):
        parse_sources(["hssbench=h.jsonl"], [], [], ["gsm8k=shots"])


def test_a_fault_says_where_all_fields_of_that_configuration_are() -> None:
    with pytest.raises(ConfigError, match="`kame config show` lists all fields"):
        validate_settings(RefreshConfig, {"nothing": 1})
    with pytest.raises(ConfigError, match=r"All fields: ServeConfig in data_schemas/config/serving\.py"):
        validate_settings(ServeConfig, {"checkpoint": "nano", "nothing": 1})
