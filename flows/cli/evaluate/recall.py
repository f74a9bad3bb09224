"""`kame evaluate recall`: inference on held-out dialogues, and whether the model says what its oracle holds."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.evaluate.options import Again, Anew, Register
from flows.cli.terminal import AsJson, print_json, report_errors


def evaluate_recall(
    checkpoint: Annotated[
        str,
        typer.Argument(
            help="Folder of a checkpoint, or owner/name on the Hub; or a folder that `kame train` wrote, whose best "
            "weights are exported to a temporary folder. If it has several seeds, the first is used."
        ),
    ],
    tokens: Annotated[
        str, typer.Argument(help="Folder of token rows, which were encoded with the checkpoint's codec.")
    ],
    out: Annotated[str, typer.Option("--out", help="Folder of the report.")] = "evaluation",
    split: Annotated[
        list[str],
        typer.Option(
            "--split",
            help="Split to evaluate on: validation or train (can be repeated), or test alone. Evaluations on test are "
            "recorded, and a second one needs --again. Default: validation.",
        ),
    ] = [],  # noqa: B006
    n_items: Annotated[
        int,
        typer.Option("--n", min=1, help="Maximum number of items, alternating between sources; one dialogue per item."),
    ] = 150,
    delay_s: Annotated[
        list[float],
        typer.Option(
            "--delay-s",
            min=0,
            help="Delay of the back-end in seconds. Can be repeated. Default: 0.1, 0.32, 1, 2 and 3.",
        ),
    ] = [],  # noqa: B006
    channel: Annotated[
        list[str],
        typer.Option(
            "--channel",
            help="Also evaluate with degraded user audio: noise-20-db, noise-10-db, noise-5-db, room, telephone, "
            "recoded (encoded twice), or all. Can be repeated.",
        ),
    ] = [],  # noqa: B006
    voices: Annotated[
        str | None,
        typer.Option("--voices", help="Also evaluate on these token rows: the same dialogues, other user voices."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the sampling.")] = 0,
    listen: Annotated[
        bool, typer.Option("--listen", help="Transcribe the decoded audio by a recogniser as well.")
    ] = False,
    again: Again = False,
    register: Register = None,
    anew: Anew = False,
    record: Annotated[
        bool, typer.Option("--record", help="Write the results to the checkpoint's kame.json and model card.")
    ] = False,
    device: Annotated[str, typer.Option("--device", help="cpu, cuda, or auto: cuda if available.")] = "auto",
    settings: Annotated[
        list[str],
        typer.Option("--set", help="Any setting of the evaluation, such as sampling.temp_text=0.3. Can be repeated."),
    ] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Evaluate recall on held-out dialogues: does the model say its oracle's answer, with delays and in noise?"""
    with report_errors(as_json):
        from data_schemas.config.recall import RecallConfig, list_channels
        from data_schemas.errors import ConfigError
        from flows.cli.progress import show_count
        from flows.runs.evaluate import make_recall_delays, run_recall
        from flows.settings import build, parse_settings
        from kame_model.checkpoint.export import record_free_running
        from kame_model.evaluate.recall.evaluate import format_row, list_free_shares
        from kame_model.evaluate.report.folder import REPORT
        from kame_model.train.run_folder import find_run

        typed = {
            "splits": split or ["validation"],
            "n_items": n_items,
            "seed": seed,
            **make_recall_delays(delay_s),
            "channels": list_channels() if "all" in channel else channel or None,
        }
        config = build(RecallConfig, {}, typed, parse_settings(settings))
        found = find_run(checkpoint)
        folder = Path(checkpoint).expanduser()
        if record and (found is not None or not folder.is_dir()):
            raise ConfigError(
                f"{checkpoint} is not a checkpoint's folder, so --record cannot write into it.",
                "Export or download the checkpoint first, or omit --record.",
            )
        if found is not None:
            typer.echo(f"kame: evaluating {found}", err=True)
        rows = run_recall(
            checkpoint,
            tokens,
            config,
            out,
            partial(show_count, quiet=as_json),
            voices=voices,
            listens=listen,
            register=register,
            again=again,
            anew=anew,
            device=device,
        )
        if record:
            record_free_running(folder, list_free_shares(rows))
        if as_json:
            print_json(rows)
            return
        for row in rows:
            typer.echo(format_row(row))
        typer.echo(f"Report: {out}/{REPORT}")
