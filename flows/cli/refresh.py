"""`kame refresh` and `kame preview`: build a configuration from the options, and run it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from flows.cli.config import ConfigFile, ProfileName
from flows.cli.field_help import make_field_option
from flows.cli.terminal import AsJson, print_json, report_errors
from pipelines.sources.registry import SOURCES

if TYPE_CHECKING:
    from data_schemas.config import RefreshConfig
    from data_schemas.manifest import Manifest
    from flows.runs.preview import Preview
    from flows.runs.record import RunRecord
    from pipelines.figures import Figures

FEW_VOICES = 20
"""With fewer user voices, a note is printed before the run: a front-end trained on few voices generalises badly."""

Sources = Annotated[
    list[str],
    typer.Option(
        "--source",
        help=f"Question set, as NAME or NAME=FILE: {', '.join(SOURCES)}, or your own set with --map. Can be repeated.",
    ),
]
Maps = Annotated[
    list[str],
    typer.Option(
        "--map",
        help="Columns of your own question set, as [NAME:]question=COLUMN,answer=COLUMN; also options, id, category, "
        "explanation and picture.",
    ),
]
SourceOptions = Annotated[
    list[str],
    typer.Option(
        "--source-option",
        help="Options of a question set, as [NAME:]option=value,…; `kame backends options source NAME` lists them.",
    ),
]
Licences = Annotated[
    list[str],
    typer.Option("--licence", help="NAME=LICENCE: licence of the questions, if it differs from the set's default."),
]
Pictures = Annotated[
    list[str], typer.Option("--pictures", help="NAME=FOLDER: folder of the pictures that the rows refer to (hssbench).")
]
Settings = Annotated[
    list[str],
    typer.Option(
        "--set", help="Any setting, such as forms.tail_share=0.3; `kame config show` lists all. Can be repeated."
    ),
]
Lexicon = Annotated[str | None, make_field_option("--lexicon", "data_schemas.config:ScriptConfig.lexicon")]
Limit = Annotated[int | None, make_field_option("--limit", "data_schemas.config:RefreshConfig.limit")]
Variants = Annotated[
    float | None,
    make_field_option("--variants", "data_schemas.config:RefreshConfig.variants", "With --profile gpu: 1.9."),
]
Seed = Annotated[int | None, make_field_option("--seed", "data_schemas.config:RefreshConfig.seed")]
Workers = Annotated[int | None, make_field_option("--workers", "data_schemas.config:RefreshConfig.workers")]
OnExecutor = Annotated[
    str | None, make_field_option("--executor", "data_schemas.config:RefreshConfig.executor", "See docs/clusters.md.")
]
LlmUrl = Annotated[
    str | None,
    typer.Option(
        "--llm-url",
        help="OpenAI-compatible base URL of the chat model, with /v1; several servers are separated by commas. The "
        "API key is read from KAME_LLM_API_KEY.",
    ),
]
LlmProvider = Annotated[
    str | None,
    typer.Option(
        "--llm-provider",
        help="Provider of the chat model: openai, azure, anthropic, google, vllm, llamacpp, ollama, or a YAML file.",
    ),
]
LlmModel = Annotated[
    str | None,
    typer.Option("--llm-model", help="Name of the chat model at that URL; without a URL, path to a GGUF file."),
]
OracleVersion = Annotated[str | None, make_field_option("--oracle-version", "data_schemas.config:OracleConfig.version")]
Simulator = Annotated[
    Literal["llm", "random"] | None, make_field_option("--simulator", "data_schemas.config:OracleConfig.simulator")
]
EvaluationSets = Annotated[
    list[str],
    typer.Option(
        "--evaluation-set",
        help="File of evaluation questions, which are rejected from the dataset (decontamination). Can be repeated.",
    ),
]


def refresh(
    source: Sources = [],  # noqa: B006 - Typer reads the default
    column_map: Maps = [],  # noqa: B006
    source_option: SourceOptions = [],  # noqa: B006
    licence: Licences = [],  # noqa: B006
    pictures: Pictures = [],  # noqa: B006
    limit: Limit = None,
    variants: Variants = None,
    lexicon: Lexicon = None,
    out: Annotated[
        str | None,
        make_field_option(
            "--out",
            "data_schemas.config:RefreshConfig.out",
            "It can be s3://BUCKET/PREFIX or gs://BUCKET/PREFIX (gs:// support is experimental; see docs/stores.md).",
        ),
    ] = None,
    profile: ProfileName = "embedded",
    config: ConfigFile = None,
    seed: Seed = None,
    workers: Workers = None,
    executor: OnExecutor = None,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    llm_provider: LlmProvider = None,
    budget_usd: Annotated[
        float | None, typer.Option("--budget-usd", help="Maximum cost of new answers of chat models, in US dollars.")
    ] = None,
    budget_tokens: Annotated[
        int | None, typer.Option("--budget-tokens", help="Maximum number of input and output tokens of new answers.")
    ] = None,
    oracle_version: OracleVersion = None,
    simulator: Simulator = None,
    evaluation_set: EvaluationSets = [],  # noqa: B006
    settings: Settings = [],  # noqa: B006
    prefect: Annotated[
        bool, typer.Option("--prefect", help="Run as a Prefect flow; the dataset is the same, byte for byte.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a dataset of spoken dialogues, or refresh one.

    Run the same command again to resume; unchanged parts are reused.
    """
    with report_errors(as_json):
        from flows.settings import build_config, make_chat_settings, parse_settings, parse_sources

        typed = {
            "limit": limit,
            "variants": variants,
            "out": out,
            "seed": seed,
            "workers": workers,
            "executor": executor,
            "script.lexicon": lexicon,
            "oracle.version": oracle_version,
            "oracle.simulator": simulator,
            "budget.usd": budget_usd,
            "budget.tokens": budget_tokens,
            "evaluation_sets": evaluation_set or None,
            "sources": parse_sources(source, column_map, licence, pictures, source_option) or None,
            **make_chat_settings("chat", llm_url, llm_model, llm_provider),
            **parse_settings(settings),
        }
        _refresh_and_print(build_config(profile, config, typed), prefect, as_json)


def _refresh_and_print(config: "RefreshConfig", prefect: bool, as_json: bool) -> None:
    """Makes or refreshes a dataset, with Prefect or in a plain loop, and prints its figures."""
    from flows.cli.progress import RefreshBars
    from flows.runs.refresh import run_refresh

    _warn_of_few_voices(config)
    if prefect:
        from flows.refresh import run_as_flow

        record, manifest, figures = run_as_flow(config)
    else:
        with RefreshBars(quiet=as_json) as bars:
            record, manifest, figures = run_refresh(config, bars)
    print_dataset(config.out, record, manifest, figures, as_json)


def print_dataset(out: str, record: "RunRecord", manifest: "Manifest", figures: "Figures", as_json: bool) -> None:
    """Prints the figures of a dataset, and on standard error the notices of the run that made it."""
    from flows.cli import show

    for notice in _list_notices(record, figures):
        typer.echo(f"kame: {notice}", err=True)
    if as_json:
        print_json({"out": out, "fingerprint": manifest.fingerprint, **manifest.counts.model_dump()})
        return
    console = show.open_console()
    console.print(show.render_figures(figures))
    console.print(f"\nDataset: {out} (fingerprint {manifest.fingerprint}); card: {out}/README.md")


def _list_notices(record: "RunRecord", figures: "Figures") -> Iterator[str]:
    """Yields a sentence about items that were skipped, items kept from earlier runs, and oracle events that failed."""
    for name, left in record.languages_left.items():
        counts = ", ".join(f"{n} in {language}" for language, n in sorted(left.items()))
        yield f"Questions of {name} in other languages were skipped: {counts}. Option `languages` selects them."
    if record.n_kept:
        yield f"{record.n_kept} items of earlier runs, which were not read now, are still in the dataset."
    if n_failed := figures.statuses["failed"]:
        yield f"{n_failed} oracle events failed. Run the same command again to retry the requests that failed."


def _warn_of_few_voices(config: "RefreshConfig") -> None:
    """Prints a note if users will have fewer voices than `FEW_VOICES`, unless the voices are configured."""
    from pipelines.run.stages import list_user_voices

    n_voices = len(list_user_voices(config))
    if config.speech.voices_b is None and n_voices < FEW_VOICES:
        typer.echo(
            f"note: users have only {n_voices} voices; {FEW_VOICES} or more are better. To download Kokoro's, run: "
            "make voices",
            err=True,
        )


def preview(
    source: Sources = [],  # noqa: B006
    column_map: Maps = [],  # noqa: B006
    source_option: SourceOptions = [],  # noqa: B006
    licence: Licences = [],  # noqa: B006
    out: Annotated[str, typer.Option("--out", help="Folder for the WAV files.")] = "preview",
    profile: ProfileName = "embedded",
    config: ConfigFile = None,
    seed: Seed = None,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    llm_provider: LlmProvider = None,
    settings: Settings = [],  # noqa: B006
    n_dialogues: Annotated[int, typer.Option("--n", min=1, max=20, help="Number of dialogues to make.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Make a few dialogues of short questions and show their text, word timings and oracles, with WAV files.

    If a dialogue is rejected, the reason is shown, and another question is tried.
    """
    with report_errors(as_json):
        from flows.cli import show
        from flows.runs.preview import find_remedy
        from flows.runs.preview import preview as make
        from flows.settings import (
            build_config,
            default_to_samples,
            make_chat_settings,
            parse_settings,
            parse_sources,
        )

        sources = parse_sources(source, column_map, licence, options=source_option) or None
        chat = make_chat_settings("chat", llm_url, llm_model, llm_provider)
        typed = {"out": out, "seed": seed, **chat, "sources": sources, **parse_settings(settings)}
        built = default_to_samples(build_config(profile, config, typed))
        made = make(built, n_dialogues)
        if not as_json:
            console = show.open_console()
            for each in made.dialogues:
                console.print(
                    show.render_head(each.dialogue), show.render_words(each.dialogue), show.render_ladder(each.oracle)
                )
                console.print(f"Listen: {each.sound_file} (left: assistant, right: user)\n")
        elif made.dialogues:
            print_json([each.to_json() for each in made.dialogues])
        _report_missing(made, n_dialogues, find_remedy(built))


def _report_missing(made: "Preview", n_wanted: int, remedy: str) -> None:
    """Prints on standard error which dialogues of a preview were rejected and why, and how many were made.

    Args:
        remedy: what can be done about rejected dialogues.

    Raises:
        KameError: no dialogue was made.
    """
    from data_schemas.errors import KameError

    for each in made.rejected:
        found = each.reject
        typer.echo(f"kame: rejected as {found.reason}: {each.question} ({found.source}); {found.detail}", err=True)
    if not made.dialogues:
        raise KameError(f"All dialogues were rejected: {made.count_by_reason()}.", remedy)
    n_made, n_rejected = len(made.dialogues), len(made.rejected)
    if n_rejected:
        typer.echo(f"kame: made {n_made} of {n_wanted} dialogues, and rejected {n_rejected}. {remedy}", err=True)
    elif n_made < n_wanted:
        typer.echo(f"kame: made {n_made} of {n_wanted} dialogues: the sources have no more questions.", err=True)
