"""Pages of the site that are generated: one for each module, all commands, the changelog and the contributing guide.

Run by mkdocs-gen-files when `make docs` builds the site; the pages are not kept in the repository.
"""

import re
from pathlib import Path

import mkdocs_gen_files

PACKAGES = ("data_schemas", "spoken", "backends", "pipelines", "kame_model", "flows", "dashboard")
ROOT = Path(__file__).resolve().parents[1]
ROOT_PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Files of the repository's root that are pages of the site, and their names there."""


def write_modules() -> None:
    """Writes a page of `reference/` for each module, and the list of them."""
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
    """Copies the page of all commands and their options, which Typer wrote to build/commands.md."""
    with mkdocs_gen_files.open("commands.md", "w") as out:
        out.write((ROOT / "build" / "commands.md").read_text(encoding="utf-8"))


def write_root_pages() -> None:
    """Copies pages from the repository's root; links to files that are not on the site become plain text."""

    def change_link(found: re.Match[str]) -> str:
        text, target = found[1], found[2]
        path, mark, anchor = target.partition("#")
        if path.startswith(("https://", "http://")) or not path:
            return found[0]
        if path in ROOT_PAGES or path.startswith("docs/"):
            return f"[{text}]({ROOT_PAGES.get(path, path.removeprefix('docs/'))}{mark}{anchor})"
        return text

    for name, page in ROOT_PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        with mkdocs_gen_files.open(page, "w") as out:
            out.write(re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", change_link, text))


def write_decisions() -> None:
    """Writes the list of decisions, by number."""
    with mkdocs_gen_files.open("decisions/NAV.md", "w") as out:
        for file in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")):
            title = file.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
            print(f"* [{title}]({file.name})", file=out)


write_modules()
write_commands()
write_root_pages()
write_decisions()
