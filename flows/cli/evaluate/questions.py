"""`kame evaluate questions`: spoken questions, asked in every mode of a served front-end."""

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


def questions(
    checkpoint: Checkpoint = None,
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
    modes: Modes = None,
    n_questions: Annotated[int | None, typer.Option("--n", min=1, help="Questions at most; 100 if empty.")] = None,
    seed: Seed = None,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    llm_provider: LlmProvider = None,
    prompt: SystemPrompt = None,
    judge_url: JudgeUrl = None,
    judge_model: JudgeModel = None,
    judge_provider: JudgeProvider = None,
    delay_s: DelaysS = [],  # noqa: B006
    tts: Annotated[str | None, typer.Option("--tts", help="Voice of questions without sound; kokoro if empty.")] = None,
    asr: Annotated[str | None, typer.Option("--asr", help="Who writes answers down; moonshine if empty.")] = None,
    tail_s: Annotated[
        float | None, typer.Option("--tail-s", help="Longest wait for an answer's end, seconds; 20 if empty.")
    ] = None,
    out: Annotated[str, typer.Option("--out", help="Folder of the report.")] = "questions",
    device: Device = None,
    config: ServeFile = None,
    settings: Settings = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Ask spoken questions in real sessions: is the answer right, was the oracle, and how soon was it said?

    Time is simulated: what the chat model, the recogniser and the voice take is measured once, kept in OUT/times.jsonl,
    and charged. The same command with the same --out goes on where it stopped, and gives the same figures.
    """
    with speaking_plainly(as_json):
        from data_schemas.config.questions import QuestionsConfig
        from flows.cli.progress import counting
        from flows.cli.serve import back_end_settings
        from kame_model.evaluate.questions import evaluate_questions
        from kame_model.evaluate.report import REPORT
        from kame_model.evaluate.served import condition_of

        built = build_calls(
            QuestionsConfig,
            config,
            {"checkpoint": checkpoint, "device": device, **back_end_settings(llm_url, llm_model, llm_provider, prompt)},
            (judge_url, judge_model, judge_provider),
            modes,
            delay_s,
            {
                "questions": questions,
                "path": path,
                "columns": None if columns is None else _columns(columns),
                "n_questions": n_questions,
                "seed": seed,
                "tts": tts,
                "recogniser": asr,
                "tail_s": tail_s,
            },
            settings,
        )
        rows = evaluate_questions(built, out, counting=partial(counting, quiet=as_json))
        if as_json:
            print_json(rows)
            return
        for row in rows:
            right = f"right {row['answer_accuracy']:.0%} heard, {row['answer_accuracy_text']:.0%} by its text"
            typer.echo(f"{condition_of(row).title} {row.get('category', '')} n={row['n']}: {right}")
        typer.echo(f"{out}/{REPORT} has the rest.")


def _columns(told: str) -> dict[str, str]:
    from data_schemas.errors import ConfigError

    pairs = dict(pair.partition("=")[::2] for pair in told.split(","))
    if not all(ours and theirs for ours, theirs in pairs.items()):
        raise ConfigError(f"--map {told} does not fit.", "Say --map question=COLUMN,answer=COLUMN.")
    return pairs
