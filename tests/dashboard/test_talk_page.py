"""The page in headless Chromium: somebody speaks into a microphone that is a file, and a conversation happens."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest
import soundfile
from PIL import Image

from backends.tts.espeak import Espeak
from data_schemas.units import SAMPLE_RATE_HZ
from tests.support.http_servers import QuietHandler, http_server
from tests.support.serving import tiny_checkpoint

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = shutil.which("chromium")
pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason="chromium is not there: make system"), pytest.mark.slow]
KAME = Path(sys.executable).with_name("kame")
TALK = Path(__file__).parents[2] / "dashboard" / "talk"
PATIENCE_MS = 90_000
ORACLE = "It is the city of Paris, I think."


class Chat(QuietHandler):
    """An OpenAI-compatible server that streams one answer to everything."""

    def got(self) -> None:
        self.answer(200, json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}).encode())

    def posted(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for word in [*ORACLE.split(), None]:
            delta = {} if word is None else {"content": f"{word} "}
            choice = {"index": 0, "delta": delta, "finish_reason": "stop" if word is None else None}
            self.wfile.write(f"data: {json.dumps({**self.named, 'choices': [choice]})}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    named: ClassVar[dict[str, Any]] = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}


@pytest.fixture(scope="module")
def chat_url() -> Iterator[str]:
    with http_server(Chat) as url:
        yield f"{url}/v1"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tiny")
    tiny_checkpoint(folder)
    return str(folder / "export")


@pytest.fixture(scope="module")
def microphone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A question, and a pause that is longer than the end of a turn; Chromium plays it again and again."""
    tts = Espeak()
    question = tts.synthesise(
        "What is the capital of France? Please tell me all of it.", tts.list_voices()[0].name, 1.0
    )
    path = tmp_path_factory.mktemp("microphone") / "question.wav"
    silence = np.zeros(2 * SAMPLE_RATE_HZ, np.float32)
    soundfile.write(path, np.concatenate([question.samples, silence]), SAMPLE_RATE_HZ, subtype="PCM_16")
    return path


@contextmanager
def served(checkpoint: str, chat_url: str, *options: str, **environment: str) -> Iterator[str]:
    """A server of its own process; its URL."""
    chat = {"engine": "openai", "base_url": chat_url, "model": "m"}
    back_ends = [{"name": "a", "chat": chat}, {"name": "b", "chat": chat, "models": ["big"]}]
    settings = {
        "back_ends": json.dumps(back_ends),
        "listener.engine": "double",
        "listener.options": json.dumps({"script": "what is the capital of france"}),
        "limits.max_sessions": 1,
        "limits.max_backlog_s": 10,
    }
    typed = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    command = [str(KAME), "serve", checkpoint, "--port", "0", "--json", *typed, *options]
    environ = {**os.environ, **environment}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()
            process.wait(timeout=60)


@contextmanager
def opened(url: str, microphone: Path) -> Iterator["Page"]:
    """The page in a browser whose microphone hears a file."""
    from playwright.sync_api import sync_playwright

    quiet = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
    fake = ("--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream")
    sound = (f"--use-file-for-fake-audio-capture={microphone}", "--autoplay-policy=no-user-gesture-required")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*quiet, *fake, *sound])
        page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
        page.set_default_timeout(PATIENCE_MS)
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(url)
        yield page
        browser.close()
        assert faults == []


def shows(page: "Page", name: str, told: str) -> None:
    """Waits until an element's text fits a pattern."""
    from playwright.sync_api import expect

    expect(page.locator(f"#{name}")).to_have_text(re.compile(told), timeout=PATIENCE_MS)


def test_a_conversation_happens(checkpoint: str, chat_url: str, microphone: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with served(checkpoint, chat_url, "--record", str(kept)) as url, opened(url, microphone) as page:
        shows(page, "notice", "^You are talking to a machine; its voice is synthetic.$")
        assert page.locator("#mode option").all_inner_texts() == ["tandem", "direct", "cascade"]
        assert page.locator("#back_end option").all_inner_texts() == ["a", "b"]
        page.click("#start")
        shows(page, "you", "what is the capital of france")
        shows(page, "oracle", "It is the city of Paris, I think.")
        shows(page, "it", ".{20}")
        page.locator("#you p:not(.unfinished)").first.wait_for()  # a turn has ended
        for figure in ("whisper_after", "behind", "answer_after"):
            shows(page, figure, r"^\d+\.\d\d s$")
        shows(page, "age", r"^\d+\.\d\d s old$")
        shows(page, "status", r"^Connected\. Speak\.$")
        page.screenshot(path=tmp_path / "page.png")
        page.select_option("#back_end", "b")
        shows(page, "status", "^Now tandem, with b.$")
        shows(page, "oracle", "^b, after")
        page.select_option("#model", "big")
        shows(page, "status", "^Now tandem, with b, big.$")
        page.select_option("#mode", "direct")
        shows(page, "status", "^Now direct, with b, big.$")
        page.click("#reset")
        shows(page, "oracle", "^$")
        shows(page, "you", "capital")
        page.click("#start")
        shows(page, "status", "^Ended.$")
        assert page.locator("#delete").is_hidden()
    assert list(kept.rglob("*.parquet")) == [], "nobody agreed"
    _looks_like_a_page(tmp_path / "page.png")


def test_who_agrees_is_recorded_and_can_delete_it(
    checkpoint: str, chat_url: str, microphone: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    with served(checkpoint, chat_url, "--record", str(kept)) as url, opened(url, microphone) as page:
        shows(page, "record_notice", "what is said is kept, sound and words")
        page.check("#consent")
        page.click("#start")
        shows(page, "you", "capital of france")
        page.click("#start")
        page.locator("#delete").wait_for()
        page.click("#delete")
        shows(page, "status", "^Deleted.$")
        assert list(kept.rglob("*.parquet")) == []


def test_who_is_not_let_in_is_told_why(checkpoint: str, chat_url: str, microphone: Path) -> None:
    secret = {"KAME_SERVE_TOKEN": "open-sesame"}
    with served(checkpoint, chat_url, **secret) as url, opened(url, microphone) as page:
        page.fill("#token", "wrong")
        page.click("#start")
        shows(page, "status", r"Is the token right\?$")
        page.fill("#token", "open-sesame")
        page.click("#start")
        shows(page, "status", "^Connected. Speak.$")
        other = page.context.new_page()
        other.goto(url)
        other.fill("#token", "open-sesame")
        other.click("#start", timeout=PATIENCE_MS)
        shows(other, "status", "All slots are taken")


class Modules(QuietHandler):
    """The page's modules, and an empty page to load them into."""

    def got(self) -> None:
        if self.path == "/":
            self.answer(200, b"<!doctype html>", "text/html")
        else:
            self.answer(200, (TALK / self.path.lstrip("/")).read_bytes(), "text/javascript")


ASKED_A_THOUSAND_TIMES = """async () => {
  const { Oracles } = await import("/shown.js");
  const oracles = new Oracles(document.createElement("ol"), document.createElement("p"));
  for (let oracle = 0; oracle < 1000; oracle++) oracles.asked({ oracle, back_end: "a" });
  oracles.received({ oracle: 999, text: "Paris", age_s: 0.5 });
  return [oracles.found.size, oracles.list.textContent];
}"""


def test_a_long_conversation_costs_the_browser_no_memory(microphone: Path) -> None:
    with http_server(Modules) as url, opened(f"{url}/", microphone) as page:
        n_kept, shown = page.evaluate(ASKED_A_THOUSAND_TIMES)
    assert n_kept <= 50
    assert shown == "a, after 0.50 sParis"


def _looks_like_a_page(picture: Path) -> None:
    colours = Image.open(picture).convert("RGB").getcolors(maxcolors=1280 * 800)
    assert colours is not None
    assert len(colours) > 50, "text in several colours"
    assert max(n for n, _ in colours) < 0.97 * 1280 * 800
