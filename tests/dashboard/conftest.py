"""A small dataset and its client, where a file has none of its own, and a browser for what only a browser can tell."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fastapi.testclient import TestClient

from dashboard.index import Index
from tests.support.dashboards import indexed, indexed_client, write_small
from tests.support.pages import LOOKS, browsing

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the dataset `small`."""
    return write_small(tmp_path_factory.mktemp("dashboard") / "small").parent


@pytest.fixture(scope="module")
def client(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with indexed_client(root, tmp_path_factory.mktemp("cache")) as client:
        yield client


@pytest.fixture(scope="module")
def index(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with closing(indexed(root / "small", tmp_path_factory.mktemp("made") / "index.duckdb")) as index:
        yield index


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with browsing() as browser:
        yield browser


@pytest.fixture(params=LOOKS, ids=lambda look: f"{look[0]}-{look[1]}")
def look(request: pytest.FixtureRequest) -> tuple[str, int]:
    """A colour scheme and a width of the window."""
    found: tuple[str, int] = request.param
    return found
