"""What the commands of this folder share: the parser of their options, and how figures are printed."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from kame_model.evaluate.report.folder import format_table


def make_parser(docstring: str | None) -> argparse.ArgumentParser:
    """Makes the parser of a command, with its module's docstring as the description and the option `--json`."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{Path(sys.argv[0]).stem}",
        description=docstring,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print the figures as one line of JSON")
    return parser


def print_figures(figures: Mapping[str, Any], as_json: bool) -> None:
    """Prints figures as one line of JSON, or for readers: mappings and lists of mappings as Markdown tables."""
    if as_json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        rows: Any = value
        if isinstance(value, Mapping) and value and all(isinstance(each, Mapping) for each in value.values()):
            rows = [{"": key} | each for key, each in value.items()]
        if isinstance(rows, list) and rows and isinstance(rows[0], Mapping):
            head = list(dict.fromkeys(column for row in rows for column in row))
            lines = [[_format_figure(row.get(column)) for column in head] for row in rows]
            print(f"\n{name}:\n\n{format_table(head, lines)}")
        else:
            print(f"{name}: {_format_figure(value)}")


def _format_figure(value: object) -> str:
    """Returns a figure as text, numbers with four digits."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_format_figure(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_format_figure, value))
    return "" if value is None else str(value)


def measure_mib(process: psutil.Process) -> float:
    """Returns the resident memory of a process in MiB."""
    return float(process.memory_info().rss) / 2**20
