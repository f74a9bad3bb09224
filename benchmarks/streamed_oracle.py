"""Whether answers that come in pieces become the tokens of training, how much of them leaves early, and what it costs.

    python -m benchmarks.streamed_oracle gsm8k_train.jsonl.gz mmlu_pro_even.jsonl.gz --n 1000

takes questions and answers of such files as if a chat model wrote them (their first 40 words; calculations in double
angle brackets, which no chat model writes, taken out), leaves out what the normaliser refuses, cuts each text at random
and holds what `SpokenStream` gives against what the normaliser makes of the whole. A text that is said otherwise than
it was begun is printed.
"""

import argparse
import gzip
import json
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

from data_schemas.errors import RequestError
from kame_model.serve.spoken_stream import SpokenStream
from pipelines.script.speakable import Unspeakable, speak

N_WORDS = 40
"""Of each text: a little more than the longest oracle of training."""


class Counted:
    """The normaliser, counted."""

    def __init__(self) -> None:
        self.n_calls, self.spent_s = 0, 0.0

    def __call__(self, text: str) -> str:
        """As `speak`."""
        self.n_calls += 1
        begun_s = time.process_time()
        try:
            return speak(text)
        finally:
            self.spent_s += time.process_time() - begun_s


def texts_of(paths: list[Path]) -> list[str]:
    """The beginnings of all questions and answers."""
    texts = []
    for path in paths:
        with gzip.open(path, "rt") as file:
            for line in file:
                row = json.loads(line)
                texts += [row[name] for name in ("question", "answer") if isinstance(row.get(name), str)]
    clean = (re.sub(r"<<.*?>>|####.*", "", text) for text in texts)
    return [" ".join(text.split()[:N_WORDS]) for text in clean if len(text.split()) > 2]


def pieces_of(text: str, draw: random.Random) -> Iterator[str]:
    """The text in pieces of one to eight characters, as tokens are."""
    at = 0
    while at < len(text):
        end = at + draw.randint(1, 8)
        yield text[at:end]
        at = end


def main() -> None:
    """Prints the figures as one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--n", type=int, default=1000, help="texts")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    texts = texts_of(options.files)
    draw.shuffle(texts)
    counted = Counted()
    n_texts = n_equal = n_early = n_words = 0
    for text in texts:
        try:
            whole = speak(text)
        except Unspeakable:
            continue
        stream = SpokenStream(counted)
        said = [stream.feed(piece) for piece in pieces_of(text, draw)]
        n_texts += 1
        n_words += len(whole.split())
        n_early += len("".join(said).split())
        try:
            said.append(stream.finish())
        except RequestError as error:
            print(f"{error} {text}")
        n_equal += "".join(said).split() == whole.split()
        if n_texts == options.n:
            break
    figures = {
        "n_texts": n_texts,
        "n_equal": n_equal,
        "share_of_words_early": round(n_early / n_words, 3),
        "calls_a_text": round(counted.n_calls / n_texts, 2),
        "ms_a_call": round(1e3 * counted.spent_s / counted.n_calls, 2),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
