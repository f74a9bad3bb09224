"""What a front-end says when it runs freely: one file for each command of `kame evaluate`, and what they share.

recall.py      held-out dialogues: recall_items, recall_report, free_running, turns, key_words, lenient, channels
questions.py   spoken questions: question_sets, answers, questions_report
mt_bench.py    spoken MT-Bench: mt_bench_questions, mt_bench_report
duplex.py      taking turns: duplex_items, duplex_scores
compare.py     evaluations side by side
table.py       the paper's table of them; evaluations.py reads both theirs

report.py is the folder that each writes, intervals.py its figures, plots.py its plots, judge.py who judges answers.
served.py is what the three share that call a server: call.py calls it, measured.py charges what its parts took,
asking_voices.py asks aloud, delays.py tells when somebody is heard.
"""
