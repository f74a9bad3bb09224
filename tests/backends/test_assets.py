import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends import assets
from data_schemas.errors import BackendError

CONTENT = b"a model of two blocks"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def two_blocks() -> Iterator[bytes]:
    yield CONTENT[:7]
    yield CONTENT[7:]


def never() -> Iterator[bytes]:
    raise AssertionError("the file was made again")


def test_a_missing_file_is_written_and_then_left_alone(tmp_path: Path) -> None:
    path = assets.ensure_file(tmp_path / "models" / "m.bin", SHA256, two_blocks, "")
    assert path.read_bytes() == CONTENT
    assert assets.ensure_file(path, SHA256, never, "") == path


def test_a_damaged_file_is_made_anew_and_the_log_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "m.bin"
    path.write_bytes(CONTENT[:-1])
    assets.ensure_file(path, SHA256, two_blocks, "")
    assert path.read_bytes() == CONTENT
    assert "m.bin is damaged" in caplog.text


def test_wrong_content_is_refused_and_not_kept(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=r"wrong SHA-256.*Install it again\."):
        assets.ensure_file(tmp_path / "m.bin", SHA256, lambda: [b"something else"], "Install it again.")
    assert list(tmp_path.iterdir()) == []


def test_content_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    def breaks_off() -> Iterator[bytes]:
        yield CONTENT[:7]
        raise OSError("the medium is gone")

    with pytest.raises(BackendError, match="the medium is gone"):
        assets.ensure_file(tmp_path / "m.bin", SHA256, breaks_off, "")
    assert list(tmp_path.iterdir()) == []


def test_two_that_write_at_once_both_end_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.bin"

    def while_another_writes() -> Iterator[bytes]:
        yield CONTENT[:7]
        assets.ensure_file(path, SHA256, two_blocks, "")  # the other one starts and ends here
        yield CONTENT[7:]

    assets.ensure_file(path, SHA256, while_another_writes, "")
    assert path.read_bytes() == CONTENT
    assert list(tmp_path.iterdir()) == [path]


def test_a_cache_that_cannot_be_written_is_reported_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file where the folder should be")
    with pytest.raises(BackendError, match=r"Cannot write the model file .*m\.bin.*KAME_CACHE"):
        assets.ensure_file(tmp_path / "models" / "m.bin", SHA256, two_blocks, "")


def test_a_folder_in_the_place_of_the_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "m.bin").mkdir()
    with pytest.raises(BackendError, match="Cannot read the model file"):
        assets.ensure_file(tmp_path / "m.bin", SHA256, two_blocks, "")


@given(blocks=st.lists(st.binary(max_size=50), max_size=5))
def test_any_content_arrives_whole_however_it_is_cut(
    blocks: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = b"".join(blocks)
    path = tmp_path_factory.mktemp("assets") / "m.bin"
    assets.ensure_file(path, hashlib.sha256(whole).hexdigest(), lambda: blocks, "")
    assert path.read_bytes() == whole


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KAME_CACHE", str(tmp_path))
    assert assets.get_cache_dir() == tmp_path
    monkeypatch.delenv("KAME_CACHE")
    assert assets.get_cache_dir().name == "kame"
    assert assets.get_cache_dir().is_relative_to(Path.home())
