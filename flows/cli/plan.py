"""`kame plan` and `kame bench`: estimate time, memory, storage and cost of a run, from rates that are measured."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.config import ConfigFile, ProfileName
from flows.cli.refresh import (
    Licences,
    Limit,
    LlmModel,
    LlmProvider,
    LlmUrl,
    Maps,
    Pictures,
    Settings,
    Simulator,
    SourceOptions,
    Sources,
    Variants,
    Workers,
)
from flows.cli.terminal import AsJson, print_json, report_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from data_schemas.rates import PlanFigure

UNKNOWN = "unknown"


def plan(
    dialogues: Annotated[
        list[str],
        typer.Option(
            "--dialogues",
            help="NAME=NUMBER: number of dialogues of a source. Default: the corpus of KAME's paper. Can be repeated.",
        ),
    ] = [],  # noqa: B006 - Typer reads the default
    source: Sources = [],  # noqa: B006
    column_map: Maps = [],  # noqa: B006
    source_option: SourceOptions = [],  # noqa: B006
    licence: Licences = [],  # noqa: B006
    pictures: Pictures = [],  # noqa: B006
    limit: Limit = None,
    variants: Variants = None,
    profile: ProfileName = "embedded",
    config: ConfigFile = None,
    workers: Workers = None,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    llm_provider: LlmProvider = None,
    simulator: Simulator = None,
    settings: Settings = [],  # noqa: B006
    rates: Annotated[
        Path | None,
        typer.Option("--rates", help="File of measured rates. Default: the file that `kame bench` wrote here."),
    ] = None,
    preset: Annotated[
        list[str],
        typer.Option("--preset", help="Preset (size) whose training is estimated. Default: all. Can be repeated."),
    ] = [],  # noqa: B006
    device: Annotated[
        list[str],
        typer.Option(
            "--device", help="cpu, or the name of a GPU: H200, H100, A100, … Default: cpu and H200. Can be repeated."
        ),
    ] = [],  # noqa: B006
    gpus: Annotated[int, typer.Option("--gpus", min=1, help="Number of GPUs that train one model.")] = 1,
    stage: Annotated[
        str | None, typer.Option("--stage", help="Estimate the training of this stage only. Default: all stages.")
    ] = None,
    train_settings: Annotated[
        list[str], typer.Option("--train-set", help="Setting of the training, such as max_steps=200. Can be repeated.")
    ] = [],  # noqa: B006
    actual: Annotated[
        str | None,
        typer.Option(
            "--actual", help="Folder of a dataset: compare the estimate and the actual figures of its last run."
        ),
    ] = None,
    formulas: Annotated[bool, typer.Option("--formulas", help="Show how each figure is calculated.")] = False,
    as_json: AsJson = False,
) -> None:
    """Estimate the time, memory, storage and cost of a dataset, its training and its serving before they are started.

    With --source, the items of the question sets are counted. Without it, the numbers given by --dialogues are used, by
    default the 56,582 dialogues of KAME's paper.
    """
    with report_errors(as_json, how_to_resume=""):
        from data_schemas.presets import PRESETS
        from flows.runs.plan import (
            check_device,
            convert_to_rows,
            count_items,
            open_rates,
            parse_sizes,
            plan_dataset,
            plan_training,
            read_comparison,
        )
        from flows.settings import build_config, make_chat_settings, parse_settings, parse_sources
        from pipelines.run.estimate import count_dialogues

        if actual is not None:
            run, compared = read_comparison(actual)
            if as_json:
                print_json({"run": run, "plan": compared})
            else:
                print_comparison(run, compared)
            return
        typed = {
            "limit": limit,
            "variants": variants,
            "workers": workers,
            "oracle.simulator": simulator,
            "oracle.version": simulator if simulator == "random" else None,
            "sources": parse_sources(source, column_map, licence, pictures, source_option) or None,
            **make_chat_settings("chat", llm_url, llm_model, llm_provider),
            **parse_settings(settings),
        }
        built, book = build_config(profile, config, typed), open_rates(rates)
        if built.sources and not dialogues:
            sizes = count_dialogues(built, count_items(built), book)
        else:
            sizes = parse_sizes(dialogues)
        devices = list(dict.fromkeys(check_device(each, book) for each in device or ["cpu", "H200"]))
        figures = plan_dataset(built, book, sizes, [each for each in devices if each != "cpu"])
        if not as_json:
            print_figures(figures, formulas)  # before those of training, which take longer to compute
        given = parse_settings(train_settings, "--train-set")
        trained = [
            figure
            for name in preset or [*PRESETS]
            for each in devices
            for figure in plan_training(name, book, each, 1 if each == "cpu" else gpus, stage=stage, typed=given)
        ]
        if not as_json:
            print_figures(trained, formulas)
            return
        rows = convert_to_rows([*figures, *trained])
        print_json({"figures": rows, "rates": [str(each.origin) for each in book.rates]})


def measure_rates(
    source: Sources = [],  # noqa: B006
    column_map: Maps = [],  # noqa: B006
    source_option: SourceOptions = [],  # noqa: B006
    licence: Licences = [],  # noqa: B006
    pictures: Pictures = [],  # noqa: B006
    n_dialogues: Annotated[
        int, typer.Option("--dialogues", min=2, max=1000, help="Number of dialogues of each source to synthesise.")
    ] = 3,
    profile: ProfileName = "embedded",
    config: ConfigFile = None,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    llm_provider: LlmProvider = None,
    simulator: Simulator = None,
    settings: Settings = [],  # noqa: B006
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            help="Front-end whose codec, training and server steps are measured. Default: the included nano.",
        ),
    ] = None,
    with_training: Annotated[
        bool, typer.Option("--training/--no-training", help="Whether training is measured as well.")
    ] = True,
    device: Annotated[
        list[str],
        typer.Option(
            "--device",
            help="cpu, cuda or auto: device on which codec, training and server steps are measured. Can be repeated.",
        ),
    ] = ["cpu"],  # noqa: B006
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write the rates to. Default: the file that `kame plan` reads.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Benchmark this machine in about two minutes: the stages of a run, the codec, training, and steps of a server.

    Without --source, the sample questions of the project are used, so the figures do not reflect the length of your own
    dialogues.
    """
    with report_errors(as_json, how_to_resume=""):
        import time

        from data_schemas.errors import ConfigError
        from flows.runs.bench import run_bench
        from flows.runs.plan import get_own_rates_path, save_rates
        from flows.settings import (
            build_config,
            default_to_samples,
            find_shipped_checkpoint,
            make_chat_settings,
            parse_settings,
            parse_sources,
        )

        sources = parse_sources(source, column_map, licence, pictures, source_option) or None
        typed = {
            "oracle.simulator": simulator,
            "oracle.version": simulator if simulator == "random" else None,
            "sources": sources,
            **make_chat_settings("chat", llm_url, llm_model, llm_provider),
            **parse_settings(settings),
        }
        built = build_config(profile, config, typed)
        is_sample = not built.sources
        trained = (checkpoint or find_shipped_checkpoint()) if with_training else None
        if with_training and trained is None:
            raise ConfigError(
                "No checkpoint is given, and the included one (examples/checkpoints/nano) does not exist.",
                "Give --checkpoint, or measure no training: --no-training.",
            )
        begun_s = time.monotonic()
        rates = run_bench(
            default_to_samples(built),
            n_dialogues,
            trained,
            lambda step: typer.echo(f"measuring {step} …", err=True),
            keeps_shapes=not is_sample,
            devices=list(dict.fromkeys(device)),
        )
        path = out or get_own_rates_path()
        save_rates(path, rates)
        taken_s = time.monotonic() - begun_s
        if as_json:
            print_json({"rates": str(path), "seconds": round(taken_s, 1), **rates.model_dump(mode="json")})
            return
        from flows.cli import show

        rows = [(each.step, each.engine, each.device, f"{each.seconds:.4g}", each.per) for each in rates.costs]
        head = ("step", "engine", "device", "seconds", "per")
        show.open_console().print(show.make_table("Processor seconds, or seconds on a GPU", head, rows))
        typer.echo(f"{path}: measured in {taken_s:.0f} s on {rates.origin.machine}. Next, run: kame plan")


def print_figures(figures: "Sequence[PlanFigure]", with_formulas: bool) -> None:
    """Prints a table for each section of an estimate, with the source of each figure and, if wanted, its formula."""
    from flows.cli import show

    console = show.open_console()
    for section in dict.fromkeys(each.section for each in figures):
        rows = [
            (each.title, format_value(each.value, each.unit), *([each.formula] if with_formulas else []), each.basis)
            for each in figures
            if each.section == section
        ]
        head = ("figure", "estimate", *(["formula"] if with_formulas else []), "source")
        console.print(show.make_table(section.capitalize(), head, rows))


def print_comparison(run: str, compared: "Mapping[str, Mapping[str, Any]]") -> None:
    """Prints the estimated and the actual figures of a run, and their ratio (estimate ÷ actual)."""
    from flows.cli import show

    rows = [
        (
            key,
            format_value(each["planned"], each["unit"]),
            format_value(each["actual"], each["unit"]),
            UNKNOWN if each["ratio"] is None else f"{each['ratio']:.2f}",
        )
        for key, each in compared.items()
    ]
    head = ("figure", "estimate", "actual", "estimate ÷ actual")
    show.open_console().print(show.make_table(run, head, rows))


def format_value(value: float | None, unit: str) -> str:
    """Formats a figure with a readable unit: hours from 3600 seconds on, GB for bytes; `unknown` for None.

    Hours, GB and US dollars have two decimals; all others are rounded to whole numbers.
    """
    if value is None:
        return UNKNOWN
    if unit == "s":
        return f"{value / 3600:,.2f} h" if value >= 3600 else f"{value:,.0f} s"
    if unit == "bytes":
        return f"{value / 1e9:,.2f} GB"
    if unit == "USD":
        return f"{value:,.2f} USD"
    return f"{value:,.0f} {unit}"
