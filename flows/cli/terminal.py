"""Output of commands: errors as one message and an exit code, and results as JSON with `--json`."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print results as JSON.")]
Folder = Annotated[str, typer.Argument(help="Folder of a dataset.")]

HOW_TO_RESUME = "Run the same command again to resume."


CodecOptions = Annotated[
    list[str],
    typer.Option(
        "--codec-option",
        help="Option of the codec, as name=value; `kame backends options codec NAME` lists them. Can be repeated.",
    ),
]


def print_json(value: object) -> None:
    """Prints a value as one line of JSON on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


@contextmanager
def report_errors(as_json: bool, how_to_resume: str = HOW_TO_RESUME) -> Iterator[None]:
    """Context manager that reports a KameError or Ctrl-C as one message with an exit code; other errors pass.

    A package of another project that is not installed is reported like a KameError. The message is on standard error.

    Args:
        as_json: whether a KameError is also printed as JSON on standard output.
        how_to_resume: sentence that is added to the message after Ctrl-C.
    """
    from data_schemas.errors import KameError

    try:
        with _translate_missing_packages():
            yield
    except KameError as error:
        if as_json:
            print_json({"error": error.what, "remedy": error.remedy})
        typer.echo(f"kame: {error}", err=True)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        typer.echo(f"kame: stopped. {how_to_resume}".rstrip(), err=True)
        raise typer.Exit(130) from None


@contextmanager
def _translate_missing_packages() -> Iterator[None]:
    """Converts the error of an import of a package that is not installed to a ConfigError; missing modules of an
    installed package pass."""
    from data_schemas.errors import ConfigError

    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if not package or find_spec(package) is not None:
            raise
        raise ConfigError(
            f"This command needs a package that is not installed: {package}.",
            "Install what all commands need: pip install 'kame-pipeline[all]'.",
        ) from error
