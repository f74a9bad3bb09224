"""`kame evaluate duplex`: how a front-end takes turns, by Full-Duplex-Bench's definitions."""

from functools import partial
from typing import Annotated

import typer

from flows.cli.evaluate.options import (
    Checkpoint,
    DelaysS,
    JudgeModel,
    JudgeProvider,
    JudgeUrl,
    Modes,
    Seed,
    Settings,
    build_calls,
)
from flows.cli.refresh import LlmModel, LlmProvider, LlmUrl
from flows.cli.serve import Device, ServeFile, SystemPrompt
from flows.cli.terminal import AsJson, print_json, speaking_plainly


def duplex(
    path: Annotated[
        str,
        typer.Option("--path", help="Folder of Full-Duplex-Bench's data (version 1), or of a dataset of one's own."),
    ],
    checkpoint: Checkpoint = None,
    tasks: Annotated[
        str | None,
        typer.Option("--tasks", help="pause_handling,backchannel,turn_taking,user_interruption, or some of them."),
    ] = None,
    modes: Modes = None,
    n_items: Annotated[
        int | None, typer.Option("--n", min=1, help="Items at most of each of the data's folders.")
    ] = None,
    seed: Seed = None,
    delay_s: DelaysS = [],  # noqa: B006
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    llm_provider: LlmProvider = None,
    prompt: SystemPrompt = None,
    judge_url: JudgeUrl = None,
    judge_model: JudgeModel = None,
    judge_provider: JudgeProvider = None,
    out: Annotated[str, typer.Option("--out", help="Folder of the report and the outputs.")] = "duplex",
    device: Device = None,
    config: ServeFile = None,
    settings: Settings = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Play a user's pauses, turns and interruptions to a served front-end: when does it speak? Goes on if stopped."""
    with speaking_plainly(as_json):
        from data_schemas.config.duplex import DuplexConfig
        from flows.cli.progress import counting
        from flows.cli.serve import back_end_settings
        from kame_model.evaluate.duplex import evaluate_duplex
        from kame_model.evaluate.report import REPORT

        built = build_calls(
            DuplexConfig,
            config,
            {"checkpoint": checkpoint, "device": device, **back_end_settings(llm_url, llm_model, llm_provider, prompt)},
            (judge_url, judge_model, judge_provider),
            modes,
            delay_s,
            {
                "path": path,
                "tasks": None if tasks is None else [each.strip() for each in tasks.split(",")],
                "n_items": n_items,
                "seed": seed,
            },
            settings,
        )
        rows = evaluate_duplex(built, out, counting=partial(counting, quiet=as_json))
        if as_json:
            print_json(rows)
            return
        for row in rows:
            latency = "" if row.get("latency_s") is None else f", {row['latency_s']:.2f} s after the user"
            typer.echo(f"{row['mode']:<8} {row['subset']}: takes the turn in {row['take_over']:.0%}{latency}")
        typer.echo(f"{out}/{REPORT} has the rest.")
