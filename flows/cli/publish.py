"""`kame publish`: uploads a dataset or a checkpoint to the Hugging Face Hub."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.terminal import AsJson, print_json, report_errors

if TYPE_CHECKING:
    from data_schemas.publishing import RepositoryContents


def publish(
    folder: Annotated[str, typer.Argument(help="Folder of a dataset or of a checkpoint, or s3://… of a dataset.")],
    repository: Annotated[
        str, typer.Argument(help="owner/name on the Hub; the repository is created if it does not exist.")
    ],
    licence: Annotated[
        list[str],
        typer.Option(
            "--licence",
            help="PART=LICENCE: licence (SPDX identifier) of a part whose files state none; parts: questions of SET, "
            "voice NAME of ENGINE, token rows FINGERPRINT, weights of NAME, codec. Can be repeated.",
        ),
    ] = [],  # noqa: B006
    public: Annotated[
        bool, typer.Option("--public", help="Make the repository public if it is created here. Default: private.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Upload a dataset or a checkpoint to the Hugging Face Hub, with card and licences.

    Unchanged files are skipped, and files of an earlier upload that no longer belong to it are deleted from the Hub.
    The access token is read from HF_TOKEN. Data is not published if its licence is unknown or forbids publication.
    Run the same command again to resume the upload, or to update the repository. A dataset in a bucket is uploaded
    from the folder of this machine in which `kame refresh` made it.
    """
    with report_errors(as_json, "Run the same command again; files that are already there are not sent again."):
        from dataclasses import asdict

        from data_schemas.publishing import publish as send
        from flows.cli.progress import show_count

        _disable_bars_of_hub()
        contents = _collect_contents(folder, repository, dict(map(_parse_licence, licence)))
        with show_count("publishing", len(contents.files) + len(contents.last), quiet=as_json) as advance:
            done = send(repository, contents, public=public, on_file=advance)
        if as_json:
            print_json({"kind": contents.kind, **asdict(done)})
            return
        typer.echo(f"{done.url}: {done.n_sent} files uploaded, {done.n_there} unchanged, {done.n_removed} removed.")


def _disable_bars_of_hub() -> None:
    """Disables the progress bars of the Hub's client, one per file; the command has one that counts the files."""
    try:
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ImportError:
        return  # reported later, with the command that installs it
    disable_progress_bars()


def _collect_contents(folder: str, repository: str, licences: dict[str, str]) -> "RepositoryContents":
    """Returns the files of a dataset or checkpoint that are to be published.

    Args:
        licences: licences by part, as given by --licence.

    Raises:
        KameError: the folder holds neither, or must not be published.
    """
    from data_schemas.buckets import is_in_bucket
    from data_schemas.errors import ConfigError
    from data_schemas.manifest import MANIFEST

    if is_in_bucket(folder):
        from pipelines.run.mirror import find_local_copy

        folder = find_local_copy(folder)
    if (Path(folder) / MANIFEST).is_file():
        from pipelines.export.hub import collect_dataset_files

        return collect_dataset_files(folder, repository, licences)
    if (Path(folder) / "kame.json").is_file():
        from kame_model.checkpoint.publish import collect_checkpoint_files

        return collect_checkpoint_files(folder, repository, licences)
    raise ConfigError(
        f"{folder} is neither a dataset nor a checkpoint.",
        "Give a folder that `kame refresh` or `kame checkpoint export` wrote.",
    )


def _parse_licence(text: str) -> tuple[str, str]:
    """Parses `PART=LICENCE` to (part, licence).

    Raises:
        ConfigError: one of the two is missing.
    """
    from data_schemas.errors import ConfigError

    part, equals, licence = text.partition("=")
    if not (part.strip() and equals and licence.strip()):
        raise ConfigError(f"--licence {text} has no part or no licence.", "Write PART=LICENCE, such as 'codec=MIT'.")
    return part.strip(), licence.strip()
