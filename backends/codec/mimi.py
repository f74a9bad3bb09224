"""Mimi, Kyutai's streaming codec, by moshi's own loader: from a file, or from the Hugging Face Hub."""

from pathlib import Path

from pydantic import Field

from backends.codec.folder import KWARGS, WEIGHTS, load_model, read_kwargs
from backends.codec.moshi_codec import MoshiCodec, choose_device
from backends.options import FilePath, Options
from data_schemas import ids
from data_schemas.errors import BackendError, ConfigError


class MimiOptions(Options):
    """Which Mimi, and how much of it is used."""

    path: FilePath = Field(
        default="",
        description="File of weights (safetensors), or a folder with mimi.safetensors, and mimi.json where it is of "
        "another shape; empty: from the Hub.",
    )
    repo: str = Field(default="kyutai/moshiko-pytorch-bf16", description="Repository on the Hub that holds Mimi.")
    kwargs: FilePath = Field(
        default="",
        description="JSON of moshi's keyword arguments, of a Mimi of another shape; empty: the folder's or Mimi's own.",
    )
    n_codebooks: int = Field(default=8, ge=2, le=32, description="Codebooks used, the first of Mimi's 32; Moshi: 8.")
    device: str = Field(default="auto", description="cpu, cuda, or auto: cuda where there is one.")


class Mimi(MoshiCodec):
    """Mimi: 24 kHz, 12.5 frames a second, 2,048 entries a codebook.

    Its transformers run at 25 Hz over the last 250 positions. Streamed, the first of a frame's two positions sees one
    position less (moshi's ring of keys takes both before either looks back), so that after 10 s a rare code differs
    from a whole encoding's.

    Raises:
        ConfigError: the file or the device is not there, or it has fewer codebooks than were asked for.
        BackendError: the Hub does not give the file, or it is no Mimi.
    """

    name = "mimi"

    def __init__(self, options: MimiOptions) -> None:
        from moshi.models import loaders

        device, files = choose_device(options.device), _find_files(options)
        weights = files[WEIGHTS]
        kwargs = read_kwargs(files[KWARGS]) if KWARGS in files else dict(loaders._mimi_config)
        model = load_model(weights, kwargs, options.n_codebooks, device)
        digest = ids.digest("mimi", ids.compute_sha256(weights), kwargs, options.n_codebooks)
        super().__init__(model, kwargs, digest, device, files)


def _find_files(options: MimiOptions) -> dict[str, Path]:
    """Its weights, and its keyword arguments where it has some of its own, by their names in a folder."""
    files = {WEIGHTS: Path(options.path) if options.path else _fetch(options)}
    if (folder := files[WEIGHTS]).is_dir():
        files = {name: folder / name for name in (WEIGHTS, KWARGS) if name == WEIGHTS or (folder / name).is_file()}
    if not files[WEIGHTS].is_file():
        raise ConfigError(f"There is no file {files[WEIGHTS]}.", "Name Mimi's safetensors file, or leave path empty.")
    return files | ({KWARGS: Path(options.kwargs)} if options.kwargs else {})


def _fetch(options: MimiOptions) -> Path:
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    from moshi.models import loaders

    try:
        return Path(loaders.hf_get(loaders.MIMI_NAME, options.repo))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise BackendError(
            f"The Hub did not give Mimi of {options.repo}: {str(error).splitlines()[0]}",
            "Look at the network, or fetch the file and name it: path=FILE.",
        ) from error
