"""The token row in headless Chromium: under the cursor stands the frame of that time, by press and by keyboard."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dashboard.app import create_app
from data_schemas.records import Dialogue, DialogueClips
from flows.token_rows import EncodedRows
from kame_model.encode.token_dataset import TokenDataset
from tests.support.dashboards import encode_small, write_small
from tests.support.pages import CHROMIUM, grave_faults, opened, play_slowly, served
from tests.support.work_folders import make_clips, make_written, put_members, put_output

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason="chromium is not there: make system"), pytest.mark.slow]
DIALOGUE = "datasets/small/dialogues/mine-2-v0"  # of 3 s
N_FRAMES = 38


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> TokenDataset:
    small = write_small(tmp_path_factory.mktemp("tokens") / "small")
    put_members(small, (9,))
    put_output(small, "wording", [make_written(9)], Dialogue)
    put_output(small, "speech", [make_clips(9)], DialogueClips)
    return encode_small(small)


@pytest.fixture(scope="module")
def url(tokens: TokenDataset, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = Path(tokens.folder).parent
    with served(create_app([root], tmp_path_factory.mktemp("cache"), token_rows=EncodedRows())) as url:
        yield url


def laid_out(page: "Page") -> None:
    page.locator("#wave-A canvas").first.wait_for()
    page.locator("#token-tracks canvas").first.wait_for()


def shown_frame(page: "Page") -> dict[str, Any]:
    """What the page tells of the frame under the cursor, all read at once."""
    found: dict[str, Any] = page.evaluate(
        """() => ({
            clock: Number(document.querySelector("#clock").textContent),
            cursor: Number(document.querySelector("#cursor").style.getPropertyValue("--s")),
            band: Number(document.querySelector("#frame-band").style.getPropertyValue("--s")),
            number: Number(document.querySelector("#frame-number").textContent.split(" ")[1]),
            words: [...document.querySelectorAll(".word.now")].map((word) => [word.dataset.start, word.dataset.end]),
            values: [...document.querySelectorAll("#frame-values tbody tr")].map((row) =>
                [...row.cells].map((cell) => cell.textContent)),
        })"""
    )
    return found


def codes_at(tokens: TokenDataset, frame: int, delays: tuple[int, ...] = (0,) * 8) -> list[list[str]]:
    row = tokens[tokens.dialogue_ids.index("mine-2-v0")]
    return [
        [str(codes[q, frame - delay]) if frame >= delay else "–" for q, delay in enumerate(delays)]
        for codes in (row.b.codes, row.a.codes)
    ]


def test_a_word_that_is_clicked_moves_the_cursor_to_its_frames(
    browser: "Browser", url: str, tokens: TokenDataset
) -> None:
    with opened(browser, url + DIALOGUE) as page:
        laid_out(page)
        page.locator("#audio").evaluate("audio => { audio.onplay = () => { audio.dataset.was = 'played'; }; }")
        page.locator(".word", has_text="many").click()  # from 0.34 to 0.44 s
        page.locator("#audio[data-was=played]").wait_for(state="attached")
        page.locator("#play[aria-label=Play]").wait_for()
        page.locator("#clock", has_text="0.46").wait_for()
        ended = shown_frame(page)
        assert (ended["number"], ended["words"]) == (5, [])
        page.keyboard.press("Shift+ArrowLeft")
        page.locator("#clock", has_text="0.34").wait_for()
        found = shown_frame(page)
        assert found["cursor"] == pytest.approx(0.34, abs=1e-3)
        assert found["words"] == [["0.34", "0.44"]]
        assert (found["number"], found["band"]) == (4, pytest.approx(0.32))
        assert [row[2:10] for row in found["values"]] == codes_at(tokens, 4)
        assert [row[1] for row in found["values"]] == ["▁many", "·"]


def test_while_it_plays_the_frame_is_always_that_of_the_cursor(browser: "Browser", url: str) -> None:
    with opened(browser, url + DIALOGUE) as page:
        laid_out(page)
        play_slowly(page)
        page.keyboard.press("Space")
        seen = set[int]()
        while len(seen) < 3:
            found = shown_frame(page)
            assert found["number"] == min(int((found["cursor"] + 1e-3) / 0.08), N_FRAMES - 1)
            seen.add(found["number"])


def test_frames_are_stepped_through_and_delayed_by_keyboard(browser: "Browser", url: str, tokens: TokenDataset) -> None:
    with opened(browser, url + DIALOGUE) as page:
        laid_out(page)
        for _ in range(6):
            page.keyboard.press(".")
        page.locator("#frame-number", has_text="frame 6").wait_for()
        page.keyboard.press(",")
        page.locator("#frame-number", has_text="frame 5").wait_for()
        found = shown_frame(page)
        assert found["clock"] == 0.4
        assert [row[-1] for row in found["values"]] == ["", "start"]
        page.keyboard.press("d")
        assert [row[2:10] for row in shown_frame(page)["values"]] == codes_at(tokens, 5, (0, 1, 1, 1, 1, 1, 1, 1))
        page.locator("#token-table summary").click()
        page.locator("#token-table tbody tr").nth(N_FRAMES - 1).wait_for()
        assert page.locator("#token-table tbody tr").count() == N_FRAMES
        page.locator("#token-table tbody tr").nth(5).get_by_text("start", exact=True).wait_for()
        page.keyboard.press("t")
        page.locator("#token-tracks").wait_for(state="hidden")
        page.reload()
        page.locator("#wave-A canvas").first.wait_for()
        assert page.locator("#token-tracks").is_hidden()


def test_a_frame_that_is_pointed_at_is_told_and_pressed_it_is_heard(browser: "Browser", url: str) -> None:
    with opened(browser, url + DIALOGUE) as page:
        laid_out(page)
        box = page.locator("#token-tracks .codes canvas").first.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] * 3.5 / N_FRAMES, box["y"] + 4)
        page.locator("#frame-times", has_text="0.24 to 0.32 s, under the pointer").wait_for()
        assert shown_frame(page)["cursor"] == 0
        page.mouse.down()
        page.mouse.up()
        page.locator("#clock", has_text="0.24").wait_for()
        page.mouse.move(5, 5)
        page.locator("#frame-number", has_text="frame 3").wait_for()


def test_the_page_with_its_token_row_is_open_to_all_and_fits(
    browser: "Browser", url: str, look: tuple[str, int]
) -> None:
    def prepare(page: "Page") -> None:
        if "refused" in page.url:
            page.locator("audio").nth(1).wait_for()
            return
        laid_out(page)
        page.locator("#token-table summary").click()
        page.locator("#token-table tbody tr").first.wait_for()

    addresses = [url + DIALOGUE, f"{url}datasets/small/refused?item=mine-9"]
    assert grave_faults(browser, addresses, look, prepare) == []
