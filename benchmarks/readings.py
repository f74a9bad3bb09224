"""Prints a sample of a source's items as written and as spoken, for review by people.

    python -m benchmarks.readings --source mmlu_pro --path ROWS.jsonl.gz --seed 1 --n 200 > sample.tsv

Each line has the item's id, its question and answer as written, and both as spoken, separated by tabs; for a rejected
item, the reason replaces the spoken text. The same seed draws the same items. Shares of rejects by reason are printed
to standard error. docs/speakable.md explains how to judge a reading.

With `--hits`, a table follows there: the number of spoken items in which each rule, rewriting and reading of a sign was
used.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from data_schemas import ids
from data_schemas.config import ScriptConfig, SourceConfig, SplitConfig
from data_schemas.records import Item
from pipelines.script.exchange import make_exchange
from pipelines.script.rejections import NotAskable
from pipelines.sources.items import read_items
from spoken.reader import list_rule_names
from spoken.rules.rule import record_fired_rules
from spoken.spoken_text import Unspeakable


@dataclass(frozen=True, slots=True)
class Reading:
    """An item with its spoken text; `reason` and `detail` if it is rejected, else `question` and `answer`.

    `rules` are the names of the rules that were applied.
    """

    item: Item
    question: str = ""
    answer: str = ""
    reason: str | None = None
    detail: str = ""
    rules: frozenset[str] = frozenset()


def read_item(item: Item, config: ScriptConfig) -> Reading:
    """Returns an item as the script stage speaks it, with a seed that depends on the item's id alone."""
    with record_fired_rules() as fired:
        try:
            said = make_exchange(item, config, ids.derive_seed("readings", item.item_id))
        except (NotAskable, Unspeakable) as refusal:
            return Reading(item, reason=refusal.reason, detail=refusal.detail)
    return Reading(item, said.question.text, said.answer.text, rules=frozenset(fired))


def draw_items(items: Sequence[Item], n_items: int, seed: int) -> list[Item]:
    """Draws at most `n_items` items by seed, and returns them in the order in which they were drawn."""
    return random.Random(seed).sample(items, min(n_items, len(items)))


def format_readings(readings: Iterable[Reading]) -> Iterator[str]:
    """Yields a line for each reading: id, question and answer as written, question and answer as spoken.

    In place of the spoken texts, rejected items have the reason and its detail.
    """
    for each in readings:
        said = [each.question, each.answer] if each.reason is None else [f"REFUSED {each.reason}", each.detail]
        cells = [each.item.item_id, each.item.question, each.item.answer, *said]
        yield "\t".join(" ".join(cell.split()) for cell in cells)


def format_rule_counts(readings: Iterable[Reading]) -> Iterator[str]:
    """Yields a line for each rule, the most frequent first: number of items in which it was applied, and its name."""
    counts = Counter(dict.fromkeys(list_rule_names(), 0))
    for each in readings:
        counts.update(each.rules)
    for name, n_items in counts.most_common():
        yield f"{n_items}\t{name}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the sample, and figures of rejects to standard error; returns the exit code 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True, help="question set: gsm8k, mmlu_pro, hssbench")
    parser.add_argument("--path", required=True, help="file of the question set")
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hits", action="store_true", help="count the items in which each rule is applied")
    options = parser.parse_args(arguments)
    source = SourceConfig(name=options.source, path=options.path)
    items = draw_items(read_items(source, None, SplitConfig()).items, options.n, options.seed)
    readings = [read_item(item, ScriptConfig()) for item in items]
    print(*format_readings(readings), sep="\n")
    reasons = Counter(each.reason for each in readings if each.reason is not None)
    print(f"{len(readings) - reasons.total()} of {len(readings)} sayable; refused: {dict(reasons)}", file=sys.stderr)
    if options.hits:
        print(*format_rule_counts(readings), sep="\n", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
