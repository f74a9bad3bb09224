"""What the registry promises of each back-end, and how options reach one."""

import re
from pathlib import Path

import pytest

from backends import registry
from backends.aligner.synthesiser import SynthesiserOptions
from backends.aligner.whisperx import WhisperXOptions
from backends.options import split_list, split_paths
from backends.registry import ENTRIES, BackendEntry
from backends.workers.environments import ENVIRONMENTS, REQUIREMENTS, get_environment
from data_schemas.errors import ConfigError

SPEAKING: dict[str, str | int | float | bool] = {"base_url": "http://127.0.0.1:1/v1", "model": "m", "voices": "a, b"}


def test_kind_and_name_are_unique_and_everything_has_a_licence() -> None:
    assert len({(each.kind, each.name) for each in ENTRIES}) == len(ENTRIES)
    assert [each.name for each in ENTRIES if not each.licence] == []


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.kind}-{entry.name}")
def test_a_missing_back_end_says_what_to_type(entry: BackendEntry) -> None:
    assert entry.install or not (entry.needs or entry.worker)
    if entry.worker:
        assert entry.install == f"kame backends install {entry.worker}"
        made = get_environment(entry.worker)
        assert made.find_engine_file() or made.server


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.kind}-{entry.name}")
def test_options_are_plain_strict_and_explained(entry: BackendEntry) -> None:
    model = entry.get_options_class()
    if model is None:
        return
    handed_on = model is SynthesiserOptions  # to an aligner that refuses them itself (test_worker_backends)
    assert model.model_config["extra"] == ("allow" if handed_on else "forbid")
    assert model.model_config["strict"] is True
    assert [name for name, field in model.model_fields.items() if not field.description] == []
    kinds = {kind["type"] for kind in model.model_json_schema()["properties"].values()}
    assert kinds <= {"string", "integer", "number", "boolean"}
    assert [name for name in model.model_fields if "key" in name and not name.endswith("_env")] == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "base_url: Field required; model: Field required"),
        (SPEAKING | {"speed": 1}, r"speed: Extra inputs.*It takes: base_url, model"),
        (SPEAKING | {"max_attempts": "5"}, "max_attempts: Input should be a valid integer"),
        (SPEAKING | {"base_url": "127.0.0.1:1"}, "base_url: a base URL must begin with http"),
    ],
)
def test_wrong_options_are_told_by_name(options: dict[str, str | int | float | bool], told: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s)tts back-end 'openai' does not take these options: .*{told}"):
        registry.build("tts", "openai", options)


def test_a_value_is_never_quoted_for_it_may_be_a_key() -> None:
    with pytest.raises(ConfigError) as caught:
        registry.build("tts", "openai", SPEAKING | {"api_key": "sk-very-secret"})
    assert "sk-very-secret" not in str(caught.value)


def test_paths_and_lists_of_options_are_read_as_people_write_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert WhisperXOptions(model_path="~/model").model_path == "/home/ada/model"
    assert WhisperXOptions().model_path == ""
    assert split_list(" p1,p2 , ,p3") == ["p1", "p2", "p3"]
    assert split_paths("~/a.wav, /b.wav") == ["/home/ada/a.wav", "/b.wav"]


def test_options_for_a_back_end_that_has_none_are_refused() -> None:
    with pytest.raises(ConfigError, match="tts back-end 'double' takes no options; rate given"):
        registry.build("tts", "double", {"rate": 2})
    assert registry.build("tts", "double", {}).name == "double"


@pytest.mark.parametrize(
    "options",
    [{}, {"model": "a", "model_path": "b", "config_path": "c"}, {"model_path": "b"}, {"config_path": "c"}],
    ids=str,
)
def test_coqui_wants_one_model(options: dict[str, str]) -> None:
    from backends.tts.coqui import CoquiOptions

    with pytest.raises(ValueError, match="set either model, or model_path with config_path"):
        CoquiOptions.model_validate(options)


def test_unknown_and_missing_back_ends_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no tts back-end 'espresso'.*kokoro, coqui"):
        registry.build("tts", "espresso", {})
    monkeypatch.setenv("KAME_CACHE", str(tmp_path))
    with pytest.raises(ConfigError, match=r"'coqui' is not installed\. Type: kame backends install coqui"):
        registry.build("tts", "coqui", {})


PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[\w+\])?==([^\s;\\]+)", re.MULTILINE)


def pins(name: str) -> set[tuple[str, str]]:
    found = PIN.findall((REQUIREMENTS / name).read_text(encoding="utf-8"))
    return {(package.lower().replace("_", "-"), version) for package, version in found}


LOCKED = [name for each in ENVIRONMENTS for name in each.lists if name != "torch.txt"]


@pytest.mark.parametrize("name", LOCKED)
def test_lists_of_workers_are_whole_hashed_and_without_addresses(name: str) -> None:
    text = (REQUIREMENTS / name).read_text(encoding="utf-8")
    assert pins(name.replace(".txt", ".in")) <= pins(name)
    assert [entry for entry in PIN.split(text)[3::3] if "--hash=sha256:" not in entry] == []
    assert re.findall(r"https?://\S+|--(?:extra-)?index-url|--find-links|file:", text) == []


def test_engines_import_only_what_their_environments_hold() -> None:
    """Nothing of ours but the frames and each other: the rest of ours is not there."""
    for file in (Path(registry.__file__).parent / "workers" / "engines").glob("*.py"):
        ours = re.findall(
            r"^\s*(?:from|import) ((?:backends|data_schemas|pipelines|flows)[\w.]*)", file.read_text(), re.M
        )
        allowed = re.compile(r"backends\.workers\.(frames|engines(\.\w+)?)$")
        assert [name for name in ours if not allowed.match(name)] == [], file.name
