"""`kame evaluate mt-bench`: MT-Bench spoken to a server, and its answers judged."""

from functools import partial
from pathlib import Path
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


def mt_bench(
    path: Annotated[
        str, typer.Option("--path", help="Folder with FastChat's question.jsonl and reference_answer/gpt-4.jsonl.")
    ],
    checkpoint: Checkpoint = None,
    out: Annotated[str, typer.Option("--out", help="Folder of the report.")] = "mt-bench",
    category: Annotated[
        list[str], typer.Option("--category", help="Repeatable; reasoning, stem and humanities if none is given.")
    ] = [],  # noqa: B006
    modes: Modes = None,
    n_questions: Annotated[int | None, typer.Option("--n", min=1, help="Questions at most; all if empty.")] = None,
    n_runs: Annotated[int | None, typer.Option("--runs", min=1, help="How often each is asked; 6 if empty.")] = None,
    delay_s: DelaysS = [],  # noqa: B006
    seed: Seed = None,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    llm_provider: LlmProvider = None,
    prompt: SystemPrompt = None,
    judge_url: JudgeUrl = None,
    judge_model: JudgeModel = None,
    judge_provider: JudgeProvider = None,
    judge_prompts: Annotated[
        str | None,
        typer.Option("--judge-prompts", help="FastChat's judge_prompts.jsonl; that of --path if empty, else ours."),
    ] = None,
    judge_budget_usd: Annotated[
        float | None, typer.Option("--judge-budget-usd", min=0, help="Most US dollars that new judgements may take.")
    ] = None,
    device: Device = None,
    config: ServeFile = None,
    settings: Settings = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Ask MT-Bench's questions aloud, both turns, and have each answer judged from 1 to 10; goes on if stopped."""
    with speaking_plainly(as_json):
        from data_schemas.config.mt_bench import MtBenchConfig
        from flows.cli.progress import counting
        from flows.cli.serve import back_end_settings
        from kame_model.evaluate.mt_bench import evaluate_mt_bench
        from kame_model.evaluate.report import REPORT
        from kame_model.evaluate.served import condition_of

        built = build_calls(
            MtBenchConfig,
            config,
            {"checkpoint": checkpoint, "device": device, **back_end_settings(llm_url, llm_model, llm_provider, prompt)},
            (judge_url, judge_model, judge_provider),
            modes,
            delay_s,
            {
                "path": path,
                "categories": category or None,
                "n_questions": n_questions,
                "n_runs": n_runs,
                "seed": seed,
                "judge.prompts": judge_prompts if judge_prompts is not None else _prompts_beside(path),
                "judge.budget.usd": judge_budget_usd,
            },
            settings,
        )
        rows = evaluate_mt_bench(built, out, counting=partial(counting, quiet=as_json))
        if as_json:
            print_json(rows)
            return
        for row in rows:
            if "category" not in row:
                scores = ", ".join(f"{name} {row[name]}" for name in ("score", "score_text", "score_oracle"))
                typer.echo(f"{condition_of(row).title}: {scores}; {row['n_empty']} of {row['n_answers']} empty")
        typer.echo(f"{out}/{REPORT} has the rest.")


def _prompts_beside(path: str) -> str | None:
    """FastChat's prompts where its questions are, or in the folder above, as in its repository; None: neither."""
    places = (Path(path) / "judge_prompts.jsonl", Path(path).parent / "judge_prompts.jsonl")
    return next((str(place) for place in places if place.is_file()), None)
