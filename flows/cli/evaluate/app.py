"""`kame evaluate`: evaluates front-ends and compares the results."""

from flows.cli.evaluate import compare, duplex, mt_bench, questions, recall, table
from flows.cli.field_help import CommandApp

app = CommandApp(
    help="Evaluate a front-end: recall of its oracle, right answers, delay, and turn-taking.",
    no_args_is_help=True,
)
app.command("recall", epilog="Example:\nkame evaluate recall checkpoints/nano-nano-5000 runs/nano/tokens/0-gsm8k")(
    recall.evaluate_recall
)
app.command(
    "questions",
    epilog="Example, in a clone:\nkame evaluate questions examples/checkpoints/nano \\\n"
    "  --path examples/questions/easy.jsonl --n 3 --modes tandem",
)(questions.evaluate_questions)
app.command("mt-bench")(mt_bench.evaluate_mt_bench)
app.command("duplex")(duplex.evaluate_duplex)
app.command("compare")(compare.compare)
app.command("table")(table.make_paper_table)
