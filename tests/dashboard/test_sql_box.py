"""The SQL box answers what is asked of the index, and nothing else: no file, no network, no end, no flood."""

from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dashboard.results import QueryError, Result, SqlBox, to_cells, to_file
from tests.support.dashboards import indexed, write_small

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sql")
    with closing(indexed(write_small(folder / "small"), folder / "index.duckdb")) as index:
        return index.file


def run(index: Path, query: str, n_rows: int = 100, seconds: int = 20) -> Result:
    return SqlBox(seconds).run(index, query, n_rows)


def test_a_query_gives_its_rows(index: Path) -> None:
    result = run(index, "select form, count(*) n, avg(wer) from dialogues group by form order by form")
    assert result.table.column_names[:2] == ["form", "n"]
    assert to_cells(result.table) == [["greeting", "2", "0"], ["plain", "3", "0.333333"]]
    assert not result.is_cut
    assert to_cells(run(index, "select 1 as a, 2 as a, 3 as b").table) == [["1", "2", "3"]]


def test_rows_beyond_the_bound_are_left_and_it_is_told(index: Path) -> None:
    result = run(index, "select * from range(10000)", n_rows=3)
    assert (result.table.num_rows, result.is_cut) == (3, True)
    assert not run(index, "select * from range(3)", n_rows=3).is_cut


@pytest.mark.parametrize(
    "query",
    [
        "copy dialogues to '{folder}/out.csv'",
        "export database '{folder}/out'",
        "attach '{folder}/out.duckdb' as other",
        "select * from read_text('{folder}/secret.txt')",
        "select * from read_csv('{folder}/secret.txt')",
        "select * from '{folder}/secret.txt'",
        "select * from glob('{folder}/*')",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "set memory_limit = '90GB'",
        "create table mine as select 1",
        "delete from dialogues",
        "drop table dialogues",
        "select 1; copy dialogues to '{folder}/out.csv'",
        "select nothing from dialogues",
        "not sql",
        "",
    ],
)
def test_what_is_not_a_query_of_the_index_is_refused(index: Path, tmp_path: Path, query: str) -> None:
    (tmp_path / "secret.txt").write_text("nobody should read this")
    before = index.read_bytes()
    with pytest.raises(QueryError) as refused:
        run(index, query.format(folder=tmp_path))
    assert "nobody should read this" not in str(refused.value)
    assert [each.name for each in tmp_path.iterdir()] == ["secret.txt"]
    assert index.read_bytes() == before


def test_a_query_without_an_end_is_ended(index: Path) -> None:
    endless = "with recursive r(n) as (select 1 union all select n + 1 from r) select max(n) from r"
    with pytest.raises(QueryError, match="stopped"):
        run(index, endless, seconds=2)


def test_a_query_that_takes_all_memory_is_ended(index: Path) -> None:
    with pytest.raises(QueryError, match=r"[Mm]emory|stopped"):
        run(index, "select list(repeat(a::varchar, 9999)) from range(10000000) t(a)")


def test_the_process_knows_nothing_of_ours(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/tell-nobody")  # DuckDB names the folder of its extensions when it may not read it
    with pytest.raises(QueryError) as refused:
        run(index, "install httpfs")
    assert "extensions" in str(refused.value)
    assert "tell-nobody" not in str(refused.value)


def test_results_are_files(index: Path, tmp_path: Path) -> None:
    table = run(index, "select dialogue_id, levels, answer from dialogues where answer like '50%'").table
    assert to_file(table, "csv").decode().splitlines() == [
        '"dialogue_id","levels","answer"',
        '"mine-4-v0","[0, 5]","50% of \'all\'"',
    ]
    (tmp_path / "it.parquet").write_bytes(to_file(table, "parquet"))
    assert pq.read_table(tmp_path / "it.parquet").to_pylist() == table.to_pylist()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("interval 3 month", "3 months"),
        ("[interval 3 month]", "[3 months]"),
        ("'101'::bit", "101"),
        ("'a\\xFF'::blob", "a\\xFF"),
        ("union_value(n := 2)", "2"),
        ("bignum '12345678901234567890123456789012345678901'", "12345678901234567890123456789012345678901"),
        ("{'a': 1}::variant", "{'a': 1}"),
    ],
)
def test_values_that_files_cannot_hold_are_text(index: Path, tmp_path: Path, value: str, told: str) -> None:
    table = run(index, f'select 1 as v, {value} as v, 2 as "the ""last"').table
    assert to_cells(table) == [["1", told, "2"]]
    assert to_file(table, "csv").decode().splitlines() == ['"v","v","the ""last"', f'1,"{told}",2']
    (tmp_path / "it.parquet").write_bytes(to_file(table, "parquet"))
    assert pq.read_metadata(tmp_path / "it.parquet").num_rows == 1
