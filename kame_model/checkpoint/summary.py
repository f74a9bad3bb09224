"""Summarises a checkpoint from its headers and configuration; no tensor is read."""

from pathlib import Path
from typing import Any, Final, NamedTuple

from kame_model.checkpoint.files import read_header
from kame_model.checkpoint.folder import ORACLE_KEY, locate_checkpoint, read_contents
from kame_model.checkpoint.kame_json import KameJson

FIGURES: Final = {
    "loss": "loss that was minimised",
    "text": "loss of words",
    "answer": "loss of the answer's words",
    "padding": "loss of padding between words",
    "semantic": "loss of the first codebook",
    "acoustic": "loss of the other codebooks",
    "text_right": "accuracy of words",
    "answer_right": "accuracy of the answer's words",
    "text_fed": "loss of words, frames with an oracle",
    "padding_fed": "loss of padding, frames with an oracle",
    "semantic_fed": "loss of the first codebook, frames with an oracle",
    "acoustic_fed": "loss of the other codebooks, frames with an oracle",
}
"""What each figure of a validation is, by its name in `metrics.jsonl` (`kame_model.model.loss.METRICS`)."""


class Summary(NamedTuple):
    """Summary of a checkpoint.

    Attributes:
        name: folder or repository.
        n_parameters: number of parameters in the file of weights.
        n_bytes: size of that file.
        dtypes: number of parameters of each type, named as in safetensors (F32, BF16).
        has_oracle: whether there is an oracle table; without one it is a plain Moshi.
        lm_kwargs: keyword arguments of moshi's `LMModel`.
        facts: `kame.json`; None if the checkpoint was not exported by kame.
    """

    name: str
    n_parameters: int
    n_bytes: int
    dtypes: dict[str, int]
    has_oracle: bool
    lm_kwargs: dict[str, Any]
    facts: KameJson | None

    @property
    def n_weights(self) -> int:
        """Number of weights of the model: without tables of the file that are copied or computed from others."""
        n_weights, facts, dim = self.n_parameters, self.facts, self.lm_kwargs["dim"]
        if facts is not None and facts.tie_text_head:
            n_weights -= facts.text_card * dim
        if facts is not None and facts.oracle == "tied":  # a projection and a shift make its table
            n_weights += dim * dim + dim - (facts.text_card + 1) * dim
        return int(n_weights)

    def to_json(self) -> dict[str, Any]:
        """Returns the summary as JSON values."""
        return {**self._asdict(), "facts": None if self.facts is None else self.facts.model_dump(mode="json")}

    def format_rows(self) -> list[tuple[str, str]]:
        """Returns label and value of each property, for display."""
        kwargs, facts = self.lm_kwargs, self.facts
        rows = [
            ("parameters", f"{self.n_parameters / 1e6:,.1f} million, {' and '.join(self.dtypes)}"),
            ("shape", f"{kwargs['dim']} wide, {kwargs['num_layers']} layers, {kwargs['num_heads']} heads"),
            ("codebooks of a voice", f"{kwargs['dep_q']} of {kwargs['card']} entries"),
            ("vocabulary", f"{kwargs['text_card']} pieces"),
            ("oracle", "a table of its own" if self.has_oracle else "none: a plain Moshi"),
        ]
        if facts is None:
            return [*rows, ("written by", "others: there is no kame.json")]
        training = facts.training
        rows += [
            ("preset", facts.preset),
            ("trained", f"{training.step} steps, stage {training.stage or 'not named'}, oracle {facts.oracle}"),
            ("started from", training.init_from or "random weights"),
            ("token rows", ", ".join(training.data) or "none named"),
            ("codec", f"{'not in the folder' if facts.codec is None else facts.codec.name} {facts.codec_digest or ''}"),
            ("tokenizer", facts.tokenizer_digest or "none"),
            ("versions", ", ".join(f"{name} {number}" for name, number in facts.versions.items())),
        ]
        rows.append(("sampling", ", ".join(f"{name} {value}" for name, value in facts.sampling.model_dump().items())))
        rows.append(("voice", facts.voice))
        if facts.trained_delays is not None:
            rows.append(("back-end in training", f"{facts.trained_delays.min_s:g} to {facts.trained_delays.max_s:g} s"))
        if facts.guesses is not None:
            rows.append(("answers to an unfinished question", facts.guesses))
        return rows

    @property
    def validated(self) -> str:
        """Title for the table of validation figures that `format_figures` returns."""
        step = None if self.facts is None else self.facts.training.figures_step
        return f"Validation{'' if step is None else f' at step {step:,}'}: losses in nats, accuracies from 0 to 1"

    def format_figures(self) -> tuple[list[str], list[list[str]]]:
        """Returns head and rows of the validation's figures: a row for each figure, a column for each oracle fed."""
        figures = {} if self.facts is None else self.facts.training.figures
        columns = list(dict.fromkeys(key.partition(".")[0] for key in figures))
        names = dict.fromkeys([*FIGURES, *(key.partition(".")[2] for key in figures)])
        rows = [
            [
                FIGURES.get(name, name),
                *("" if (value := figures.get(f"{one}.{name}")) is None else f"{value:.4g}" for one in columns),
            ]
            for name in names
            if any(f"{one}.{name}" in figures for one in columns)
        ]
        return ["", *(f"{one} oracle" if one != "none" else "no oracle" for one in columns)], rows

    def format_free_running(self) -> list[tuple[str, str]]:
        """Returns label and value of each result of free running (`FreeShare`); empty if there are none."""
        return [] if self.facts is None else [(each.name, str(each)) for each in self.facts.free_running]


def summarise(source: str | Path) -> Summary:
    """Summarises a checkpoint without reading its tensors.

    Args:
        source: a folder, or `owner/name[@revision]` on the Hub, whose weights are downloaded.

    Raises:
        ConfigError: `source` holds no checkpoint.
        BackendError: the Hub does not respond.
        StoreError: a file is damaged, or was written by a newer version of kame.
    """
    contents = read_contents(locate_checkpoint(source))
    header = read_header(contents.weights)
    return Summary(
        str(source),
        header.n_parameters,
        contents.weights.stat().st_size,
        header.dtypes,
        ORACLE_KEY in header.names,
        contents.lm_kwargs,
        contents.facts,
    )
