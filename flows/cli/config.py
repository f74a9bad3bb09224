"""`kame config`: show and compare configurations."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.terminal import AsJson, print_json, speaking_plainly

app = typer.Typer(help="Show and compare configurations.", no_args_is_help=True)

ProfileName = Annotated[str, typer.Option("--profile", help="Where to start from: embedded or gpu.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="YAML over the profile; see `kame config show`.")]


@app.command("show")
def config_show(profile: ProfileName = "embedded", config: ConfigFile = None, as_json: AsJson = False) -> None:
    """The full configuration as YAML: a start for a file of your own."""
    with speaking_plainly(as_json):
        import yaml

        from flows.settings import build_config

        settings = build_config(profile, config, {}).model_dump(mode="json")
        sys.stdout.write(json.dumps(settings) + "\n" if as_json else yaml.safe_dump(settings, sort_keys=False))


@app.command("diff")
def config_diff(
    left: Annotated[str, typer.Argument(help="A profile's name or a YAML file.")],
    right: Annotated[str, typer.Argument(help="A profile's name or a YAML file.")],
    as_json: AsJson = False,
) -> None:
    """Fields in which two configurations differ."""
    with speaking_plainly(as_json):
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
            show.console().print(show.table("Differences", ("field", left, right), rows))
