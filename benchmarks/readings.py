"""Prints a sample of a source's items as written and as spoken, for review by people (docs/speakable.md).

    python -m benchmarks.readings --source mmlu_pro --path ROWS.jsonl.gz --seed 1 --n 200 > sample.tsv

Each line has the item's id, its question and answer as written, and both as spoken, separated by tabs; for a rejected
item, the reason replaces the spoken text. Shares of rejects by reason are printed to standard error, and with `--hits`
the number of spoken items in which each rule, rewriting and reading of a sign was used.
"""

import argparse
import random
import sys
from collections import Counter

from data_schemas import ids
from data_schemas.config import ScriptConfig, SourceConfig, SplitConfig
from data_schemas.records import Item
from pipelines.script.exchange import make_exchange
from pipelines.script.rejections import NotAskable
from pipelines.sources.items import read_items
from spoken.reader import list_rule_names
from spoken.rules.rule import record_fired_rules
from spoken.spoken_text import Unspeakable


def speak_item(item: Item, refused: Counter[str], used: Counter[str]) -> tuple[str, str]:
    """Returns question and answer as the script stage speaks them, with a seed that depends on the item's id alone.

    Of a rejected item, its reason and a detail.

    Args:
        refused: counter by reason, to which a rejected item is added.
        used: counter by name, to which the rules that were applied to another one are added.
    """
    with record_fired_rules() as fired:
        try:
            said = make_exchange(item, ScriptConfig(), ids.derive_seed("readings", item.item_id))
        except (NotAskable, Unspeakable) as refusal:
            refused[refusal.reason] += 1
            return f"REFUSED {refusal.reason}", refusal.detail
    used.update(set(fired))
    return said.question.text, said.answer.text


def main() -> None:
    """Prints the sample, and figures of rejects to standard error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True, help="question set: gsm8k, mmlu_pro, hssbench")
    parser.add_argument("--path", required=True, help="file of the question set")
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hits", action="store_true", help="count the items in which each rule is applied")
    options = parser.parse_args()
    items = read_items(SourceConfig(name=options.source, path=options.path), None, SplitConfig()).items
    drawn = random.Random(options.seed).sample(items, min(options.n, len(items)))
    refused, used = Counter[str](), Counter(dict.fromkeys(list_rule_names(), 0))
    for item in drawn:
        cells = (item.item_id, item.question, item.answer, *speak_item(item, refused, used))
        print("\t".join(" ".join(cell.split()) for cell in cells))
    print(f"{len(drawn) - refused.total()} of {len(drawn)} sayable; refused: {dict(refused)}", file=sys.stderr)
    if options.hits:
        print(*(f"{n_items}\t{name}" for name, n_items in used.most_common()), sep="\n", file=sys.stderr)


if __name__ == "__main__":
    main()
