"""`kame config`: show and compare configurations."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.field_help import CommandApp
from flows.cli.terminal import AsJson, print_json, report_errors

app = CommandApp(help="Show and compare configurations.", no_args_is_help=True)

ProfileName = Annotated[
    str,
    typer.Option(
        "--profile",
        metavar="<embedded|gpu>",
        help="Profile to start from: embedded (a CPU) or gpu.",
    ),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="YAML file of settings, which override the profile's.")
]


@app.command("show")
def show_config(profile: ProfileName = "embedded", config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Print the full configuration as YAML, which can be edited and passed to --config."""
    with report_errors(as_json):
        import yaml

        from flows.settings import build_config

        settings = build_config(profile, config, {}).model_dump(mode="json")
        sys.stdout.write(json.dumps(settings) + "\n" if as_json else yaml.safe_dump(settings, sort_keys=False))


@app.command("diff")
def compare_configs(
    left: Annotated[str, typer.Argument(help="Name of a profile, or a YAML file.")],
    right: Annotated[str, typer.Argument(help="Name of a profile, or a YAML file.")],
    as_json: AsJson = False,
) -> None:
    """List the fields in which two whole configurations differ; a YAML file changes the profile "embedded"."""
    with report_errors(as_json):
        from data_schemas.profiles import PROFILES
        from flows.cli import show
        from flows.settings import build_config, list_differences

        built = [
            build_config(name, None, {}) if name in PROFILES else build_config("embedded", Path(name), {})
            for name in (left, right)
        ]
        rows = list_differences(*built)
        if as_json:
            print_json([{"field": name, "left": one, "right": other} for name, one, other in rows])
        else:
            show.open_console().print(show.make_table("Differences", ("field", left, right), rows))
