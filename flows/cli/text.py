"""`kame text`: trains the front-end's tokenizer."""

from typing import Annotated

import typer

from flows.cli.field_help import CommandApp, make_field_option
from flows.cli.terminal import AsJson, print_json, report_errors

app = CommandApp(help="Train the front-end's tokenizer (vocabulary).", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Makes Typer treat the only command as a subcommand."""


@app.command()
def train(
    datasets: Annotated[list[str], typer.Argument(help="Folders of datasets.", metavar="DATASET...")],
    out: Annotated[str, typer.Option("--out", help="File to write.")] = "tokenizer.model",
    vocabulary: Annotated[
        int | None, make_field_option("--vocabulary", "data_schemas.config.text:TextTrainConfig.vocabulary")
    ] = None,
    whole_words: Annotated[
        list[str] | None,
        make_field_option("--whole-word", "data_schemas.config.text:TextTrainConfig.whole_words", "Can be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a small SentencePiece tokenizer, with Moshi's special ids, on the texts of the training split."""
    with report_errors(as_json):
        from itertools import chain

        from data_schemas.config.text import TextTrainConfig
        from data_schemas.reader import DatasetReader
        from flows.settings import build
        from kame_model.text.tokenizer_training import read_training_texts, train_tokenizer

        typed = {"vocabulary": vocabulary, "whole_words": whole_words}
        config = build(TextTrainConfig, {}, typed)
        texts = chain.from_iterable(read_training_texts(DatasetReader(folder)) for folder in datasets)
        trained = train_tokenizer(texts, config.vocabulary, out, config.whole_words, datasets)
        if as_json:
            print_json({"out": out, **trained.to_json()})
            return
        typer.echo(
            f"{out}: {trained.tokenizer.text_card} pieces, digest {trained.tokenizer.digest}; "
            f"trained on {trained.n_words:,} words, {trained.n_different_words:,} of them different; "
            f"{trained.tokens_a_word:.2f} tokens per word, {trained.share_whole:.0%} of words are a single token."
        )
