"""`kame evaluate questions`: spoken questions, asked in every mode of a served front-end."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from flows.cli.evaluate.options import Tts, make_server_command, tell_condition


def _tell(row: Mapping[str, Any]) -> str:
    right = f"right {row['answer_accuracy']:.0%} heard, {row['answer_accuracy_text']:.0%} by its text"
    return f"{tell_condition(row)}, n={row['n']}: {right}"


@make_server_command("questions", _tell)
def questions(
    questions: Annotated[
        str,
        typer.Option(
            "--questions",
            help="llama_questions, web_questions, trivia_qa, halueval, svamp, multi_arith, gsm8k, mmlu_pro or mine.",
        ),
    ] = "mine",
    path: Annotated[str, typer.Option("--path", help="The set's file or folder; empty: the Hub.")] = "",
    columns: Annotated[
        str | None,
        typer.Option("--map", help="Columns of your own file: question=COL,answer=COL, aliases, id, category, sound."),
    ] = None,
    n_questions: Annotated[int | None, typer.Option("--n", min=1, help="Questions at most; 100 if empty.")] = None,
    tts: Tts = None,
    tail_s: Annotated[
        float | None, typer.Option("--tail-s", help="Longest wait for an answer's end, seconds; 20 if empty.")
    ] = None,
) -> dict[str, Any]:
    """Ask spoken questions in real sessions: is the answer right, was the oracle, and how soon was it said?

    Time is simulated: what the chat model, the recogniser and the voice take is measured once, kept in OUT/times.jsonl,
    and charged. The same command with the same --out goes on where it stopped, and gives the same figures.
    """
    return {
        "questions": questions,
        "path": path,
        "columns": None if columns is None else _parse_columns(columns),
        "n_questions": n_questions,
        "tts": tts,
        "tail_s": tail_s,
    }


def _parse_columns(told: str) -> dict[str, str]:
    from data_schemas.errors import ConfigError

    parts = [pair.partition("=") for pair in told.split(",")]
    pairs = {ours.strip(): theirs.strip() for ours, _, theirs in parts}
    if len(pairs) < len(parts) or not all(ours and theirs for ours, theirs in pairs.items()):
        raise ConfigError(f"--map {told} does not fit.", "Say --map question=COLUMN,answer=COLUMN.")
    return pairs
