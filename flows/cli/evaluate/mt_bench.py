"""`kame evaluate mt-bench`: MT-Bench spoken to a server, and its answers judged."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.evaluate.options import Tts, make_server_command, tell_condition


def _tell(row: Mapping[str, Any]) -> str | None:
    if "category" in row:
        return None
    scores = ", ".join(f"{name} {row[name]}" for name in ("score", "score_text", "score_oracle"))
    return f"{tell_condition(row)}: {scores}; {row['n_empty']} of {row['n_answers']} empty"


@make_server_command("mt-bench", _tell)
def mt_bench(
    path: Annotated[
        str, typer.Option("--path", help="Folder with FastChat's question.jsonl and reference_answer/gpt-4.jsonl.")
    ],
    category: Annotated[
        list[str], typer.Option("--category", help="Repeatable; reasoning, stem and humanities if none is given.")
    ] = [],  # noqa: B006
    n_questions: Annotated[int | None, typer.Option("--n", min=1, help="Questions at most; all if empty.")] = None,
    n_runs: Annotated[int | None, typer.Option("--runs", min=1, help="How often each is asked; 6 if empty.")] = None,
    tts: Tts = None,
    judge_prompts: Annotated[
        str | None,
        typer.Option("--judge-prompts", help="FastChat's judge_prompts.jsonl; that of --path if empty, else ours."),
    ] = None,
    judge_budget_usd: Annotated[
        float | None, typer.Option("--judge-budget-usd", min=0, help="Most US dollars that new judgements may take.")
    ] = None,
) -> dict[str, Any]:
    """Ask MT-Bench's questions aloud, both turns, and have each answer judged from 1 to 10; goes on if stopped."""
    return {
        "path": path,
        "categories": category or None,
        "n_questions": n_questions,
        "n_runs": n_runs,
        "tts": tts,
        "judge.prompts": judge_prompts if judge_prompts is not None else _find_prompts_beside(path),
        "judge.budget.usd": judge_budget_usd,
    }


def _find_prompts_beside(path: str) -> str | None:
    """FastChat's prompts where its questions are, or in the folder above, as in its repository; None: neither."""
    places = (Path(path) / "judge_prompts.jsonl", Path(path).parent / "judge_prompts.jsonl")
    return next((str(place) for place in places if place.is_file()), None)
