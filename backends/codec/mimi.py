"""Mimi, Kyutai's streaming codec, by moshi's own loader: from a file, or from the Hugging Face Hub."""

from pathlib import Path

from pydantic import Field

from backends.codec.folder import KWARGS, WEIGHTS, load_model, read_kwargs
from backends.codec.moshi_codec import MoshiCodec, choose_device
from backends.options import FilePath, Options
from data_schemas import ids
from data_schemas.errors import BackendError, ConfigError


class MimiOptions(Options):
    """Options for the weights, the number of codebooks and the device."""

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
    """Mimi: 24 kHz, 12.5 frames per second, codebooks of 2,048 entries.

    Its transformers run at 25 Hz over the last 250 positions. When streaming, the first of a frame's two positions sees
    one position less (moshi's ring buffer of keys takes both before either attends), so that after 10 s a few codes
    differ from those of the whole recording.

    Raises:
        ConfigError: the file or the device does not exist, or the model has fewer codebooks than requested.
        BackendError: the download fails, or the file is not a Mimi.
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
    """Returns the paths of the weights and, if there are any, the keyword arguments, by their names in a folder.

    Raises:
        ConfigError: there is no file of weights.
        BackendError: the weights cannot be downloaded.
    """
    files = {WEIGHTS: Path(options.path) if options.path else _download_weights(options)}
    if (folder := files[WEIGHTS]).is_dir():
        files = {name: folder / name for name in (WEIGHTS, KWARGS) if name == WEIGHTS or (folder / name).is_file()}
    if not files[WEIGHTS].is_file():
        raise ConfigError(f"There is no file {files[WEIGHTS]}.", "Set Mimi's safetensors file, or leave path empty.")
    return files | ({KWARGS: Path(options.kwargs)} if options.kwargs else {})


def _download_weights(options: MimiOptions) -> Path:
    """Downloads the weights from the Hub, if they are not in its cache, and returns their path.

    Raises:
        BackendError: the download fails.
    """
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    from moshi.models import loaders

    try:
        return Path(loaders.hf_get(loaders.MIMI_NAME, options.repo))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise BackendError(
            f"Cannot download Mimi of {options.repo} from the Hub: {str(error).splitlines()[0]}",
            "Check the network, or download the file and set it: path=FILE.",
        ) from error
