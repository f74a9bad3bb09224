"""`kame evaluate mt-bench`: asks a server the questions of MT-Bench aloud, and has the answers judged."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from flows.cli.evaluate.options import Tts, describe_condition, make_server_command


def _format_row(row: Mapping[str, Any]) -> str | None:
    """Formats the line of a row of figures; None for the row of a category."""
    if "category" in row:
        return None
    scores = ", ".join(f"{name} {row[name]}" for name in ("score", "score_text", "score_oracle"))
    return f"{describe_condition(row)}: {scores}; {row['n_empty']} of {row['n_answers']} empty"


@make_server_command("mt-bench", _format_row)
def evaluate_mt_bench(
    path: Annotated[
        str, typer.Option("--path", help="Folder with FastChat's question.jsonl and reference_answer/gpt-4.jsonl.")
    ],
    category: Annotated[
        list[str],
        typer.Option(
            "--category", help="Category of questions. Can be repeated. Default: reasoning, stem and humanities."
        ),
    ] = [],  # noqa: B006
    n_questions: Annotated[
        int | None, typer.Option("--n", min=1, help="Maximum number of questions. Default: all.")
    ] = None,
    n_runs: Annotated[
        int | None, typer.Option("--runs", min=1, help="Number of times that each question is asked. Default: 6.")
    ] = None,
    tts: Tts = None,
    judge_prompts: Annotated[
        str | None,
        typer.Option(
            "--judge-prompts", help="FastChat's judge_prompts.jsonl. Default: the file in --path, else our own prompts."
        ),
    ] = None,
    judge_budget_usd: Annotated[
        float | None, typer.Option("--judge-budget-usd", min=0, help="Maximum cost of new judgements, in US dollars.")
    ] = None,
) -> dict[str, Any]:
    """Ask MT-Bench's two-turn questions as speech; a judge rates each answer from 1 to 10.

    Run the same command again to resume.
    """
    return {
        "path": path,
        "categories": category or None,
        "n_questions": n_questions,
        "n_runs": n_runs,
        "tts": tts,
        "judge.prompts": judge_prompts,
        "judge.budget.usd": judge_budget_usd,
    }
