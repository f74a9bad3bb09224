"""Every command line of the README, of docs/ and of the examples in `--help` names a command and options that exist."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from flows.cli.app import app

pytestmark = pytest.mark.quick
ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
LINE = re.compile(r"^(?: {4,}|\t)?(?:[A-Z_]+=\S+ )*(kame (?:[^\n\\]|\\\n)+)", re.MULTILINE)
PLACEHOLDER = re.compile(r"^[A-Z.…]+$")
COMMAND = typer.main.get_command(app)


def find_commands(page: Path) -> list[str]:
    """Command lines of code blocks, those that are continued put together."""
    text = page.read_text(encoding="utf-8")
    fenced = "\n".join(re.findall(r"```(?:sh|console|bash)?\n(.*?)```", text, re.DOTALL))
    indented = "\n".join(
        line for line in re.sub(r"```.*?```", "", text, flags=re.DOTALL).split("\n") if line[:4] == "    "
    )
    return [found.replace("\\\n", " ") for found in LINE.findall(f"{fenced}\n{indented}")]


def check(line: str) -> str | None:
    """What is wrong with a command line; None: nothing is."""
    words = shlex.split(re.split(r" #| && ", line)[0].replace("…", "..."), posix=True)[1:]
    command = COMMAND
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        if PLACEHOLDER.match(words[0]):
            return None
        found = command.commands.get(words[0])
        if found is None:
            return f"no command {words[0]!r}"
        command, words = found, words[1:]
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"--help"}
    unknown = [word for word in words if word.startswith("--") and word.partition("=")[0] not in known]
    return f"no option {unknown}" if unknown else None


def find_examples(command: object) -> Iterator[str]:
    """Command lines of the examples in the help of a command and of those below it."""
    found = LINE.findall(getattr(command, "epilog", None) or "")
    yield from (line.replace("\\\n", " ") for line in found)
    for each in getattr(command, "commands", {}).values():
        yield from find_examples(each)


def test_examples_in_the_help_exist() -> None:
    examples = [*find_examples(COMMAND)]
    assert len(examples) >= 8
    assert [fault for line in examples if (fault := check(line))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_exist(page: Path) -> None:
    wrong = [f"{line.strip()}: {fault}" for line in find_commands(page) if (fault := check(line))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("kame refresh --source gsm8k --out x", None),
        ("kame refersh --out x", "no command 'refersh'"),
        ("kame evaluate recall C T --delay 1", "no option ['--delay']"),
        ("kame evaluate questions --modes cascade \\\n --n 3", None),
    ],
)
def test_a_line_that_is_wrong_is_found(line: str, fault: str | None) -> None:
    assert check(line.replace("\\\n", " ")) == fault
    assert sum(len(find_commands(page)) for page in PAGES) > 100, "they are found at all"
