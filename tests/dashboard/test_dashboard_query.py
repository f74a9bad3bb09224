"""A view in an address: what it filters, how it sorts, and that it can be sent."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.index import Index
from dashboard.query import DIALOGUES, REJECTS, TableKind, TableReader, View, format_range
from data_schemas.errors import ConfigError
from data_schemas.records import AudioDialogue
from tests.support.dashboards import dialogues, indexed, write_small

ROWS = [row for shard in dialogues() for row in shard]
READERS = ExitStack()
FLAGS = {ROWS[1].dialogue_id: "hiss", "gone-v0": "not there"}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    folder = tmp_path_factory.mktemp("query")
    with closing(indexed(write_small(folder / "small"), folder / "index.duckdb")) as index, READERS:
        yield index


def read(index: Index, address: str, kind: TableKind = DIALOGUES) -> TableReader:
    view = View.parse(kind, parse_qsl(address, keep_blank_values=True))
    return READERS.enter_context(closing(TableReader(index, view, FLAGS)))


def ids(reader: TableReader) -> list[str]:
    return [each["dialogue_id"] for each in reader.read_page()]


FILTERS: list[tuple[str, Callable[[AudioDialogue], bool]]] = [
    ("", lambda row: True),
    ("form=greeting", lambda row: row.form == "greeting"),
    ("form=greeting&split=test", lambda row: row.form == "greeting" and row.split == "test"),
    ("form=greeting&form=plain", lambda row: True),
    ("split=nowhere", lambda row: False),
    ("duration_s=1.5..2.5", lambda row: 1.5 <= row.duration_s <= 2.5),
    ("duration_s=..2", lambda row: row.duration_s <= 2),
    ("wer=0.1..", lambda row: (row.quality.wer or 0) >= 0.1),
    ("voice=amy", lambda row: row.provenance.voice_b == "amy"),
    ("level=5", lambda row: True),
    ("level=3", lambda row: False),
    ("flag=hiss", lambda row: row.dialogue_id in FLAGS),
    ("q=WHAT+this", lambda row: row.question.startswith("What of this")),
    ("q=50%25", lambda row: "50%" in row.answer),
    ("q='all'", lambda row: "'all'" in row.answer),
    ("q=%27+or+1=1+--", lambda row: False),
    ("form=greeting'+or+'1'='1", lambda row: False),
]


@pytest.mark.parametrize(("address", "is_wanted"), FILTERS, ids=[address for address, _ in FILTERS])
def test_filters_let_through_what_they_say(
    index: Index, address: str, is_wanted: Callable[[AudioDialogue], bool]
) -> None:
    reader = read(index, address)
    assert set(ids(reader)) == {row.dialogue_id for row in ROWS if is_wanted(row)}
    assert reader.count() == len(ids(reader))


def test_sorting_puts_rows_without_a_value_last(index: Index) -> None:
    up, down = ids(read(index, "sort=wer")), ids(read(index, "sort=-wer"))
    assert up[:2] == [ROWS[1].dialogue_id, ROWS[0].dialogue_id]
    assert down[:2] == up[1::-1]
    assert set(up[2:]) == set(down[2:])


def test_a_seed_draws_an_order_that_can_be_sent(index: Index) -> None:
    orders = [tuple(ids(read(index, f"sort=shuffle-{seed}"))) for seed in (1, 1, 2, 3)]
    assert orders[0] == orders[1]
    assert len(set(orders)) > 1
    assert {frozenset(order) for order in orders} == {frozenset(row.dialogue_id for row in ROWS)}


def test_pages_follow_each_other(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboard.query.PAGE_ROWS", 2)
    pages = [ids(read(index, f"sort=dialogue_id&page={page}")) for page in (1, 2, 3, 4)]
    assert [each for page in pages for each in page] == sorted(row.dialogue_id for row in ROWS)
    assert pages[3] == []


def test_neighbours_are_those_of_the_view(index: Index) -> None:
    reader = read(index, "form=greeting&sort=-duration_s")
    first, second = ids(reader)
    assert reader.find_neighbours(first) == (None, second, 1, 2)
    assert reader.find_neighbours(second) == (first, None, 2, 2)
    assert reader.find_neighbours(ROWS[0].dialogue_id) == (None, None, 0, 2)


def test_a_range_stays_the_same_from_page_to_page() -> None:
    assert [format_range(each) for each in ((3.1234567, None), (1234567.0, 7654321.0), (None, 0.1))] == [
        "3.1234567..",
        "1234567..7654321",
        "..0.1",
    ]


def test_choices_are_counted_under_the_other_filters(index: Index) -> None:
    reader = read(index, "form=greeting&split=test")
    assert dict(reader.count_choices(DIALOGUES.get_column("split"))) == {"test": 1, "train": 1}
    assert dict(reader.count_choices(DIALOGUES.get_column("level"))) == {"0": 1, "5": 1}
    assert dict(read(index, "").count_choices(DIALOGUES.get_column("flag"))) == {"hiss": 1}


def test_a_histogram_counts_every_row_once_under_the_other_filters(index: Index) -> None:
    bars = read(index, "duration_s=2..").compute_histogram(DIALOGUES.get_column("duration_s"))
    assert sum(each.n for each in bars) == len(ROWS)
    assert bars[0].start == pytest.approx(min(row.duration_s for row in ROWS))
    assert bars[-1].end == pytest.approx(max(row.duration_s for row in ROWS))
    greetings = read(index, "form=greeting").compute_histogram(DIALOGUES.get_column("duration_s"))
    assert sum(each.n for each in greetings) == 2
    assert read(index, "").compute_histogram(DIALOGUES.get_column("noise_dbfs")) == []


def test_rejects_are_a_table_too(index: Index) -> None:
    (found,) = read(index, "reason=misheard", REJECTS).read_page()
    assert (found["item_id"], found["stage"]) == ("mine-9", "speech")


@pytest.mark.parametrize(
    "address",
    ["nothing=1", "sort=nothing", "sort=-file", "sort=shuffle-x", "columns=form,nothing", "page=0", "page=x", "page=٣",
     "page=1000000000", "page=-1", "wer=5", "wer=a..b", "question=x", "item_id=x"],
)  # fmt: skip
def test_what_the_table_has_not_is_refused(address: str) -> None:
    with pytest.raises(ConfigError):
        View.parse(DIALOGUES, parse_qsl(address))


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=8)
BOUND = st.none() | st.integers(-99, 99).map(lambda n: n / 4)


@given(
    text=st.just("") | TEXT,
    forms=st.lists(TEXT, max_size=3, unique=True),
    bounds=st.tuples(BOUND, BOUND),
    sort=st.sampled_from(["", "wer", "-form", "shuffle-7"]),
    page=st.integers(1, 99),
    columns=st.lists(st.sampled_from(["form", "wer", "tts"]), unique=True),
)
def test_an_address_holds_the_whole_view(
    text: str, forms: list[str], bounds: tuple[float | None, float | None], sort: str, page: int, columns: list[str]
) -> None:
    choices = {"form": tuple(forms)} if forms else {}
    view = View(DIALOGUES, text, choices, {"wer": bounds}, sort, page, tuple(columns))
    assert View.parse(DIALOGUES, parse_qsl(view.format_query(), keep_blank_values=True)) == view
