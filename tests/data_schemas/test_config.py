"""What a configuration takes and refuses, and that it survives YAML."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from data_schemas.config import ChatConfig, Config, MixingConfig, OracleConfig, RefreshConfig, SpeechConfig
from data_schemas.profiles import PROFILES


def classes(config: type[BaseModel]) -> list[type[BaseModel]]:
    """A configuration class and those of its fields."""
    inner = [field.annotation for field in config.model_fields.values()]
    nested = [each for each in inner if isinstance(each, type) and issubclass(each, Config)]
    return [config, *(found for each in nested for found in classes(each))]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_survives_yaml(profile: str) -> None:
    config = PROFILES[profile]()
    text = yaml.safe_dump(config.model_dump(mode="json"))
    assert RefreshConfig.model_validate(yaml.safe_load(text)) == config


def test_profiles_differ_and_the_gpu_one_starts_a_vllm() -> None:
    assert PROFILES["embedded"]() == RefreshConfig()
    chat = PROFILES["gpu"]().chat
    assert (chat.engine, chat.base_url) == ("vllm", None)


@pytest.mark.parametrize("config", classes(RefreshConfig))
def test_every_field_says_what_it_means(config: type[BaseModel]) -> None:
    assert [name for name, field in config.model_fields.items() if not field.description] == []


@pytest.mark.parametrize("config", classes(RefreshConfig))
def test_unknown_fields_are_refused(config: type[BaseModel]) -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        config.model_validate({"no_such_field": 1})


@pytest.mark.parametrize(
    "settings",
    [
        {"seed": "1"}, {"seed": 1.0}, {"sources": [{"name": "GSM8K"}]}, {"sources": [{"name": "../x"}]},
        {"speech": {"speed_min": 1.2, "speed_max": 1.0}}, {"mixing": {"gap_min_s": 1.0, "gap_max_s": 0.5}},
        {"mixing": {"before_min_s": 1.0, "before_max_s": 0.5}}, {"oracle": {"version": "../x"}},
        {"oracle": {"level_bounds": [0.5, 0.65, 0.8]}}, {"oracle": {"level_bounds": [0.5, 0.65, 0.8, 1.0]}},
        {"oracle": {"level_bounds": [0.65, 0.5, 0.8, 0.95]}}, {"oracle": {"level_bounds": [0.5, 0.5, 0.8, 0.95]}},
        {"oracle": {"level_bounds": [0.0, 0.5, 0.8, 0.95]}}, {"chat": {"timeout_s": "120"}},
    ],
    ids=str,
)  # fmt: skip
def test_values_out_of_bounds_or_of_another_type_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RefreshConfig.model_validate(settings)


@given(bounds=st.lists(st.floats(0.01, 0.99), min_size=4, max_size=4, unique=True).map(sorted))
def test_any_rising_bounds_between_0_and_1_and_equal_ends_of_a_range_will_do(bounds: list[float]) -> None:
    OracleConfig(level_bounds=bounds)
    SpeechConfig(speed_min=1.0, speed_max=1.0)
    MixingConfig(gap_min_s=0.5, gap_max_s=0.5, before_min_s=0.5, before_max_s=0.5)


def test_requests_in_flight_go_by_the_engine_unless_they_are_set() -> None:
    assert ChatConfig().n_in_flight == 1
    assert ChatConfig(n_slots=4).n_in_flight == 4
    assert ChatConfig(engine="openai").n_in_flight == 64
    assert ChatConfig(engine="openai", max_in_flight=3).n_in_flight == 3
