"""Layers import only downwards, no file is in an import circle, only flows knows Prefect, no file is too long or short.

The tree in docs/tour.md is the tree as it is.
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAY_IMPORT: dict[str, set[str]] = {
    "data_schemas": set(),
    "spoken": {"data_schemas"},
    "backends": {"data_schemas"},
    "pipelines": {"data_schemas", "spoken", "backends"},
    "kame_model": {"data_schemas", "spoken", "backends"},
    "dashboard": {"data_schemas"},
    "flows": {"data_schemas", "spoken", "backends", "pipelines", "kame_model", "dashboard"},
}
SCHEDULER = "prefect"
MAX_LINES = 500
MIN_LINES = 40
HAND_WRITTEN = {".py", ".js", ".css", ".html", ".sh"}


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def imported_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and top-level name of every import, wherever it stands, `importlib.import_module("name")` included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.lineno, node.module.split(".")[0]
        elif isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith("import_module"):
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield node.lineno, name.value.split(".")[0]


def wrong_imports(root: Path) -> list[str]:
    """`file:line: package imports other` for each import against the arrows, or to Prefect from outside flows."""
    found: list[str] = []
    for package, allowed in MAY_IMPORT.items():
        forbidden = set(MAY_IMPORT) - allowed - {package}
        if package != "flows":
            forbidden.add(SCHEDULER)
        for file in sorted((root / package).rglob("*.py")):
            for line, name in imported_names(parsed(file)):
                if name in forbidden or (name.startswith(f"{SCHEDULER}_") and SCHEDULER in forbidden):
                    found.append(f"{file.relative_to(root)}:{line}: {package} imports {name}")
    return found


def imported_files(root: Path) -> dict[Path, set[Path]]:
    """Which of our files each of them imports, imports inside functions and under `TYPE_CHECKING` included."""
    files = {path.relative_to(root) for package in MAY_IMPORT for path in (root / package).rglob("*.py")}
    found: dict[Path, set[Path]] = {}
    for file in files:
        modules = set()
        for node in ast.walk(parsed(root / file)):
            if isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        found[file] = {Path(*each.split(".")).with_suffix(".py") for each in modules} & files - {file}
    return found


def import_circles(root: Path) -> list[str]:
    """`file → file → …`, the shortest way back to each file that imports itself by way of others."""
    arrows = imported_files(root)
    circles = []
    for start in sorted(arrows):
        ways, seen = [[start]], set[Path]()
        while ways:
            way = ways.pop(0)
            if start in arrows[way[-1]]:
                circles.append(" → ".join(map(str, [*way, start])))
                break
            new = arrows[way[-1]] - seen
            seen |= new
            ways += [[*way, each] for each in sorted(new)]
    return circles


def long_files(root: Path) -> list[str]:
    """`file: lines`, for every file written by hand that has more than 500 lines."""
    found: list[str] = []
    for folder in (*MAY_IMPORT, "tests", "benchmarks", "examples"):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in HAND_WRITTEN:
                n_lines = len(file.read_text(encoding="utf-8").splitlines())
                if n_lines > MAX_LINES:
                    found.append(f"{file.relative_to(root)}: {n_lines}")
    return found


SHORT_WITH_REASON = {"data_schemas/config/text.py": "one file a concern of the configuration"}
"""Files of under 40 lines that only one other imports, and why they are not part of it."""


A_FILE_EACH = ("flows/cli/", "pipelines/sources/")
"""Folders in which each command, or each source, has a file of its own, however short."""


def short_files(root: Path) -> list[str]:
    """Files of under 40 lines that one other file imports."""
    n_importers = Counter(each for imported in imported_files(root).values() for each in imported)
    return [
        str(file)
        for file in sorted(n_importers)
        if n_importers[file] == 1
        and file.name != "__init__.py"
        and not file.as_posix().startswith(A_FILE_EACH)
        and len((root / file).read_text(encoding="utf-8").splitlines()) < MIN_LINES
    ]


def test_a_short_file_has_more_than_one_importer_or_a_reason() -> None:
    assert short_files(ROOT) == sorted(SHORT_WITH_REASON)


def folders_of_the_tour() -> set[str]:
    """The folders that docs/tour.md's tree names: each line's first word, under the line that is less indented."""
    page = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    folders, above = set[str](), list[tuple[int, str]]()
    for line in page.partition("## The tree\n")[2].partition("\n## ")[0].splitlines():
        name = line.split()[0] if line.strip() else ""
        if name.endswith("/"):
            indent = len(line) - len(line.lstrip())
            above = [each for each in above if each[0] < indent]
            folders.add("".join(each for _, each in above) + name)
            above.append((indent, name))
    return folders


def test_the_tour_shows_every_package() -> None:
    packages = {
        f"{file.parent.relative_to(ROOT)}/" for package in MAY_IMPORT for file in (ROOT / package).rglob("__init__.py")
    }
    explained_above = {"pipelines/script/forms/", "backends/workers/engines/"}
    shown = folders_of_the_tour()
    assert packages - shown == explained_above & packages
    assert [folder for folder in shown if not (ROOT / folder).is_dir()] == []


@pytest.mark.parametrize("find_faults", [wrong_imports, import_circles, long_files])
def test_this_repository_has_no_wrong_imports_circles_or_long_files(find_faults: Callable[[Path], list[str]]) -> None:
    assert [package for package in MAY_IMPORT if not (ROOT / package / "__init__.py").is_file()] == []
    assert find_faults(ROOT) == []


@pytest.mark.parametrize(
    "back", ["from kame_model.one import begin", "def end():\n    import kame_model.one", "from kame_model import one"]
)
def test_an_import_circle_is_found_wherever_the_import_stands(tmp_path: Path, back: str) -> None:
    folder = tmp_path / "kame_model"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "one.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import kame_model.two\n")
    (folder / "two.py").write_text(back + "\n")
    (folder / "three.py").write_text("from kame_model.one import begin\n")
    assert import_circles(tmp_path) == [
        "kame_model/one.py → kame_model/two.py → kame_model/one.py",
        "kame_model/two.py → kame_model/one.py → kame_model/two.py",
    ]


def test_no_test_imports_a_benchmark() -> None:
    found = [
        str(file.relative_to(ROOT))
        for file in (ROOT / "tests").rglob("*.py")
        for _, name in imported_names(parsed(file))
        if name == "benchmarks"
    ]
    assert found == []


@pytest.mark.parametrize(
    ("package", "line", "seen"),
    [
        ("data_schemas", "from backends.registry import entry", "backends"),
        ("backends", "import pipelines.run.execute as runner", "pipelines"),
        ("pipelines", "import json, flows.cli.app", "flows"),
        ("pipelines", "from kame_model import encode", "kame_model"),
        ("kame_model", "from pipelines.run.execute import Runner", "pipelines"),
        ("dashboard", "from backends import registry", "backends"),
        ("dashboard", "import flows.runs.refresh", "flows"),
        ("pipelines", "def f():\n    from prefect import task", "prefect"),
        ("backends", "import prefect_dask", "prefect_dask"),
        ("kame_model", "import importlib\nimportlib.import_module('flows.refresh')", "flows"),
    ],
)
def test_an_import_against_the_arrows_is_found(tmp_path: Path, package: str, line: str, seen: str) -> None:
    file = tmp_path / package / "deep" / "module.py"
    file.parent.mkdir(parents=True)
    file.write_text(line + "\n")
    n_line = len(line.splitlines())
    assert wrong_imports(tmp_path) == [f"{package}/deep/module.py:{n_line}: {package} imports {seen}"]


def test_a_long_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "dashboard" / "static").mkdir(parents=True)
    (tmp_path / "dashboard" / "static" / "page.js").write_text("x\n" * 501)
    (tmp_path / "dashboard" / "fits.py").write_text("x\n" * 500)
    assert long_files(tmp_path) == ["dashboard/static/page.js: 501"]
