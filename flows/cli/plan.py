"""`kame plan` and `kame bench`: what a run will take, and the rates by which that is told."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.config import ConfigFile, ProfileName
from flows.cli.refresh import (
    Licences,
    LlmModel,
    LlmProvider,
    LlmUrl,
    Maps,
    Pictures,
    Settings,
    Simulator,
    SourceOptions,
    Sources,
    chat_settings,
)
from flows.cli.terminal import AsJson, print_json, speaking_plainly

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from data_schemas.rates import Figure

UNKNOWN = "unknown"


def plan(
    dialogues: Annotated[
        list[str], typer.Option("--dialogues", help="NAME=NUMBER of dialogues of a source; else the paper's corpus.")
    ] = [],  # noqa: B006 - Typer reads the default
    source: Sources = [],  # noqa: B006
    column_map: Maps = [],  # noqa: B006
    source_option: SourceOptions = [],  # noqa: B006
    licence: Licences = [],  # noqa: B006
    pictures: Pictures = [],  # noqa: B006
    limit: Annotated[int | None, typer.Option("--limit", help="Items read per source.")] = None,
    variants: Annotated[float | None, typer.Option("--variants", help="Dialogues an item, on average.")] = None,
    profile: ProfileName = "embedded",
    config: ConfigFile = None,
    workers: Annotated[int | None, typer.Option("--workers", help="Worker processes; 0: one a core.")] = None,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    llm_provider: LlmProvider = None,
    simulator: Simulator = None,
    settings: Settings = [],  # noqa: B006
    rates: Annotated[
        Path | None, typer.Option("--rates", help="Rates file; else this machine's of `kame bench`.")
    ] = None,
    preset: Annotated[
        list[str], typer.Option("--preset", help="Sizes whose training is planned, repeatable; else all.")
    ] = [],  # noqa: B006
    device: Annotated[
        list[str], typer.Option("--device", help="cpu or a GPU's name (H200, H100, A100 …), repeatable.")
    ] = [],  # noqa: B006
    gpus: Annotated[int, typer.Option("--gpus", min=1, help="GPUs that train together.")] = 1,
    stage: Annotated[str | None, typer.Option("--stage", help="Of training, one stage alone.")] = None,
    train_settings: Annotated[
        list[str], typer.Option("--train-set", help="A setting of training, e.g. max_steps=200.")
    ] = [],  # noqa: B006
    actual: Annotated[
        str | None, typer.Option("--actual", help="Dataset: shows what its last run planned and what it took.")
    ] = None,
    formulas: Annotated[bool, typer.Option("--formulas", help="Show how each figure was worked out.")] = False,
    as_json: AsJson = False,
) -> None:
    """What a corpus, its training and its serving will take, before anything is begun.

    With --source the items are counted; else for --dialogues, or the 56,582 dialogues of KAME's paper.
    """
    with speaking_plainly(as_json, goes_on=""):
        from data_schemas.presets import PRESETS
        from flows.runs.plan import (
            as_rows,
            check_device,
            count_items,
            open_rates,
            parse_sizes,
            plan_dataset,
            plan_training,
            read_comparison,
        )
        from flows.settings import build_config, parse_settings, parse_sources
        from pipelines.run.estimate import count_dialogues

        if actual is not None:
            run, compared = read_comparison(actual)
            if as_json:
                print_json({"run": run, "plan": compared})
            else:
                show_comparison(run, compared)
            return
        typed = {
            "limit": limit,
            "variants": variants,
            "workers": workers,
            "oracle.simulator": simulator,
            "oracle.version": simulator if simulator == "random" else None,
            "sources": parse_sources(source, column_map, licence, pictures, source_option) or None,
            **chat_settings(llm_url, llm_model, llm_provider),
            **parse_settings(settings),
        }
        built, book = build_config(profile, config, typed), open_rates(rates)
        if built.sources and not dialogues:
            sizes = count_dialogues(built, count_items(built), book)
        else:
            sizes = parse_sizes(dialogues)
        devices = list(dict.fromkeys(check_device(each, book) for each in device or ["cpu", "H200"]))
        figures = plan_dataset(built, book, sizes, [each for each in devices if each != "cpu"])
        given = parse_settings(train_settings, "--train-set")
        for name in preset or [*PRESETS]:
            for each in devices:
                n_devices = 1 if each == "cpu" else gpus
                figures += plan_training(name, book, each, n_devices, stage=stage, typed=given)
        if as_json:
            print_json({"figures": as_rows(figures), "rates": [str(each.origin) for each in book.rates]})
            return
        show_figures(figures, formulas)


def bench(
    source: Sources = [],  # noqa: B006
    column_map: Maps = [],  # noqa: B006
    source_option: SourceOptions = [],  # noqa: B006
    licence: Licences = [],  # noqa: B006
    pictures: Pictures = [],  # noqa: B006
    n_dialogues: Annotated[
        int, typer.Option("--dialogues", min=2, max=1000, help="Dialogues of each source that are spoken.")
    ] = 3,
    profile: ProfileName = "embedded",
    config: ConfigFile = None,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    llm_provider: LlmProvider = None,
    simulator: Simulator = None,
    settings: Settings = [],  # noqa: B006
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", help="A front-end whose codec, training and steps are measured.")
    ] = None,
    with_training: Annotated[bool, typer.Option("--training/--no-training", help="Measure training too.")] = True,
    out: Annotated[
        Path | None, typer.Option("--out", help="Rates file to write; else where `kame plan` looks.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure this machine in about two minutes: each step of a run, codec, training, a server's step.

    Without --source it measures on the project's own sample questions, which tell nothing of what your dialogues are
    like.
    """
    with speaking_plainly(as_json, goes_on=""):
        import time

        from flows.runs.bench import run_bench
        from flows.runs.plan import own_rates, save_rates
        from flows.settings import build_config, parse_settings, parse_sources, sample_sources, shipped_checkpoint

        sources = parse_sources(source, column_map, licence, pictures, source_option) or None
        typed = {
            "oracle.simulator": simulator,
            "oracle.version": simulator if simulator == "random" else None,
            "sources": sources,
            **chat_settings(llm_url, llm_model, llm_provider),
            **parse_settings(settings),
        }
        built = build_config(profile, config, typed)
        is_sample = not built.sources
        if is_sample:
            built = built.model_copy(update={"sources": sample_sources()})
        trained = (checkpoint or shipped_checkpoint()) if with_training else None
        begun_s = time.monotonic()
        rates = run_bench(
            built,
            n_dialogues,
            trained,
            lambda step: typer.echo(f"measuring {step} …", err=True),
            keeps_shapes=not is_sample,
        )
        path = out or own_rates()
        save_rates(path, rates)
        taken_s = time.monotonic() - begun_s
        if as_json:
            print_json({"rates": str(path), "seconds": round(taken_s, 1), **rates.model_dump(mode="json")})
            return
        from flows.cli import show

        rows = [(each.step, each.engine, f"{each.seconds:.4g}", each.per) for each in rates.costs]
        show.console().print(show.table("Processor seconds", ("step", "engine", "seconds", "for each"), rows))
        typer.echo(f"{path}: measured in {taken_s:.0f} s on {rates.origin.machine}. Next: kame plan")


def show_figures(figures: "Sequence[Figure]", with_formulas: bool) -> None:
    """A table a section; formulas and where rates come from behind them, where wanted."""
    from flows.cli import show

    console = show.console()
    for section in dict.fromkeys(each.section for each in figures):
        rows = [
            (each.title, write_value(each.value, each.unit), *([each.formula] if with_formulas else []), each.basis)
            for each in figures
            if each.section == section
        ]
        head = ("what", "how much", *(["worked out as"] if with_formulas else []), "by")
        console.print(show.table(section.capitalize(), head, rows))


def show_comparison(run: str, compared: "Mapping[str, Mapping[str, Any]]") -> None:
    """Planned beside actual of a run, with planned over actual."""
    from flows.cli import show

    rows = [
        (
            key,
            write_value(each["planned"], each["unit"]),
            write_value(each["actual"], each["unit"]),
            UNKNOWN if each["ratio"] is None else f"{each['ratio']:.2f}",
        )
        for key, each in compared.items()
    ]
    show.console().print(show.table(run, ("figure", "planned", "actual", "planned ÷ actual"), rows))


def write_value(value: float | None, unit: str) -> str:
    """A figure's value as people read it."""
    if value is None:
        return UNKNOWN
    if unit == "s":
        return f"{value / 3600:,.2f} h" if value >= 3600 else f"{value:,.0f} s"
    if unit == "bytes":
        return f"{value / 1e9:,.2f} GB"
    if unit == "USD":
        return f"{value:,.2f} USD"
    return f"{value:,.0f} {unit}"
