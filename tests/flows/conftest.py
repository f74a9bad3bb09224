"""What tests of several flows share."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def server() -> Iterator[None]:
    """A Prefect server for one file's tests alone, on a database that goes with it."""
    from prefect.testing.utilities import prefect_test_harness  # heavy: 3 s

    with prefect_test_harness(server_startup_timeout=120):
        yield
