"""Worker environments are made whole or not at all. Empty lists stand for what pip fetches: no network here."""

from pathlib import Path

import pytest

from backends.workers import environments, install
from backends.workers.environments import STAMP, WorkerEnvironment
from data_schemas.errors import BackendError, ConfigError

pytestmark = pytest.mark.full


@pytest.fixture(autouse=True)
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of lists and an empty cache of this test's own."""
    folder = tmp_path / "requirements"
    folder.mkdir()
    (folder / "nothing.txt").write_text("# no package\n")
    (folder / "absent.txt").write_text("--no-index\nno-such-package==1.0\n")
    monkeypatch.setattr(environments, "REQUIREMENTS", folder)
    monkeypatch.setattr(install, "REQUIREMENTS", folder)
    monkeypatch.setenv("KAME_CACHE", str(tmp_path / "cache"))
    return folder


def place(name: str = "json", list_file: str = "nothing.txt", n_mib: int = 1) -> WorkerEnvironment:
    """An environment for a `server` that is the module of its name, which it can import or not."""
    return WorkerEnvironment(name, (list_file,), n_mib, server=name)


def test_it_is_made_once_and_made_anew_when_asked_or_left_half_way() -> None:
    steps: list[str] = []
    folder = install.install(place(), steps.append)
    assert place().is_installed()
    assert place().get_python().exists()
    assert steps[0].startswith("Making ")
    mark = folder / "mark"
    mark.touch()
    assert install.install(place(), steps.append) == folder
    assert mark.exists()
    (folder / STAMP).unlink()  # as after a kill
    assert not place().is_installed()
    install.install(place(), steps.append)
    assert place().is_installed()
    assert not mark.exists()


@pytest.mark.parametrize(
    "wanted",
    [place(n_mib=1 << 40), WorkerEnvironment("json", ("nothing.txt",), 1, server="no_such_module")],
    ids=["no space", "does not work"],
)
def test_a_complete_one_is_kept_if_it_cannot_be_made_anew(wanted: WorkerEnvironment) -> None:
    folder = install.install(place(), lambda step: None)
    mark = folder / "mark"
    mark.touch()
    with pytest.raises(BackendError):
        install.install(wanted, lambda step: None, again=True)
    assert place().is_installed()
    assert mark.exists()
    install.install(place(), lambda step: None, again=True)
    assert place().is_installed()
    assert not mark.exists()
    assert [each for each in folder.parent.iterdir() if each.is_dir()] == [folder]


def test_a_complete_one_is_found_after_its_reinstallation_was_killed() -> None:
    folder = install.install(place(), lambda step: None)
    (folder / "mark").touch()
    folder.rename(folder.with_name(f"{folder.name}.old"))
    folder.mkdir()
    install.install(place(), lambda step: None)
    assert (folder / "mark").exists()


def test_another_list_is_another_environment(lists: Path) -> None:
    before = place().get_folder()
    (lists / "nothing.txt").write_text("# still no package\n")
    assert place().get_folder() != before


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (place("no_such_module"), "No module named 'no_such_module'"),
        (place(list_file="absent.txt"), r"no-such-package==1\.0.*index cannot be reached"),
    ],
    ids=["does not work", "cannot be had"],
)
def test_what_does_not_work_or_cannot_be_had_is_told_and_not_kept(wanted: WorkerEnvironment, told: str) -> None:
    with pytest.raises(BackendError, match=told):
        install.install(wanted, lambda step: None)
    assert not wanted.get_folder().exists()


def test_an_interrupted_installation_leaves_nothing() -> None:
    def interrupt(step: str) -> None:
        if step.startswith("Checking"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        install.install(place(), interrupt)
    assert not place().get_folder().exists()


def test_a_full_disk_is_told_before_anything_is_fetched() -> None:
    with pytest.raises(BackendError, match=r"json takes \d+ MiB; .* free\. Free some space, or set KAME_CACHE"):
        install.install(place(n_mib=1 << 40), lambda step: None)


def test_a_disk_that_fills_up_is_told(tiny_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAME_CACHE", str(tiny_disk))
    (tiny_disk / "others").write_bytes(bytes(230 << 10))
    with pytest.raises(BackendError, match="Free some space"):
        install.install(place(n_mib=0), lambda step: None)
    assert not place().get_folder().exists()


def test_lists_that_are_missing_are_told_and_count_as_not_installed() -> None:
    assert not place(list_file="missing.txt").is_installed()
    with pytest.raises(BackendError, match="installed from a checkout"):
        install.install(place(list_file="missing.txt"), lambda step: None)


def test_an_unknown_environment_is_told() -> None:
    with pytest.raises(ConfigError, match=r"no worker environment 'kokoro'.*coqui, whisperx"):
        environments.get_environment("kokoro")
