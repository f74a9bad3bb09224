"""`kame evaluate questions`: asks a served front-end spoken questions in each mode."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from flows.cli.evaluate.options import Tts, describe_condition, make_server_command


def _format_row(row: Mapping[str, Any]) -> str:
    """Formats the line of a row of figures."""
    right = f"accuracy {row['answer_accuracy']:.0%} of the audio, {row['answer_accuracy_text']:.0%} of its text"
    return f"{describe_condition(row)}, n={row['n']}: {right}"


@make_server_command("questions", _format_row)
def evaluate_questions(
    questions: Annotated[
        str,
        typer.Option(
            "--questions",
            help="Question set: llama_questions, web_questions, trivia_qa, halueval, svamp, multi_arith, gsm8k, "
            "mmlu_pro, or mine (your own).",
        ),
    ] = "mine",
    path: Annotated[
        str, typer.Option("--path", help="File or folder of the question set. Default: the Hugging Face Hub.")
    ] = "",
    columns: Annotated[
        str | None,
        typer.Option(
            "--map",
            help="Columns of your own file, as question=COLUMN,answer=COLUMN; also aliases, id, category and sound.",
        ),
    ] = None,
    n_questions: Annotated[
        int | None, typer.Option("--n", min=1, help="Maximum number of questions. Default: 100.")
    ] = None,
    tts: Tts = None,
    tail_s: Annotated[
        float | None, typer.Option("--tail-s", help="Maximum wait for the end of an answer, in seconds. Default: 20.")
    ] = None,
) -> dict[str, Any]:
    """Evaluate answers to spoken questions: accuracy of the answer and of the oracle, and delay.

    Time is simulated: the times of the chat model, the recogniser and text-to-speech are measured once, stored in
    OUT/times.jsonl, and used instead of the clock. Run the same command again to resume; the figures are the same.
    """
    return {
        "questions": questions,
        "path": path,
        "columns": None if columns is None else _parse_columns(columns),
        "n_questions": n_questions,
        "tts": tts,
        "tail_s": tail_s,
    }


def _parse_columns(text: str) -> dict[str, str]:
    """Parses `field=COLUMN,…` to columns by field.

    Raises:
        ConfigError: a part is not of this form, or a field is given twice.
    """
    from data_schemas.errors import ConfigError

    parts = [pair.partition("=") for pair in text.split(",")]
    pairs = {field.strip(): column.strip() for field, _, column in parts}
    if len(pairs) < len(parts) or not all(field and column for field, column in pairs.items()):
        raise ConfigError(f"--map {text} is not a list of field=COLUMN.", "Write --map question=COLUMN,answer=COLUMN.")
    return pairs
