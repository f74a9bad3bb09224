"""`kame recordings`: makes a dataset to train on from the recordings of callers who consented."""

from typing import Annotated, Literal

import typer

from flows.cli.config import ConfigFile, ProfileName
from flows.cli.refresh import (
    LlmModel,
    LlmProvider,
    LlmUrl,
    OnExecutor,
    OracleVersion,
    Seed,
    Settings,
    Workers,
    print_dataset,
)
from flows.cli.terminal import AsJson, report_errors


def refresh_recordings(
    folder: Annotated[str, typer.Argument(help="Folder of a server's recordings (`kame serve --record`).")],
    out: Annotated[str, typer.Option("--out", help="Folder of the dataset; an existing one is refreshed.")],
    name: Annotated[
        str, typer.Option("--name", help="Name of the recordings as a source in the dataset.")
    ] = "recordings",
    licence: Annotated[
        str | None, typer.Option("--licence", help="Licence of the recordings, to which the callers agreed.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", help="Maximum number of recordings read. Default: all.")
    ] = None,
    profile: ProfileName = "embedded",
    config: ConfigFile = None,
    seed: Seed = None,
    workers: Workers = None,
    executor: OnExecutor = None,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    llm_provider: LlmProvider = None,
    oracle_version: OracleVersion = None,
    simulator: Annotated[
        Literal["llm", "random"] | None,
        typer.Option(
            "--simulator",
            help="llm: a chat model writes the oracles; random: what was said in other recordings is used, for "
            "ablations. Default: llm.",
        ),
    ] = None,
    evaluation_set: Annotated[
        list[str],
        typer.Option(
            "--evaluation-set",
            help="File of evaluation questions: recordings in which a caller asks one are rejected. Can be repeated.",
        ),
    ] = [],  # noqa: B006 - Typer reads the default
    settings: Settings = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Make or refresh a dataset from a server's recordings: turns, word timings and oracles.

    Run the same command again to resume: it adds new recordings, and removes those that were deleted from the folder.
    """
    with report_errors(as_json):
        from flows.cli.progress import RefreshBars
        from flows.runs.refresh import run_recordings
        from flows.settings import build_config, make_chat_settings, parse_settings

        typed = {
            "out": out,
            "limit": limit,
            "seed": seed,
            "workers": workers,
            "executor": executor,
            "oracle.version": oracle_version,
            "oracle.simulator": simulator,
            "evaluation_sets": evaluation_set or None,
            "sources": [{"name": name, "path": folder, "licence": licence}],
            **make_chat_settings("chat", llm_url, llm_model, llm_provider),
            **parse_settings(settings),
        }
        built = build_config(profile, config, typed)
        with RefreshBars(quiet=as_json) as bars:
            record, manifest, figures = run_recordings(built, bars)
        print_dataset(built.out, record, manifest, figures, as_json)
