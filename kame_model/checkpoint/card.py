"""The model card: architecture, training data, evaluation results, and how to use the model."""

from collections.abc import Mapping

from kame_model.checkpoint.files import CONFIG, FACTS, TOKENIZER, WEIGHTS
from kame_model.checkpoint.folder import CUE_KEY, ORACLE_KEY
from kame_model.checkpoint.kame_json import KameJson

_WITH_US = """\
```python
import torch
from data_schemas.config.model import SamplingConfig
from kame_model.checkpoint.load import load_checkpoint
from kame_model.model.streaming import FrontEndGen

checkpoint = load_checkpoint("FOLDER")
codec = checkpoint.load_codec()
gen = FrontEndGen(checkpoint.front_end, checkpoint.choose_sampling(SamplingConfig()))
with gen.streaming(1), codec.stream(1) as sound:
    # every 80 ms: heard [1, 1920] samples at 24 kHz; oracle id 3 where the back-end has nothing to say
    other = torch.from_numpy(sound.encode_frame(heard)).long()
    text, own = gen.step(other, torch.tensor([3]))
    # own is -2 until the first frame is whole; then: said = sound.decode_frame(own.numpy())
```
"""

_FIGURES = (
    "Names begin with the oracle: right, none or wrong. `text`, `answer` (its words), `padding` (frames without a "
    "word), `semantic` (the first code), `acoustic` (the others) and `loss` (all) are losses in nats per token; "
    "`text_right` and `answer_right` are shares of tokens; `_fed`: in the frames in which the right oracle is fed."
)

_SERVE = """\
```sh
kame serve FOLDER                                                   # an embedded chat model behind it
kame serve FOLDER --llm-url http://host:8000/v1 --llm-model NAME    # yours: any OpenAI-compatible server
kame talk question.wav --url http://127.0.0.1:8998                  # in another terminal: a caller that is a program
```

A server prints the address of a page to talk by. Kyutai's clients of Moshi and OpenAI's realtime clients connect to
it too."""

_WITH_STOCK = """\
```python
import json

from moshi.models import loaders
from safetensors.torch import load_file, save_file

state = load_file("FOLDER/model.safetensors")
for key in ("oracle_emb.weight", "oracle_cue.weight"):
    state.pop(key, None)
save_file(state, "stock.safetensors")
config = json.load(open("FOLDER/config.json"))
kwargs = {key: value for key, value in config.items() if not key.endswith("_name")}
lm = loaders.get_moshi_lm("stock.safetensors", kwargs)
```
"""


def render_card(facts: KameJson, n_weights: int, n_stored: int) -> str:
    """Renders the model card as Markdown, for README.md of the checkpoint's folder.

    Args:
        facts: the contents of the folder's `kame.json`.
        n_weights: number of weights of the model.
        n_stored: number of parameters in model.safetensors, which also has what is computed from weights.
    """
    sections = (
        "---\nlibrary_name: moshi\npipeline_tag: audio-to-audio\ntags: [kame, speech-to-speech, full-duplex]\n---",
        f"# KAME front-end `{facts.preset}`",
        f"A full-duplex speech model of {n_weights / 1e6:,.1f} million weights that listens to an oracle: text "
        "that a language model behind it writes while the user still speaks (arXiv 2510.02327). It works on frames of "
        "80 ms. To stock Moshi's architecture it adds a table of embeddings for the oracle"
        + (", and one for its cue." if facts.cue else "."),
        _render_model(facts),
        "## Trained on",
        _render_training(facts),
        "## Figures",
        _render_figures(facts),
        "## Serving it",
        _render_serving(facts),
        "## In Python",
        _WITH_US,
        "## With stock moshi",
        "As a Moshi without oracle. moshi rejects keys that it does not know, so those of kame are removed first."
        + _render_stock_codec(facts),
        _WITH_STOCK,
        "## Files",
        _render_files(facts, n_stored),
        "## What it is not for",
        f"It says what its oracle says, right or wrong. {_render_without_oracle(facts)} Whether you may use it "
        "commercially depends on the licences of the data and of the weights it was started from, named above.",
    )
    return "\n\n".join(section.strip("\n") for section in sections) + "\n"


def _render_without_oracle(facts: KameJson) -> str:
    """Returns a sentence on where the figures without an oracle are, or that there are none."""
    if any(each.oracle == "none" for each in facts.free_running):
        return "How often it gave the true answer without an oracle is among the figures above."
    return "What it says without an oracle was not evaluated."


def _render_stock_codec(facts: KameJson) -> str:
    """Returns a sentence that stock moshi does not load the codec; empty if it does, or if there is no codec."""
    if facts.codec is None or facts.codec.is_mimi:
        return ""
    return f" Its LM loads in stock moshi, its codec `{facts.codec.name}` does not: there are codes then, and no sound."


def _render_model(facts: KameJson) -> str:
    """Renders a table of the codec, the vocabulary, the oracle and the cue."""
    absent = "none in the folder; it speaks the codes of " + (facts.codec_digest or "one that is not named")
    codec = absent if facts.codec is None else f"`{facts.codec.name}` {facts.codec.digest}"
    if facts.codec is not None and facts.codec.package:
        codec += f", of the package {facts.codec.package}"
    rows = (
        ("codec", codec),
        ("codebooks of a voice", f"{facts.n_codebooks} of {facts.card} entries"),
        ("vocabulary", f"{facts.text_card} pieces, digest {facts.tokenizer_digest or '(none in the folder)'}"),
        ("oracle", f"starts with id {facts.text_card}, id 3 where there is none; trained as `{facts.oracle}`"),
        ("cue", "at each frame the first token of the oracle that is not said" if facts.cue else "none"),
    )
    return _render_table(("", ""), rows)


def _render_training(facts: KameJson) -> str:
    """Renders a table of the training data, its licences, and how the weights were trained."""
    training = facts.training
    rows = (
        ("token rows (fingerprints)", ", ".join(f"`{each}`" for each in training.data) or "none named"),
        ("their licences, as the datasets record them", _render_licences(training.licences)),
        ("stage", training.stage or "not named"),
        ("steps", f"{training.step:,}"),
        ("started from", f"weights named `{training.init_from}`" if training.init_from else "random weights"),
        ("adapters", "LoRA, merged" if training.lora else "none"),
        ("versions", ", ".join(f"{name} {number}" for name, number in facts.versions.items())),
    )
    return _render_table(("", ""), rows)


def _render_licences(licences: Mapping[str, str | None] | None) -> str:
    """Renders licences by part; None: they were not recorded."""
    if licences is None:
        return "not known"
    return "; ".join(f"{name}: {licence or 'not known'}" for name, licence in licences.items()) or "none needed"


def _render_serving(facts: KameJson) -> str:
    """Renders the server's defaults and commands, or a sentence that the checkpoint cannot be served."""
    if facts.codec is None or facts.tokenizer_digest is None:
        return "Codec or vocabulary are not in the folder, so it cannot be served: export it again with both."
    return f"{_render_table(('', ''), _format_serving_rows(facts))}\n\n{_SERVE}"


def _format_serving_rows(facts: KameJson) -> list[tuple[str, str]]:
    """Returns label and value of the defaults that the server takes from the checkpoint."""
    own, delays = facts.sampling, facts.trained_delays
    how = (
        f"temperature {own.temp_text:g} for text and {own.temp:g} for sound, the {own.top_k_text} and {own.top_k} best"
    )
    back_end = "not known"
    if delays is not None:
        back_end = (
            f"{delays.min_s:g} to {delays.max_s:g} s to an oracle's first token; it was not trained for a slower one, "
            "behind which the answer may be late or wrong"
        )
    voice = {
        "decoded": "its own, decoded from its codes",
        "synthesised": "text-to-speech says the text that it writes, as it writes it; its own sound is not heard",
    }
    guesses = {
        None: "not known; they are withdrawn when the turn has ended",
        "feed": "fed whenever they arrive",
        "withdraw": "fed until the turn has ended, then withdrawn",
        "hold": "not fed; the answer is fed when the turn has ended",
    }
    return [
        ("voice, unless the server is told otherwise", f"`{facts.voice}`: {voice[facts.voice]}"),
        ("sampling, unless the server is told otherwise", how if own.use_sampling else "always the likeliest"),
        ("answers to an unfinished question", guesses[facts.guesses]),
        ("back-end in training", back_end),
    ]


def _render_figures(facts: KameJson) -> str:
    return f"{_render_losses(facts)}\n\n{_render_free_running(facts)}"


def _render_losses(facts: KameJson) -> str:
    """Renders the figures of the last validation as a table, or a sentence if there are none."""
    if not facts.training.figures:
        return "No validation was run."
    rows = [(f"`{name}`", f"{value:.4g}") for name, value in sorted(facts.training.figures.items())]
    step = facts.training.figures_step
    at = "" if step is None else f" at step {step:,}"
    return f"On validation{at}. {_FIGURES}\n\n" + _render_table(("figure", "value"), rows)


def _render_free_running(facts: KameJson) -> str:
    """Renders the results of free running as a table, or a sentence if there are none."""
    if not facts.free_running:
        return "It was not run freely on held-out dialogues, which `kame evaluate recall FOLDER ROWS` does."
    rows = [(each.name, str(each)) for each in facts.free_running]
    heading = "Measured by free running on held-out dialogues (`kame evaluate recall`), with intervals of 95 %."
    return f"{heading}\n\n{_render_table(('figure', 'share'), rows)}"


def _render_files(facts: KameJson, n_stored: int) -> str:
    """Renders a table of the files in the checkpoint's folder."""
    weights = f"weights, Kyutai's names, and `{ORACLE_KEY}`" + (f", `{CUE_KEY}`" if facts.cue else "")
    tied = [
        name for name, is_tied in (("text head", facts.tie_text_head), ("oracle", facts.oracle == "tied")) if is_tied
    ]
    if tied:
        weights += (
            f"; {n_stored / 1e6:,.1f} million numbers, with the tables of the tied {' and '.join(tied)} written out"
        )
    rows = [
        (WEIGHTS, weights),
        (CONFIG, "keyword arguments of moshi's `LMModel`, names of the other files"),
        (FACTS, "all else, as above, for programs"),
    ]
    if facts.codec is not None:
        rows += [(name, "the codec") for name in facts.codec.files or ()]
    if facts.tokenizer_digest is not None:
        rows.append((TOKENIZER, "the vocabulary (SentencePiece)"))
    return _render_table(("file", ""), [(f"`{name}`", what) for name, what in rows])


def _render_table(head: tuple[str, str], rows: "list[tuple[str, str]] | tuple[tuple[str, str], ...]") -> str:
    lines = [head, ("---", "---"), *rows]
    return "\n".join(f"| {one} | {other} |" for one, other in lines)
