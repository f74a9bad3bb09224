"""Help texts: paragraphs are wrapped at the width of the terminal, and defaults of configuration fields are shown."""

from typing import Annotated

import pytest
from typer.testing import CliRunner

from flows.cli.field_help import CommandApp, make_field_option

pytestmark = pytest.mark.quick


def read_help(app: CommandApp) -> str:
    """The help of a command on a wide terminal, without frames, each run of spaces as one."""
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).stdout
    return "\n".join(" ".join(line.strip("│╭╮╰╯─ ").split()) for line in shown.split("\n"))


def test_a_paragraph_is_one_line_and_a_list_stays_a_list() -> None:
    app = CommandApp()

    @app.command()
    def command() -> None:
        """Do something.

        The second paragraph has
        two lines.

        - one
        - two
        """

    assert "The second paragraph has two lines.\n\n- one\n- two\n" in read_help(app)


def test_the_default_of_a_field_is_shown_unless_the_option_has_its_own() -> None:
    app = CommandApp()

    @app.command()
    def command(
        variants: Annotated[
            float | None, make_field_option("--variants", "data_schemas.config:RefreshConfig.variants")
        ] = None,
        workers: Annotated[int, make_field_option("--workers", "data_schemas.config:RefreshConfig.workers")] = 3,
        limit: Annotated[
            int | None, make_field_option("--limit", "data_schemas.config:RefreshConfig.limit", "More.")
        ] = None,
    ) -> None:
        """Do something."""

    shown = read_help(app)
    assert "made from one item. Default: 1.\n" in shown
    assert "one per core. [default: 3]\n" in shown
    assert "default: all. More.\n" in shown
