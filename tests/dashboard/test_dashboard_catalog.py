"""Which folders are datasets, and that nothing outside of the roots is."""

import shutil
from pathlib import Path

import pytest

from dashboard.catalog import Catalog, MissingError
from data_schemas.errors import DatasetError
from data_schemas.manifest import MANIFEST
from data_schemas.reader import read_manifest
from data_schemas.store import Store
from tests.support.dashboards import opened, write_manifest, write_small


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small(tmp_path_factory.mktemp("catalog") / "small")


def put(small: Path, *places: Path) -> None:
    for place in places:
        place.mkdir(parents=True)
        shutil.copy(small / MANIFEST, place / MANIFEST)


def keys(*roots: Path) -> list[str]:
    return [each.key for each in Catalog(roots).list_datasets()]


def test_a_root_is_a_dataset_or_holds_them_two_levels_deep(small: Path, tmp_path: Path) -> None:
    put(
        small,
        tmp_path / "one",
        tmp_path / "team" / "two",
        tmp_path / "a" / "b" / "too-deep",
        tmp_path / ".store" / "no",
    )
    assert keys(tmp_path) == ["one", "team~two"]
    assert keys(tmp_path / "one") == ["one"]


def test_equal_names_of_two_roots_are_told_apart(small: Path, tmp_path: Path) -> None:
    put(small, tmp_path / "x" / "data", tmp_path / "y" / "data")
    catalog = Catalog([tmp_path / "x", tmp_path / "y", tmp_path / "x" / "data"])
    first, second = catalog.list_datasets()
    assert first.key == "data"
    assert second.key.startswith("data~")
    assert catalog.get_dataset(second.key).folder == tmp_path / "y" / "data"


def test_a_link_out_of_the_root_is_not_followed(small: Path, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(small)
    assert keys(tmp_path / "root") == []


@pytest.mark.parametrize("key", ["..", "~", "small~..", "/etc", "../small", "nothing", ""])
def test_a_key_is_never_a_path(small: Path, key: str) -> None:
    with pytest.raises(MissingError):
        Catalog([small.parent]).get_dataset(key)


def test_datasets_come_change_and_go_while_it_runs(small: Path, tmp_path: Path) -> None:
    catalog = Catalog([tmp_path])
    assert catalog.list_datasets() == []
    put(small, tmp_path / "new")
    before = catalog.get_dataset("new").manifest
    assert before == read_manifest(Store(str(small)))
    write_manifest(tmp_path / "new", before.model_copy(update={"oracle_version": "another"}))
    assert catalog.get_dataset("new").manifest.oracle_version == "another"
    (tmp_path / "new" / MANIFEST).unlink()
    with pytest.raises(MissingError):
        catalog.get_dataset("new")


def test_a_file_outside_of_the_dataset_is_refused(small: Path) -> None:
    with pytest.raises(DatasetError, match="outside"):
        opened(small).get_file("../../etc/passwd")
    assert opened(small).get_file("data/x.parquet") == small / "data" / "x.parquet"
