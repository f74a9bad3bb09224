"""`kame text`: the front-end's vocabulary."""

from typing import Annotated

import typer

from flows.cli.terminal import AsJson, print_json, speaking_plainly

app = typer.Typer(help="The front-end's vocabulary.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keeps a lone sub-command a sub-command."""


@app.command()
def train(
    datasets: Annotated[list[str], typer.Argument(help="Folders of datasets.", metavar="DATASET...")],
    out: Annotated[str, typer.Option("--out", help="File to write.")] = "tokenizer.model",
    vocabulary: Annotated[int | None, typer.Option("--vocabulary", help="Pieces, special ones among them.")] = None,
    whole_words: Annotated[
        list[str] | None, typer.Option("--whole-word", help="A word that is one piece, besides the number words.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """A small SentencePiece vocabulary with Moshi's special ids, from what the training split says."""
    with speaking_plainly(as_json):
        from itertools import chain

        from data_schemas.config.text import TextTrainConfig
        from data_schemas.reader import DatasetReader
        from flows.settings import build
        from kame_model.text.training import read_training_texts, train_tokenizer

        typed = {"vocabulary": vocabulary, "whole_words": whole_words}
        config = build(TextTrainConfig, {}, typed)
        texts = chain.from_iterable(read_training_texts(DatasetReader(folder)) for folder in datasets)
        trained = train_tokenizer(texts, config.vocabulary, out, config.whole_words)
        if as_json:
            print_json({"out": out, **trained.to_json()})
            return
        typer.echo(
            f"{out}: {trained.tokenizer.text_card} pieces, digest {trained.tokenizer.digest}; "
            f"{trained.n_words:,} words, {trained.n_different_words:,} different ones; "
            f"{trained.tokens_a_word:.2f} tokens a word, {trained.share_whole:.0%} of words in one."
        )
