"""Pages of the dashboard in headless Chromium, and the server that they come from."""

import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium")
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
PATIENCE_MS = 90_000
LOOKS = [*((scheme, width) for scheme in ("light", "dark") for width in (1280, 390)), ("dark", 1920)]


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Serves an app on a free port during a `with` block, and yields its URL."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    app.state.end_streams()
    server.should_exit = True
    thread.join()


@contextmanager
def browsing() -> Iterator["Browser"]:
    """A browser in which sound may play."""
    from playwright.sync_api import sync_playwright

    quiet = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
    with sync_playwright() as playwright:
        sound = "--autoplay-policy=no-user-gesture-required"
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*quiet, sound])
        yield browser
        browser.close()


@contextmanager
def opened(browser: "Browser", address: str, **options: Any) -> Iterator["Page"]:
    """Opens a page during a `with` block, after which it asserts that nothing went wrong on the page.

    Errors, messages of errors on the console (as for what the page's policy forbids), and scripts of the data that were
    run are faults.
    """
    page = browser.new_context(**{"viewport": {"width": 1280, "height": 800}} | options).new_page()
    page.set_default_timeout(PATIENCE_MS)
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    page.goto(address)
    yield page
    assert page.evaluate("window.was_run") is None, "a script of the data was run"
    page.context.close()
    assert faults == []


def play_slowly(page: "Page") -> None:
    """Plays at a quarter of the speed from now on, so that a busy machine sees as much of it as a quiet one."""
    page.evaluate("document.getElementById('audio').playbackRate = 0.25")


_PAUSE_AT_A_WORD = """() => new Promise((done) => {
  const look = () => {
    if (document.querySelector('.word.now')) { document.getElementById('audio').pause(); done(); }
    else { requestAnimationFrame(look); }
  };
  look();
})"""


def play_until_a_word(page: "Page") -> tuple[float, list[str]]:
    """Plays a dialogue until a word is under the cursor.

    Asserts that the cursor has moved, and is where its ruler has the time that the page shows.

    Returns:
        The time in seconds, and the words that are marked at it.
    """
    play_slowly(page)
    before_s = _read_cursor_s(page)
    page.keyboard.press("Space")
    page.evaluate(_PAUSE_AT_A_WORD)  # by the page itself: a press from here may come when the word is over
    page.locator("#play[aria-label=Play]").wait_for()
    at_s = float(page.locator("#clock").inner_text())
    assert before_s < _read_cursor_s(page)
    assert abs(_read_cursor_s(page) - at_s) < 0.03
    now = page.locator(".word.now")
    for index in range(now.count()):
        start_s, end_s = (float(now.nth(index).get_attribute(f"data-{name}") or "nan") for name in ("start", "end"))
        assert start_s - 0.01 <= at_s <= end_s + 0.01
    return at_s, now.all_inner_texts()


def _read_cursor_s(page: "Page") -> float:
    """Returns where the cursor is drawn, by the ruler above it, in seconds."""
    drawn = """() => {
      const left = (id) => document.getElementById(id).getBoundingClientRect().left;
      const px = getComputedStyle(document.getElementById('timeline')).getPropertyValue('--px');
      return (left('cursor') - left('ruler')) / Number(px);
    }"""
    return float(page.evaluate(drawn))


def grave_faults(
    browser: "Browser",
    addresses: Iterable[str],
    look: tuple[str, int],
    prepare: Callable[["Page"], None] = lambda page: None,
) -> list[str]:
    """Returns serious and critical findings of axe-core on pages, and a fault for each page wider than its window.

    Args:
        look: colour scheme, and width of the window in pixels.
        prepare: waits for what is drawn on a page, or opens what is folded.
    """
    scheme, width = look
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}, "bypass_csp": True}
    found: list[str] = []
    for address in addresses:
        with opened(browser, address, **options) as page:
            prepare(page)
            found += _find_grave_faults(page, width)
    return found


def _find_grave_faults(page: "Page", width: int) -> list[str]:
    found = [
        f"{each['id']} at {node['target']}"
        for each in (page.add_script_tag(path=AXE), page.evaluate("axe.run()"))[1]["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]
    is_too_wide = page.evaluate("document.documentElement.scrollWidth") > width
    return [f"{page.url}: {each}" for each in (*found, *(["wider than the window"] if is_too_wide else []))]
