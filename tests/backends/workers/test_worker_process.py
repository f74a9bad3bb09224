"""A worker in a real process: it answers, refuses, fails, dies, hangs and lies, and never outlives its parent."""

import signal
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]
import pytest

from backends.workers import process
from backends.workers.process import Worker, WorkerRefusal
from data_schemas.errors import BackendError, ConfigError

pytestmark = pytest.mark.full

ENGINE = """
import os, sys, threading
from backends.workers.frames import EngineRefusal

class Noisy:
    def __init__(self, options):
        print("a library greets")
        if options.get("wrong"):
            raise EngineRefusal("there is no such model")
        if options.get("broken"):
            raise RuntimeError("weights are damaged")
        self.n_calls = 0

    def echo(self, arguments, sound):
        self.n_calls += 1
        print("noise on standard output")
        os.write(1, b"more noise")
        return {"told": arguments, "n_calls": self.n_calls, "pid": os.getpid()}, sound

    def refuse(self, arguments, sound):
        raise EngineRefusal("nothing to say")

    def fail(self, arguments, sound):
        return {"ratio": 1 / 0}, b""

    def ask(self, arguments, sound):
        return {"answer": input("Do you agree? ")}, b""

    def die(self, arguments, sound):
        print("out of memory", file=sys.stderr, flush=True)
        os._exit(7)

    def hang(self, arguments, sound):
        threading.Event().wait()

    def paths(self, arguments, sound):
        import data_schemas

ENGINE = Noisy
"""
SAMPLES = np.array([0.5, -0.25, 1.0], dtype=np.float32)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a virtual environment without any package."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def engine_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("engine") / "tiny.py"
    file.write_text(ENGINE)
    return file


@pytest.fixture
def worker(python: Path, engine_file: Path) -> Iterator[Worker]:
    started = Worker("tiny", python, engine_file, {}, timeout_s=60)
    yield started
    started.close()


def fake(tmp_path: Path, script: str) -> Path:
    """An `interpreter` that ignores what it is told to run and runs this instead."""
    file = tmp_path / "python"
    file.write_text(f"#!{sys.executable}\nimport os, struct, sys\n{script}\n")
    file.chmod(0o755)
    return file


def test_it_answers_again_and_again_whatever_libraries_print_and_however_long_the_sound_is(worker: Worker) -> None:
    long = np.arange(1_000_000, dtype=np.float32)  # more than a pipe holds
    for n_calls, given in enumerate((SAMPLES, long, SAMPLES), 1):
        told, sound = worker.call("echo", {"text": "naïve"}, given)
        assert (told["told"], told["n_calls"]) == ({"text": "naïve"}, n_calls)
        assert sound.dtype == np.float32
        assert np.array_equal(sound, given)


@pytest.mark.parametrize(
    ("method", "error", "told"),
    [
        ("refuse", WorkerRefusal, "nothing to say"),
        ("fail", BackendError, "worker tiny failed: ZeroDivisionError"),
        ("ask", BackendError, "worker tiny failed: EOFError"),
        ("no_such_method", BackendError, "worker tiny failed: AttributeError"),
        ("paths", BackendError, "No module named 'data_schemas'"),  # of ours only its own folder can be imported there
    ],
)
def test_a_refusal_or_an_error_of_the_engine_is_told_and_the_worker_goes_on(
    worker: Worker, method: str, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        worker.call(method, {})
    assert worker.call("echo", {})[0]["n_calls"] == 1


def test_a_worker_that_dies_is_told_with_its_last_line(worker: Worker) -> None:
    with pytest.raises(BackendError, match=r"tiny is gone: it ended.* status 7; its last line: out of memory"):
        worker.call("die", {})
    assert not worker.is_running()
    with pytest.raises(BackendError, match="is gone"):
        worker.call("echo", {})


def test_a_worker_that_hangs_is_ended(python: Path, engine_file: Path) -> None:
    slow = Worker("tiny", python, engine_file, {}, timeout_s=60)
    slow._timeout_s = 0.05
    with pytest.raises(BackendError, match=r"no answer in 0\.05 s"):
        slow.call("hang", {})
    assert not slow.is_running()
    slow.close()


@pytest.mark.parametrize(
    ("option", "error", "told"),
    [("wrong", ConfigError, "there is no such model"), ("broken", BackendError, "RuntimeError: weights are damaged")],
)
def test_options_that_the_engine_refuses_are_the_users_affair_and_others_on_which_it_fails_are_not(
    python: Path, engine_file: Path, option: str, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        Worker("tiny", python, engine_file, {option: True}, timeout_s=60)


def test_an_engine_whose_packages_are_missing_is_told(python: Path, tmp_path: Path) -> None:
    (tmp_path / "needy.py").write_text("import no_such_package\n")
    with pytest.raises(BackendError, match="No module named 'no_such_package'"):
        Worker("needy", python, tmp_path / "needy.py", {}, timeout_s=60)


def test_an_interpreter_that_is_gone_is_told(tmp_path: Path, engine_file: Path) -> None:
    with pytest.raises(BackendError, match=r"worker tiny does not start.*kame backends install"):
        Worker("tiny", tmp_path / "no_python", engine_file, {}, timeout_s=60)


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("print('hello, I am no worker', flush=True)", "invalid reply: it begins with b'hello"),
        ("os.write(1, struct.pack('<4sII', b'KAME', 11, 80) + b'{\"done\":{}}1234')", "ends after 4 of 80 bytes"),
        ("sys.exit('wrong architecture')", "status 1; its last line: wrong architecture"),
    ],
    ids=["garbage", "wrong length", "dies at once"],
)
def test_a_process_that_is_no_worker_is_told(tmp_path: Path, engine_file: Path, script: str, told: str) -> None:
    with pytest.raises(BackendError, match=told):
        Worker("tiny", fake(tmp_path, script), engine_file, {}, timeout_s=60)


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_a_worker_ends_with_its_killed_parent(python: Path, engine_file: Path, busy: bool) -> None:
    code = (
        "import sys, threading; from pathlib import Path; from backends.workers.process import Worker\n"
        f"worker = Worker('tiny', Path({str(python)!r}), Path({str(engine_file)!r}), {{}}, 60)\n"
        "print(worker.call('echo', {})[0]['pid'], flush=True)\n"
        + ("worker.call('hang', {})" if busy else "threading.Event().wait()")
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.send_signal(signal.SIGKILL)
    child.wait(timeout=30)
    assert not child.is_running()


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, python: Path, engine_file: Path) -> Iterator[None]:
    running: dict[Any, Worker] = {}
    monkeypatch.setattr(process, "_RUNNING", running)
    place = SimpleNamespace(is_installed=lambda: True, get_python=lambda: python, find_engine_file=lambda: engine_file)
    monkeypatch.setattr(process, "get_environment", lambda name: place)
    yield
    for worker in running.values():
        worker.close()


@pytest.mark.usefixtures("tiny")
def test_one_worker_a_process_for_the_same_options_and_a_dead_one_is_started_anew() -> None:
    first = process.get_worker("tiny", {"a": 1}, 60)
    assert process.get_worker("tiny", {"a": 1}, 60) is first
    assert process.get_worker("tiny", {"a": 2}, 60) is not first
    with pytest.raises(BackendError):
        first.call("die", {})
    assert process.get_worker("tiny", {"a": 1}, 60).call("echo", {})[0]["n_calls"] == 1
    first.close()


FORK = """
import os, sys
from pathlib import Path
from types import SimpleNamespace
from backends.workers import process

python, engine_file = map(Path, sys.argv[1:])
process.get_environment = lambda name: SimpleNamespace(
    is_installed=lambda: True, get_python=lambda: python, find_engine_file=lambda: engine_file
)
def told():
    return os.getpid(), process.get_worker("tiny", {}, 60).call("echo", {})[0]["pid"]
first = told()
if os.fork() == 0:
    os._exit(0 if told()[1] != first[1] else 1)
print(os.wait()[1], told() == first)
"""


def test_a_forked_process_starts_a_worker_of_its_own(python: Path, engine_file: Path) -> None:
    command = [sys.executable, "-c", FORK, str(python), str(engine_file)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == ["0", "True"]


def test_an_environment_that_is_not_made_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    place = SimpleNamespace(is_installed=lambda: False, find_engine_file=lambda: Path("tiny.py"))
    monkeypatch.setattr(process, "get_environment", lambda name: place)
    with pytest.raises(BackendError, match="Type: kame backends install tiny"):
        process.get_worker("tiny", {}, 60)
