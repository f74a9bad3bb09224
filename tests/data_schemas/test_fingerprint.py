"""A fingerprint changes with all that decides the content, and with nothing else."""

from typing import Any

import pytest

from data_schemas import config as configs
from data_schemas.config import Config
from data_schemas.config.training import DataConfig
from data_schemas.fingerprint import DOES_NOT_MATTER, compute_fingerprint, dump_relevant_fields

STAGE_CONFIGS: dict[str, Config] = {
    each.__name__: each()
    for each in (
        configs.ScriptConfig, configs.SpeechConfig, configs.GateConfig, configs.AlignmentConfig, configs.MixingConfig,
        configs.OracleConfig, configs.ChatConfig,
    )
}  # fmt: skip
TRAINING_CONFIGS: dict[str, type[Config]] = {"DataConfig": DataConfig}
FIELDS = [(name, field) for name, config in STAGE_CONFIGS.items() for field in type(config).model_fields]


def print_of(config: Config) -> str:
    return compute_fingerprint("stage", 1, dump_relevant_fields(config), ["0" * 16])


OF_NONE: dict[str, Any] = {"voices_b": ["other"], "max_in_flight": 2}


def another(field: str, value: Any) -> Any:
    """A value that differs from the one given, of a like type."""
    if isinstance(value, dict):
        return {**value, "other": 1.0}
    if isinstance(value, list):
        return [*value[:-1], value[-1] / 2] if value else ["other"]
    if isinstance(value, str):
        return f"{value}-other"
    return OF_NONE.get(field, "other") if value is None else value + 1


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_each_field_changes_the_fingerprint_unless_it_is_listed_as_not_mattering(name: str, field: str) -> None:
    config = STAGE_CONFIGS[name]
    changed = config.model_copy(update={field: another(field, getattr(config, field))})
    assert changed != config
    assert (print_of(changed) == print_of(config)) == (field in DOES_NOT_MATTER.get(name, {}))


def test_what_is_listed_as_not_mattering_exists_and_has_its_reason() -> None:
    for name, fields in DOES_NOT_MATTER.items():
        config = TRAINING_CONFIGS.get(name) or type(STAGE_CONFIGS[name])
        assert set(fields) <= set(config.model_fields), name
        assert all(len(reason.split()) >= 4 for reason in fields.values()), name


def test_name_version_settings_and_inputs_all_count_and_day_and_machine_do_not() -> None:
    inputs = (["x", "y"], ["y", "x"], ["x"])
    made = [compute_fingerprint("stage", 1, {"a": 1}, each) for each in inputs]
    made += [compute_fingerprint("stage", 1, settings, inputs[0]) for settings in ({"a": 2}, {"b": 1})]
    made += [compute_fingerprint(name, version, {"a": 1}, inputs[0]) for name, version in (("other", 1), ("stage", 2))]
    assert len(set(made)) == len(made)
    assert compute_fingerprint("stage", 1, {"b": 1, "a": [0.5, None]}, ["x"]) == "46e87b33e99cbe22"
    assert compute_fingerprint("stage", 1, {"a": [0.5, None], "b": 1}, ["x"]) == "46e87b33e99cbe22"
