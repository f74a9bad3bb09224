"""What holds for every test: no network but this machine, no telemetry, no state left over; and which skips may be.

`KAME_FORBID_SKIPS=1` (set by `.ci/run`) turns a skipped test into a failed one, so that a check cannot stop running
unseen. Two kinds of tests may still be skipped: those on the real items beside the project, whose reason names
`shared/data`, and those of worker environments that are not installed.

A test belongs to one of three tiers, by its marker: `quick`, `full` or `slow` (pyproject.toml says what each holds). A
test without any of them is quick, or full where it reads the dataset that is made once for all.
"""

import ipaddress
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import hypothesis
import pytest

if TYPE_CHECKING:
    from data_schemas.config import RefreshConfig

ROOT = Path(__file__).resolve().parents[1]
SHARED_DATA = ROOT.parent / "shared" / "data"
ALLOWED_SKIPS = ("shared/data", "the worker environment", "no GPU")
TIERS = ("quick", "full", "slow")

# Libraries read these when they are imported, so they are set before any test module is. The model cache
# (KAME_CACHE) stays as it is: what was downloaded once serves all runs.
_SCRATCH = tempfile.mkdtemp(prefix="kame-tests-")
os.environ |= {
    "DO_NOT_TRACK": "1",
    "HF_HOME": f"{_SCRATCH}/huggingface",
    "HF_HUB_OFFLINE": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "PREFECT_HOME": f"{_SCRATCH}/prefect",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
}
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a process a core, so a thread each
for _name in ("KAME_LLM_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "PREFECT_API_URL"):
    os.environ.pop(_name, None)

# A shell that starts this suite in the background has it, and all commands that tests interrupt, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes is the machine's affair, and a failure must come again when the test is run again.
hypothesis.settings.register_profile("kame", deadline=None, derandomize=True)
hypothesis.settings.load_profile("kame")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """For the quick tier, leaves out files that are full or slow as a whole: importing them takes half of its time."""
    if config.option.markexpr == "quick" and collection_path.suffix == ".py":
        marks = re.search(
            r"^pytestmark = .*mark\.(full|slow)\b", collection_path.read_text(encoding="utf-8"), re.MULTILINE
        )
        return True if marks else None
    return None


@pytest.hookimpl(tryfirst=True)  # before -m selects by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        tiers = [mark.name for mark in item.iter_markers() if mark.name in TIERS]  # the test's own first
        if not tiers:
            needs_run = "made_config" in getattr(item, "fixturenames", ())
            item.add_marker("full" if needs_run else "quick")
        elif tiers[0] != max(tiers, key=TIERS.index):
            raise pytest.UsageError(f"{item.nodeid} is marked {tiers[0]}, its file {tiers[-1]}, which outweighs it.")


class NetworkForbiddenError(RuntimeError):
    """A test reached for the network. No OSError: retries and fallbacks must not swallow it."""


def pytest_unconfigure() -> None:
    shutil.rmtree(_SCRATCH, ignore_errors=True)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real items beside the project; skips where there is none."""
    if not SHARED_DATA.is_dir():
        pytest.skip("../shared/data is not there")
    return SHARED_DATA


@pytest.fixture(scope="session")
def made_config(tmp_path_factory: pytest.TempPathFactory) -> "RefreshConfig":
    """The configuration of a dataset that is made once, on doubles, of our sample items; nobody may write to it."""
    from data_schemas.config import OracleConfig
    from flows.runs.refresh import run_refresh
    from tests.support.runs import Silent, config_on_doubles  # inside, because what they import reads the environment

    config = config_on_doubles(tmp_path_factory.mktemp("made") / "dataset").model_copy(
        update={"oracle": OracleConfig()}
    )
    run_refresh(config, Silent())
    return config


@pytest.fixture(scope="session")
def made(made_config: "RefreshConfig") -> Path:
    """The folder of the dataset of `made_config`, for reading."""
    return Path(made_config.out)


@pytest.fixture
def dataset(made: Path, tmp_path: Path) -> Path:
    """A copy of that dataset, without its store, that a test may spoil."""
    shutil.copytree(made, tmp_path / "dataset", ignore=shutil.ignore_patterns(".store"))
    return tmp_path / "dataset"


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dataset that `make demo` makes, with the folders that it writes beside it; nobody may write to them."""
    out = tmp_path_factory.mktemp("demo") / "demo"
    command = ["make", "--directory", str(ROOT), "-o", "install", "-o", "voices", "demo", f"DEMO={out}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    (out.parent / "printed.txt").write_text(done.stdout, encoding="utf-8")
    return out


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB of its own; only root can mount one."""
    folder = tmp_path / "tiny_disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    mounted = subprocess.run([mount, "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture(scope="session", autouse=True)
def _only_this_machine() -> Iterator[None]:
    """Refuses connections and name look-ups that leave this machine (in this process; others get HF_HUB_OFFLINE)."""
    look_up = socket.getaddrinfo

    def guarded_look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        return look_up(host, *args, **kwargs) if _is_local(host) else _refuse(host)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", guarded_look_up)
        for method in ("connect", "connect_ex"):
            patch.setattr(socket.socket, method, _guarded(getattr(socket.socket, method)))
        yield


def _guarded(connect: Any) -> Any:
    def guarded_connect(self: socket.socket, address: Any) -> Any:
        internet = self.family in (socket.AF_INET, socket.AF_INET6)
        return connect(self, address) if not internet or _is_local(address[0]) else _refuse(address)

    return guarded_connect


def _is_local(host: str | bytes | None) -> bool:
    name = host.decode() if isinstance(host, bytes) else host
    if not name or name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _refuse(address: object) -> NoReturn:
    raise NetworkForbiddenError(f"Tests must not reach {address!r}: only this machine (127.0.0.1, ::1, localhost).")


def _forbidden_skip(longrepr: object) -> str | None:
    """The reason of a skip that may not be, if it is one; a skip's report is (file, line, reason)."""
    reason = str(longrepr[2] if isinstance(longrepr, tuple) else longrepr)
    forbidden = os.environ.get("KAME_FORBID_SKIPS") == "1" and not any(allowed in reason for allowed in ALLOWED_SKIPS)
    return f"{reason.removeprefix('Skipped: ')} [skipping is forbidden: KAME_FORBID_SKIPS=1]" if forbidden else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    expected_to_fail = hasattr(report, "wasxfail")
    if report.skipped and not expected_to_fail and (reason := _forbidden_skip(report.longrepr)):
        report.outcome, report.longrepr = "failed", reason
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped and (reason := _forbidden_skip(report.longrepr)):  # a whole module skipped
        report.outcome, report.longrepr = "failed", reason
    return report
