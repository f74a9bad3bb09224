"""Forms of configuration classes: defaults stay out of settings, faults are told by field, hostile text is refused."""

import json
from typing import Any

import pytest

from dashboard.forms import ROW, USUAL, Control, Node, Rows, Section, build_form, read_form, split_usual
from dashboard.runs import KINDS
from data_schemas.config import RefreshConfig
from data_schemas.config.front_end import FrontEndConfig
from data_schemas.config.speech_rows import SpeechRowsConfig


def shown(nodes: list[Node]) -> dict[str, Any]:
    """What a page would send of a form that nobody touched."""
    told: dict[str, Any] = {}
    for node in nodes:
        if isinstance(node, Control):
            told[node.path] = node.value
        elif isinstance(node, Section):
            told |= shown(node.nodes) | ({} if node.is_on is None else {node.path: node.is_on})
        else:
            told |= (
                {node.path: ""}
                | shown([each for each in node.rows if not isinstance(each, Control)])
                | {each.path: each.value for each in node.rows if isinstance(each, Control)}
            )
    return told


SETTINGS: dict[str, dict[str, Any]] = {
    "refresh": {
        "out": "data",
        "sources": [{"name": "mine", "columns": {"question": "q"}, "languages": ["en", "de"]}],
        "pictures": {"engine": "openai", "base_url": "http://127.0.0.1:1/v1"},
        "oracle": {"level_bounds": [0.4, 0.6, 0.7, 0.9]},
        "speech": {"voices_b": ["am_adam"]},
    },
    "speech": {"out": "rows", "sources": [{"name": "gsm8k"}], "hours": 2, "gate": {}},
    "train": {"datasets": ["a=2", "b"], "preset": "small", "settings": {"optim.warmup_steps": 5}},
    "evaluate": {"checkpoint": "c", "path": "d", "modes": ["direct"], "delays_s": [0.1, 2]},
    "serve": {"checkpoint": "c", "back_ends": [{"name": "one", "chat": {"price": {"in_usd_per_mtok": 1}}}]},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_form_gives_back_the_settings_that_it_shows(kind: str) -> None:
    config = KINDS[kind].config
    settings, faults = read_form(config, shown(build_form(config, SETTINGS[kind])))
    if kind == "serve":
        assert faults == {"back_ends.0.chat.price.out_usd_per_mtok": "A value is needed here."}
    else:
        assert (settings, faults) == (SETTINGS[kind], {})
        config.model_validate_json(json.dumps(settings))


@pytest.mark.parametrize("kind", KINDS)
def test_what_one_usually_sets_is_there_once(kind: str) -> None:
    nodes = build_form(KINDS[kind].config, {})
    usual, rest = split_usual(nodes, USUAL[kind])
    assert [each.path for each in usual] == list(USUAL[kind])
    assert not set(shown(usual)) & set(shown(rest))
    assert set(shown(usual)) | set(shown(rest)) >= set(shown(nodes))


@pytest.mark.parametrize(
    ("told", "path", "text"),
    [
        ({"limit": "0"}, "limit", "greater than or equal to 1"),
        ({"limit": "many"}, "limit", "A whole number"),
        ({"limit": "9" * 5000}, "limit", "A whole number"),
        ({"variants": "nan"}, "variants", "finite"),
        ({"variants": True}, "variants", "A text"),
        ({"nothing.of.this": "1"}, "nothing.of.this", "no such field"),
        ({"__class__": "1"}, "__class__", "no such field"),
        ({"sources.0.name": "../x"}, "sources.0.name", "pattern"),
        ({"sources.0.name": "a", "sources.0.columns": "a: &a [1]\nb: *a"}, "sources.0.columns", "anchors"),
        ({"sources.0.name": "a", "sources.0.columns": "!!python/object/apply:os.system [ls]"}, "sources.0.columns", ""),
        ({"sources.0.name": "a", "sources.0.columns": "[" * 20_000}, "sources.0.columns", "nested"),
        ({"speech.speed_min": "2", "speech.speed_max": "1"}, "speech", "Speed_min is above"),
        ({f"evaluation_sets.{n}": "x" for n in range(51)}, "evaluation_sets", "50 rows"),
    ],
)
def test_faults_are_told_by_field(told: dict[str, Any], path: str, text: str) -> None:
    _, faults = read_form(RefreshConfig, told)
    assert path in faults
    assert text in faults[path]


def test_a_fault_of_the_whole_goes_to_the_field_that_it_names() -> None:
    assert read_form(FrontEndConfig, {"datasets": ""})[1] == {"datasets": "Name at least one folder"}


def test_a_section_that_is_off_is_left_out_with_its_faults() -> None:
    told: dict[str, Any] = {"pictures": False, "pictures.n_slots": "many"}
    assert read_form(RefreshConfig, told) == ({}, {})


def test_a_section_with_defaults_of_its_own_keeps_them() -> None:
    told: dict[str, Any] = {"out": "x", "hours": "1", "sources.0.name": "a", "gate.asr": "none"}
    settings, faults = read_form(SpeechRowsConfig, told)
    assert not faults
    assert "gate" not in settings
    assert read_form(SpeechRowsConfig, told | {"gate.asr": "moonshine"})[0]["gate"] == {}


@pytest.mark.parametrize("text", ["1e-5", "1E-5", "1.e-5", "0.00001"])
def test_a_number_with_an_exponent_is_a_number(text: str) -> None:
    told = {"datasets.0": "a", "settings": f"optim.learning_rate: {text}\nmodel.name: 1e-5x"}
    settings, faults = read_form(FrontEndConfig, told)
    assert faults == {}
    assert settings["settings"] == {"optim.learning_rate": 1e-5, "model.name": "1e-5x"}


def test_a_row_shows_what_one_usually_sets_and_folds_the_rest() -> None:
    (rows,) = [each for each in build_form(RefreshConfig, {}) if each.path == "sources"]
    assert isinstance(rows, Rows)
    assert isinstance(rows.blank, Section)
    *shown, folded = rows.blank.nodes
    assert [each.path for each in shown] == [f"sources.{ROW}.name", f"sources.{ROW}.path"]
    assert isinstance(folded, Section)
    assert len(folded.nodes) == 6
