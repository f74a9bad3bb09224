"""Pages of the documentation site that are written from the code: a page a module, and all commands' help.

Run by mkdocs-gen-files when `make docs` builds the site; nothing of it is kept in the repository.
"""

from pathlib import Path

import mkdocs_gen_files

PACKAGES = ("data_schemas", "spoken", "backends", "pipelines", "kame_model", "flows", "dashboard")
ROOT = Path(__file__).resolve().parents[1]


def write_modules() -> None:
    """A page of `reference/` for each module, and the list of them."""
    nav = mkdocs_gen_files.Nav()
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            parts = file.relative_to(ROOT).with_suffix("").parts
            if any(part.startswith("_") for part in parts):
                continue
            page, module = Path(*parts).with_suffix(".md"), ".".join(parts)
            nav[parts] = page.as_posix()
            with mkdocs_gen_files.open(Path("reference") / page, "w") as out:
                print(f"# `{module}`\n\n::: {module}\n    options:\n      show_root_heading: false", file=out)
    with mkdocs_gen_files.open("reference/NAV.md", "w") as out:
        out.writelines(nav.build_literate_nav())


def write_commands() -> None:
    """All commands with their options, as Typer's own generator wrote them to build/commands.md."""
    with mkdocs_gen_files.open("commands.md", "w") as out:
        out.write((ROOT / "build" / "commands.md").read_text(encoding="utf-8"))


def write_decisions() -> None:
    """The list of decisions, by number."""
    with mkdocs_gen_files.open("decisions/NAV.md", "w") as out:
        for file in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")):
            title = file.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
            print(f"* [{title}]({file.name})", file=out)


write_modules()
write_commands()
write_decisions()
