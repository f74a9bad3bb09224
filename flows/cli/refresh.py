"""`kame refresh` and `kame preview`: what was typed to a configuration, and a run of it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.config import ConfigFile, ProfileName
from flows.cli.terminal import AsJson, print_json, speaking_plainly
from pipelines.sources.registry import SOURCES

if TYPE_CHECKING:
    from data_schemas.config import RefreshConfig
    from data_schemas.manifest import Manifest
    from flows.runs.record import RunRecord
    from pipelines.figures import Figures

FEW_VOICES = 20
"""Fewer voices of users than these are told of before a run: a front-end that heard few knows few."""

Sources = Annotated[
    list[str], typer.Option("--source", help=f"NAME or NAME=FILE; {', '.join(SOURCES)}, or your own with --map.")
]
Maps = Annotated[
    list[str],
    typer.Option("--map", help="[NAME:]field=column,…: question=q,answer=a[,options=…,id=…] of your own source."),
]
SourceOptions = Annotated[
    list[str],
    typer.Option("--source-option", help="[NAME:]option=value,…; `kame backends options source NAME` lists them."),
]
Licences = Annotated[
    list[str], typer.Option("--licence", help="NAME=LICENCE of a source's questions, where it is not the usual one.")
]
Pictures = Annotated[
    list[str], typer.Option("--pictures", help="NAME=FOLDER of the pictures that a source's rows name (hssbench).")
]
Settings = Annotated[
    list[str], typer.Option("--set", help="Any setting, e.g. forms.tail_share=0.3; `kame config show` lists them.")
]
Lexicon = Annotated[
    str | None,
    typer.Option(
        "--lexicon",
        help="TSV, comes first: written form, words said for it, and at will how voice and aligner spell them.",
    ),
]
Limit = Annotated[int | None, typer.Option("--limit", help="Items read per source, before rejection.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of every choice.")]
Workers = Annotated[int | None, typer.Option("--workers", help="Processes for speech and alignment; 0: one a core.")]
OnExecutor = Annotated[
    str | None,
    typer.Option("--executor", help="Where those run: local, dask://HOST:PORT or ray://HOST:PORT (docs/clusters.md)."),
]
LlmUrl = Annotated[
    str | None,
    typer.Option(
        "--llm-url", help="OpenAI-compatible base URL with /v1, several with commas between; the key: KAME_LLM_API_KEY."
    ),
]
LlmProvider = Annotated[
    str | None,
    typer.Option("--llm-provider", help="openai, azure, anthropic, google, vllm, llamacpp, ollama or a file."),
]
LlmModel = Annotated[str | None, typer.Option("--llm-model", help="Model at that URL, or a GGUF file without one.")]
OracleVersion = Annotated[str | None, typer.Option("--oracle-version", help="Folder under oracles/ to write to.")]
Simulator = Annotated[str | None, typer.Option("--simulator", help="llm, or random: others' true answers.")]
EvaluationSets = Annotated[
    list[str], typer.Option("--evaluation-set", help="File of questions that must not be trained on; repeatable.")
]


def refresh(
    source: Sources = [],  # noqa: B006 - Typer reads the default
    column_map: Maps = [],  # noqa: B006
    source_option: SourceOptions = [],  # noqa: B006
    licence: Licences = [],  # noqa: B006
    pictures: Pictures = [],  # noqa: B006
    limit: Limit = None,
    variants: Annotated[float | None, typer.Option("--variants", help="Dialogues an item, on average.")] = None,
    lexicon: Lexicon = None,
    out: Annotated[
        str | None, typer.Option("--out", help="Folder of the dataset, or s3://BUCKET/PREFIX (docs/stores.md).")
    ] = None,
    profile: ProfileName = "embedded",
    config: ConfigFile = None,
    seed: Seed = None,
    workers: Workers = None,
    executor: OnExecutor = None,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    llm_provider: LlmProvider = None,
    budget_usd: Annotated[float | None, typer.Option("--budget-usd", help="Most that new answers may cost.")] = None,
    budget_tokens: Annotated[int | None, typer.Option("--budget-tokens", help="Most tokens of new answers.")] = None,
    oracle_version: OracleVersion = None,
    simulator: Simulator = None,
    evaluation_set: EvaluationSets = [],  # noqa: B006
    settings: Settings = [],  # noqa: B006
    prefect: Annotated[bool, typer.Option("--prefect", help="Run as a Prefect flow; the bytes are the same.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make or refresh a dataset. Running again resumes, and re-uses whatever has not changed."""
    with speaking_plainly(as_json):
        from flows.settings import build_config, parse_settings, parse_sources

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
            **chat_settings(llm_url, llm_model, llm_provider),
            **parse_settings(settings),
        }
        _refresh(build_config(profile, config, typed), prefect, as_json)


def _refresh(config: "RefreshConfig", prefect: bool, as_json: bool) -> None:
    """Runs a refresh and tells what came of it."""
    from flows.cli.progress import Bars
    from flows.runs.refresh import run_refresh

    _tell_of_few_voices(config)
    if prefect:
        from flows.refresh import run_as_flow

        record, manifest, figures = run_as_flow(config)
    else:
        with Bars(quiet=as_json) as bars:
            record, manifest, figures = run_refresh(config, bars)
    tell_dataset(config.out, record, manifest, figures, as_json)


def tell_dataset(out: str, record: "RunRecord", manifest: "Manifest", figures: "Figures", as_json: bool) -> None:
    """What a dataset has come to, and on the error stream what its reader may not expect of this run."""
    from flows.cli import show

    for notice in _list_notices(record, figures):
        typer.echo(f"kame: {notice}", err=True)
    if as_json:
        print_json({"out": out, "fingerprint": manifest.fingerprint, **manifest.counts.model_dump()})
        return
    console = show.console()
    console.print(show.show_figures(figures))
    console.print(f"\nDataset: {out} (fingerprint {manifest.fingerprint}); card: {out}/README.md")


def _list_notices(record: "RunRecord", figures: "Figures") -> Iterator[str]:
    """What was left out of the dataset, kept in it from before, or failed: a sentence each."""
    for name, left in record.languages_left.items():
        told = ", ".join(f"{language} {n}" for language, n in sorted(left.items()))
        yield f"{name} has questions in other languages that were left: {told}."
    if record.n_kept:
        yield f"{record.n_kept} items of earlier runs stay, beyond what was read now."
    if n_failed := figures.statuses["failed"]:
        yield f"{n_failed} oracle events failed; the same command asks again where a request did."


def _tell_of_few_voices(config: "RefreshConfig") -> None:
    """Says before hours of work that users will have few voices, where nobody chose them."""
    from pipelines.run.stages import list_user_voices

    n_voices = len(list_user_voices(config))
    if config.speech.voices_b is None and n_voices < FEW_VOICES:
        typer.echo(
            f"note: users have {n_voices} voices only; {FEW_VOICES} or more are better. Kokoro's come by: make voices",
            err=True,
        )


def preview(
    source: Sources = [],  # noqa: B006
    column_map: Maps = [],  # noqa: B006
    source_option: SourceOptions = [],  # noqa: B006
    licence: Licences = [],  # noqa: B006
    out: Annotated[str, typer.Option("--out", help="Folder for the wav files.")] = "preview",
    profile: ProfileName = "embedded",
    config: ConfigFile = None,
    seed: Seed = None,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    settings: Settings = [],  # noqa: B006
    n_dialogues: Annotated[int, typer.Option("--n", min=1, max=20, help="Dialogues to make.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Three dialogues of short questions, end to end: text, word times, oracle ladder, sound files."""
    with speaking_plainly(as_json):
        from flows.cli import show
        from flows.runs.preview import preview as make
        from flows.settings import build_config, parse_settings, parse_sources, sample_sources

        sources = parse_sources(source, column_map, licence, options=source_option) or None
        chat = chat_settings(llm_url, llm_model)
        typed = {"out": out, "seed": seed, **chat, "sources": sources, **parse_settings(settings)}
        built = build_config(profile, config, typed)
        if not built.sources:
            built = built.model_copy(update={"sources": sample_sources()})
        made = make(built, n_dialogues)
        if as_json:
            print_json([each.to_json() for each in made])
            return
        console = show.console()
        for each in made:
            console.print(show.show_head(each.dialogue), show.show_words(each.dialogue), show.show_ladder(each.oracle))
            console.print(f"Listen: {each.sound_file} (left: assistant, right: user)\n")


def chat_settings(url: str | None, model: str | None, provider: str | None = None) -> dict[str, str | None]:
    """What was typed of the chat model, as settings by dotted name; a URL or provider chooses the engine that calls."""
    called = {"chat.base_url": url, "chat.provider": provider, "chat.engine": "openai" if url or provider else None}
    return {**called, "chat.model": model}
