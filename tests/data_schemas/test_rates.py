"""Rates files: read, written, looked through in their order, and refused with a message."""

from pathlib import Path

import pytest

from data_schemas.errors import ConfigError
from data_schemas.rates import (
    RateBook,
    Rates,
    RatesOrigin,
    StepCost,
    estimate_step_time,
    format_rates,
    is_device,
    make_unknown,
    read_rates,
    sum_figures,
)


def rates_of(seconds: float, *, is_reference: bool = False, device: str = "cpu") -> Rates:
    origin = RatesOrigin(day="2026-11-23", machine="a machine", is_reference=is_reference)
    cost = StepCost(step="tts", engine="piper", device=device, per="speech_s", seconds=seconds)
    return Rates(origin=origin, costs=[cost])


def test_what_is_written_is_read_again_and_a_field_that_does_not_hold_is_told_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "rates.yaml"
    file.write_text(format_rates(rates_of(0.25)), encoding="utf-8")
    assert read_rates(file) == rates_of(0.25)
    file = tmp_path / "mine.yaml"
    file.write_text("origin: {day: x, machine: y}\ncosts: [{step: tts, per: speech_s, seconds: -1}]", encoding="utf-8")
    with pytest.raises(ConfigError) as told:
        read_rates(file)
    assert told.value.what == (
        f"{file} is not a valid rates file: costs.0.seconds: Input should be greater than or equal to 0."
    )


def test_own_rates_come_before_the_reference_machines() -> None:
    book = RateBook([rates_of(0.5), rates_of(2.0, is_reference=True)])
    figure = estimate_step_time(book, "machine", "text-to-speech", "tts", "piper", "cpu", 100)
    assert figure.value == 50
    assert "100" in figure.formula
    assert figure.basis.startswith("measured, 2026-11-23")
    marked = estimate_step_time(RateBook([rates_of(2.0, is_reference=True)]), "machine", "", "tts", "piper", "cpu", 100)
    assert marked.basis.startswith("reference machine")


def test_a_gpu_is_found_by_whole_words_of_its_name_and_another_is_unknown() -> None:
    assert is_device("a100", "NVIDIA A100-SXM4-80GB")
    assert not is_device("cpu", "cpus")
    book = RateBook([rates_of(0.5, device="H200")])
    assert estimate_step_time(book, "", "", "tts", "piper", "NVIDIA H200", 10).value == 5
    others = ("tts", "piper", "GH200 480GB"), ("tts", "kokoro", "H200"), ("script", "piper", "H200")
    for step, engine, device in others:
        figure = estimate_step_time(book, "", "", step, engine, device, 10)
        assert figure.value is None
        assert "was not measured" in figure.basis


def test_a_sum_with_something_unknown_is_unknown_and_says_what() -> None:
    known = estimate_step_time(RateBook([rates_of(1.0)]), "", "speech", "tts", "piper", "cpu", 3)
    assert sum_figures("all", "", "all", [known, known]).value == 6
    missing = sum_figures("all", "", "all", [known, make_unknown("x", "", "alignment", "s", "never measured")])
    assert missing.value is None
    assert "alignment" in missing.basis


@pytest.mark.parametrize("text", ["origin: {day: x}", "[", "origin: {on: x, machine: y}\ncosts: [{step: 3}]"])
def test_what_holds_no_rates_is_refused_by_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="mine"):
        RateBook.open(file)
    with pytest.raises(ConfigError, match="gone"):
        RateBook.open(tmp_path / "gone.yaml")
