"""The code of docs/extending.md, and the packages that it shows, installed for a test."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.support.distributions import install_package

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """Returns what the page has below a heading of level 2; asserts that there is such a heading."""
    _, _, rest = PAGE.partition(f"\n## {title}\n")
    assert rest, f"the page has no section {title!r}"
    return rest.partition("\n## ")[0]


def blocks(title: str, language: str) -> list[str]:
    """Returns the pieces of code in a section that are in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", section(title), re.DOTALL | re.MULTILINE)


def install(name: str, title: str, folder: Path, patch: pytest.MonkeyPatch, version: str = "1.0.0") -> None:
    """Installs the package that a section shows: its first piece of Python as the module, its TOML as entry points."""
    groups = tomllib.loads(blocks(title, "toml")[0])["project"]["entry-points"]
    points = {group: "\n".join(f"{key} = {value}" for key, value in each.items()) for group, each in groups.items()}
    install_package(folder / "site", patch, name, blocks(title, "python")[0], points, version)
