"""A newcomer's way through all of it in Chromium, on what `kame up` started, from questions to trainings compared.

The voice is eSpeak's and the chat model a double, for the way is about pages; runs, workers, training and what they
write are real. Every step waits for what the page says, as a person would.
"""

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from data_schemas.reader import DatasetReader
from tests.support.pages import CHROMIUM, browsing, opened, play_until_a_word
from tests.support.runs import ITEMS
from tests.support.whole_machine import kame_up

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason="chromium is not there: make system"), pytest.mark.slow]
NANO = ITEMS.parent / "checkpoints" / "nano"
PATIENCE_MS = 900_000
"""For each step: a run takes a minute on two quiet cores, and many on busy ones."""
SOURCES = ("gsm8k", "mmlu_pro", "hssbench")
CLOCK_S = 0.01
"""How exactly the page writes the moment."""


def test_from_questions_to_a_training_that_is_compared(tmp_path: Path) -> None:
    shutil.copytree(ITEMS, tmp_path / "items")
    with kame_up(tmp_path) as parts, browsing() as browser, opened(browser, parts["dashboard"]) as page:
        page.set_default_timeout(PATIENCE_MS)
        page.on("dialog", lambda asked: asked.accept())
        start_refresh(page)
        open_dataset(page, tmp_path / "data")
        flag_dialogue(page)
        (flag,) = (tmp_path / "data" / "flags.jsonl").read_text().splitlines()
        assert json.loads(flag)["reason"] == "wrong answer"
        start_training(page, "first", steps=20)
        watch_losses(page, "20 of 20")
        page.go_back()
        wait_for_end(page, "completed")
        assert (tmp_path / "checkpoints" / "index.json").is_file()
        talk_to_it(page)
        start_training(page, "second", steps=5000, learning_rate=2e-5)
        watch_losses(page, "of 5", at_least=2)
        page.go_back()
        page.get_by_role("button", name="Cancel").click()
        wait_for_end(page, "cancelled")
        (metrics,) = (tmp_path / "second").rglob("metrics.jsonl")
        os.utime(metrics, (0, 0))  # a minute goes by, in which it might be at work on another machine
        compare_trainings(page)
        stop_server(page)
        compare_with_shipped(page)


def start_refresh(page: "Page") -> None:
    """From the empty list of datasets to a run at work: twelve dialogues of three files."""
    page.get_by_role("link", name="Start a refresh").click()
    for number, name in enumerate(SOURCES):
        if number:
            page.get_by_role("button", name="Add one: sources").click()
        page.locator(f'[data-path="sources.{number}.name"]').fill(name)
        page.locator(f'[data-path="sources.{number}.path"]').fill(f"items/{name}.jsonl")
    page.get_by_label("Folder of the dataset").fill("data")
    page.get_by_label("Text-to-speech").first.fill("espeak")
    page.get_by_label("Chat engine").first.fill("double")
    page.get_by_text("All other settings").click()
    page.locator("summary", has_text="Quality checks that speech must pass").click()
    page.locator('[data-path="gate.asr"]').fill("none")
    press_start(page)


def press_start(page: "Page") -> None:
    """Starts what the form holds; its page is that of a run then."""
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url("**/runs/*-*")


def wait_for_end(page: "Page", state: str) -> None:
    """On a run's page, until it is over, which must be in this state."""
    chip = page.locator("#now[data-alive=no] .chip").first
    chip.wait_for()
    assert f"state-{state}" in (chip.get_attribute("class") or ""), page.locator("main").inner_text()


def open_dataset(page: "Page", folder: Path) -> None:
    """From the run to what it made, and to the sound of a dialogue, whose words come when the dataset says."""
    wait_for_end(page, "completed")
    page.get_by_role("link", name="Open the dataset data").click()
    page.get_by_role("link", name="Rows", exact=True).click()
    page.locator("strong", has_text="12").wait_for()
    page.locator("tbody th a").first.click()
    page.locator("#wave-A canvas").first.wait_for()
    at_s, shown = play_until_a_word(page)
    row, _ = DatasetReader(str(folder)).read_dialogue(page.locator("h1").inner_text())
    words = [word for turn in row.turns for utterance in turn.utterances for word in utterance.words]
    said = {each.word for each in words if each.start_s + CLOCK_S < at_s < each.end_s - CLOCK_S}
    about = {each.word for each in words if each.start_s - CLOCK_S < at_s < each.end_s + CLOCK_S}
    assert said <= set(shown) <= about


def flag_dialogue(page: "Page") -> None:
    """By the keyboard; the token came with the address."""
    page.keyboard.press("f")
    page.keyboard.type("wrong answer")
    page.keyboard.press("Enter")
    page.locator("#flag-text", has_text="Flagged: wrong answer").wait_for()


def start_training(page: "Page", name: str, steps: int, learning_rate: float = 1e-5) -> None:
    """On the dataset, from the front-end that ships."""
    page.get_by_role("link", name="Runs", exact=True).click()
    page.get_by_role("link", name="Start a run").first.click()
    page.locator("main").get_by_role("link", name="Training").click()
    page.locator('[data-path="datasets.0"]').fill("data")
    page.get_by_label("Folder of the run").fill(name)
    page.get_by_label("Training steps").fill(str(steps))
    page.get_by_text("All other settings").click()
    page.get_by_label("Weights to start from").fill(str(NANO))
    page.get_by_label("Evaluation, dialogues").fill("0")
    page.locator("#settings").fill(
        f"keep.log_every: 1\noptim.warmup_steps: 4\noptim.learning_rate: {learning_rate}\nkeep.evaluate_every: 20"
    )
    press_start(page)


def watch_losses(page: "Page", steps: str, at_least: int = 0) -> None:
    """From the run to its curves, which grow while somebody looks, up to some steps."""
    page.locator("#now[data-alive=no], a:text('Watch its losses')").first.wait_for()
    assert page.get_by_role("link", name="Watch its losses").count(), page.locator("main").inner_text()
    page.get_by_role("link", name="Watch its losses").click()
    page.locator(".of-step", has_text=steps).wait_for()
    page.locator("#curve-loss canvas").wait_for()
    page.locator("#curve-memory_gb canvas").wait_for()
    page.wait_for_function("least => parseInt(document.querySelector('.of-step').textContent) >= least", arg=at_least)


def compare_trainings(page: "Page") -> None:
    """Both on each other, with what they were told differently."""
    page.get_by_role("link", name="Training", exact=True).click()
    for name in ("first", "second"):
        page.get_by_role("row", name=name).get_by_role("checkbox").check()
    page.get_by_role("button", name="Overlay").click()
    page.locator("#curve-loss .u-series").nth(2).wait_for()
    assert {"optim.learning_rate", "max_steps"} <= set(page.locator(".settings tbody th").all_inner_texts())
    assert page.locator(".state.finished").count() == 1
    assert page.locator(".state.stopped").count() == 1


def talk_to_it(page: "Page") -> None:
    """From the checkpoint that a training registered to the page to talk with it by; the server stays at work."""
    page.get_by_role("link", name="Checkpoints", exact=True).click()
    page.get_by_role("link", name="nano-first-20").click()
    page.get_by_role("button", name="Talk to it").click()
    page.get_by_text("is loading the checkpoint").wait_for()
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Open the talk page").click()
    talk = opened.value
    talk.set_default_timeout(PATIENCE_MS)
    talk.locator("#mode option", has_text="tandem").wait_for(state="attached")
    talk.locator("#start:not([disabled])").wait_for()
    talk.close()


def stop_server(page: "Page") -> None:
    """The one of the first training's checkpoint, which has run beside a training; it may be started again then."""
    page.get_by_role("link", name="Checkpoints", exact=True).click()
    page.get_by_role("link", name="nano-first-20").click()
    page.get_by_role("link", name="Open the talk page").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Talk to it").wait_for()


def compare_with_shipped(page: "Page") -> None:
    """The checkpoint that was trained beside the one from which it began."""
    page.get_by_role("link", name="Checkpoints", exact=True).click()
    for name in ("nano", "checkpoints / nano-first-20"):
        page.get_by_label(f"Choose {name}", exact=True).check()
    with page.expect_navigation():
        page.get_by_role("button", name="Compare the chosen").click()
    page.get_by_role("heading", name="Facts that differ").wait_for()
    assert {"training.run", "training.step"} <= set(page.locator(".settings tbody th").all_inner_texts())
