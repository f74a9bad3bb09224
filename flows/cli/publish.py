"""`kame publish`: a dataset or a checkpoint to the Hugging Face Hub."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.terminal import AsJson, print_json, speaking_plainly

if TYPE_CHECKING:
    from data_schemas.publishing import Offer


def publish(
    folder: Annotated[str, typer.Argument(help="Folder of a dataset or of a checkpoint.")],
    repository: Annotated[str, typer.Argument(help="owner/name on the Hub; it is made where it does not exist.")],
    licence: Annotated[
        list[str],
        typer.Option("--licence", help="PART=LICENCE by its SPDX name, where the files do not tell it; repeatable."),
    ] = [],  # noqa: B006
    public: Annotated[bool, typer.Option("--public", help="Let all see a repository that is made by this.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put a dataset or a checkpoint on the Hugging Face Hub, with its card and licences; only what changed is sent.

    The token is taken from HF_TOKEN. What a licence forbids, or leaves unknown, is not published. Running it again goes
    on, and brings the repository up to date.
    """
    with speaking_plainly(as_json, "Run the same command again; what is there already is not sent twice."):
        from dataclasses import asdict

        from data_schemas.publishing import publish as send
        from flows.cli.progress import show_count

        _show_one_bar()
        offer = _offer(folder, repository, dict(map(_parse_licence, licence)))
        with show_count("publishing", len(offer.files) + len(offer.last), quiet=as_json) as advance:
            done = send(repository, offer, public=public, on_file=advance)
        if as_json:
            print_json({"kind": offer.kind, **asdict(done)})
            return
        typer.echo(
            f"{done.url}: {done.n_sent} files sent, {done.n_there} were there already, {done.n_removed} removed."
        )


def _show_one_bar() -> None:
    """Ours counts files; the Hub's client would show one a file beside it."""
    try:
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ImportError:
        return  # which is told with the way to install it, once the folder is known to be fit
    disable_progress_bars()


def _offer(folder: str, repository: str, told: dict[str, str]) -> "Offer":
    """What a folder holds, as the Hub is to hold it.

    Raises:
        KameError: it is neither a dataset nor a checkpoint, or must not be published.
    """
    from data_schemas.errors import ConfigError
    from data_schemas.manifest import MANIFEST

    if (Path(folder) / MANIFEST).is_file():
        from pipelines.export.hub import offer_dataset

        return offer_dataset(folder, repository, told)
    if (Path(folder) / "kame.json").is_file():
        from kame_model.checkpoint.publish import offer_checkpoint

        return offer_checkpoint(folder, repository, told)
    raise ConfigError(
        f"{folder} is neither a dataset nor a checkpoint.",
        "Name what `kame refresh` or `kame checkpoint export` wrote.",
    )


def _parse_licence(text: str) -> tuple[str, str]:
    from data_schemas.errors import ConfigError

    part, equals, licence = text.partition("=")
    if not (part.strip() and equals and licence.strip()):
        raise ConfigError(f"--licence {text} names no part, or no licence.", "Write PART=LICENCE, as `voice x=MIT`.")
    return part.strip(), licence.strip()
