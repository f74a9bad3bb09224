"""A sample of a source's items as they are written and as they are said, for people to read and to judge.

    python -m benchmarks.readings --source mmlu_pro --path ROWS.jsonl.gz --seed 1 --n 200 > sample.tsv

Each line has the item's id, its question and answer as written, the question and the answer as said, separated by tabs;
of an item that is refused, the reason in place of what is said. The same seed draws the same items. Shares of refusals
by reason go to the other stream. How a reading is judged is told in docs/speakable.md.

With `--hits` a table follows there: of how many items that are said each rule, rewriting and sign's reading had a part.
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
    """An item beside what is said of it; `reason` and `detail` where it is refused, else `question` and `answer`.

    `rules` are the names of those that read some of it.
    """

    item: Item
    question: str = ""
    answer: str = ""
    reason: str | None = None
    detail: str = ""
    rules: frozenset[str] = frozenset()


def reading_of(item: Item, config: ScriptConfig) -> Reading:
    """The reading of an item as the script stage would say it, with a seed of the item's own."""
    with record_fired_rules() as fired:
        try:
            said = make_exchange(item, config, ids.derive_seed("readings", item.item_id))
        except (NotAskable, Unspeakable) as refusal:
            return Reading(item, reason=refusal.reason, detail=refusal.detail)
    return Reading(item, said.question.text, said.answer.text, rules=frozenset(fired))


def drawn(items: Sequence[Item], n_items: int, seed: int) -> list[Item]:
    """As many items as asked, or all, drawn by seed; in the order in which they were drawn."""
    return random.Random(seed).sample(items, min(n_items, len(items)))


def lines(readings: Iterable[Reading]) -> Iterator[str]:
    """A line a reading: id, question and answer as written, question and answer as said."""
    for each in readings:
        said = [each.question, each.answer] if each.reason is None else [f"REFUSED {each.reason}", each.detail]
        cells = [each.item.item_id, each.item.question, each.item.answer, *said]
        yield "\t".join(" ".join(cell.split()) for cell in cells)


def hits(readings: Iterable[Reading]) -> Iterator[str]:
    """A line a rule, those that fire most first: in how many items that are said it fires, and its name."""
    counts = Counter(dict.fromkeys(list_rule_names(), 0))
    for each in readings:
        counts.update(each.rules)
    for name, n_items in counts.most_common():
        yield f"{n_items}\t{name}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the sample; the figures of what was refused go to the other stream."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True, help="gsm8k, mmlu_pro, hssbench")
    parser.add_argument("--path", required=True, help="the source's rows")
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hits", action="store_true", help="count the items in which each rule fires")
    options = parser.parse_args(arguments)
    source = SourceConfig(name=options.source, path=options.path)
    items = drawn(read_items(source, None, SplitConfig()).items, options.n, options.seed)
    readings = [reading_of(item, ScriptConfig()) for item in items]
    print(*lines(readings), sep="\n")
    reasons = Counter(each.reason for each in readings if each.reason is not None)
    print(f"{len(readings) - reasons.total()} of {len(readings)} sayable; refused: {dict(reasons)}", file=sys.stderr)
    if options.hits:
        print(*hits(readings), sep="\n", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
