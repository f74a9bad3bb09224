"""What is typed and what stands in YAML become one configuration, the later over the earlier."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboard.runs import KINDS
from data_schemas.config import RefreshConfig
from data_schemas.config.serving import ServeConfig
from data_schemas.errors import ConfigError
from flows.settings import build_config, parse_settings, parse_sources, read_yaml, validate_settings

ROOT = Path(__file__).resolve().parents[2]


def written(folder: Path, text: str) -> Path:
    (folder / "mine.yaml").write_text(text, encoding="utf-8")
    return folder / "mine.yaml"


def test_sources_with_and_without_files_and_maps() -> None:
    mine = {"name": "mine", "path": "a=b.jsonl", "columns": {"question": "q", "answer": "a"}}
    for name in ("mine:", ""):  # a map without a name is of the last source
        parsed = parse_sources(["gsm8k", "mine=a=b.jsonl"], [f"{name}question=q,answer=a"])
        assert parsed == [{"name": "gsm8k", "path": None, "columns": {}}, mine]


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
    with pytest.raises(ConfigError, match=r"--source-option languages=null has no value.*Write --source-option"):
        parse_sources(["gsm8k"], [], options=["gsm8k:languages=null"])


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


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"limits": {"max_sessions": "many"}}, "limits.max_sessions: Input should be a valid integer"),  # and no more
        (
            {"back_ends": [{"name": "a"}, {"name": "a"}]},
            "back_ends: two back-ends have the same name; names must be unique",
        ),
    ],
)
def test_a_fault_is_told_once_and_in_its_own_words(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        validate_settings(ServeConfig, {"checkpoint": "nano", **settings})
    assert str(wrong.value).startswith(f"The configuration is invalid: {told}. ")


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere.yaml"):
        build_config("embedded", tmp_path / "nowhere.yaml", {})
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ConfigError, match="must be a YAML file"):
        build_config("embedded", tmp_path / "bytes.yaml", {})


@pytest.mark.parametrize(
    ("typed", "value"), [("1e-5", 1e-5), ("3E+2", 300.0), ("-1.5e-3", -1.5e-3), ("1e", "1e"), ("e5", "e5")]
)
def test_powers_of_ten_are_numbers_typed_or_in_a_file(typed: str, value: object, tmp_path: Path) -> None:
    assert parse_settings([f"optim.learning_rate={typed}"]) == {"optim.learning_rate": value}
    (tmp_path / "own.yaml").write_text(f"learning_rate: {typed}\n")
    assert read_yaml(tmp_path / "own.yaml") == {"learning_rate": value}


def test_any_setting_is_typed_by_its_dotted_name() -> None:
    typed = ["forms.tail_share=0.3", "speech.voices_b=[am_adam, bf_emma]", "gate.asr=none"]
    config = build_config("embedded", None, parse_settings([*typed, "pictures.engine=openai", "pictures.model=m"]))
    assert (config.forms.tail_share, config.speech.voices_b, config.gate.asr) == (0.3, ["am_adam", "bf_emma"], "none")
    assert config.pictures is not None, "a section that was off"
    assert (config.pictures.engine, config.pictures.model) == ("openai", "m")
    with pytest.raises(ConfigError, match="hssbench: Extra inputs"):
        build_config("embedded", None, parse_settings(["hssbench.x=1"]))


@pytest.mark.parametrize("text", ["forms.tail_share", "=3", "a=[", "a="])
def test_a_setting_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="has no value that can be set"):
        parse_settings([text])


def test_pictures_and_licences_go_to_their_sources() -> None:
    parsed, other = parse_sources(["hssbench=h.jsonl", "gsm8k"], [], ["hssbench=CC BY, a=b"], ["hssbench=shots"])
    assert (parsed["licence"], parsed["pictures"]) == ("CC BY, a=b", "shots")
    assert not {"licence", "pictures"} & other.keys()
    with pytest.raises(ConfigError, match="--pictures gsm8k=shots is not NAME=FOLDER"):
        parse_sources(["hssbench=h.jsonl"], [], [], ["gsm8k=shots"])


def test_a_fault_says_where_all_fields_of_that_configuration_are() -> None:
    with pytest.raises(ConfigError, match="`kame config show` lists all fields"):
        validate_settings(RefreshConfig, {"nothing": 1})
    with pytest.raises(ConfigError, match=r"All fields: ServeConfig in data_schemas/config/serving\.py"):
        validate_settings(ServeConfig, {"checkpoint": "nano", "nothing": 1})


def test_deployments_are_sound_configurations_that_belong_together() -> None:
    written = yaml.safe_load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))["deployments"]
    by_name = {each["name"]: each for each in written}
    configs: dict[str, Any] = {
        name: validate_settings(KINDS[name].config, by_name[name]["parameters"]["config"])
        for name in ("refresh", "speech", "evaluate", "serve")
    }
    assert [each.name for each in configs["refresh"].sources] == ["gsm8k", "mmlu_pro", "hssbench"]
    sources = [*configs["refresh"].sources, *configs["speech"].sources]
    assert all((ROOT / str(each.path)).is_file() for each in sources)
    assert not any(Path(str(path)).is_absolute() for path in (configs["refresh"].out, *(each.path for each in sources)))
    assert configs["evaluate"].path == configs["refresh"].out
    assert configs["evaluate"].checkpoint == configs["serve"].checkpoint == "demo-checkpoints/nano-demo-front-end-40"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "--max-steps 40 " in makefile
    assert "--out $(DEMO)-front-end --checkpoints $(DEMO)-checkpoints" in makefile
    assert {by_name[each]["work_pool"]["name"] for each in ("evaluate", "serve")} == {"gpu"}
