"""Evaluation of front-ends and servers: one file for each command of `kame evaluate`, and what they share.

recall.py      free running on held-out dialogues: recall_items, recall_report, free_running, turns, key_words, lenient,
               channels
questions.py   spoken questions: question_sets, answers, questions_report
mt_bench.py    spoken MT-Bench: mt_bench_questions, mt_bench_report
duplex.py      turn taking (Full-Duplex-Bench): duplex_items, duplex_scores
compare.py     comparison of evaluations
table.py       the paper's table of results; like compare.py it reads evaluations with evaluations.py

Each command writes a folder with report.py, with confidence intervals of intervals.py and plots of plots.py. judge.py
is the chat model that judges answers.

questions, mt_bench and duplex call a server and share served.py: call.py makes the calls, measured.py adds measured
latencies, asking_voices.py synthesises questions, delays.py measures when speech is audible.
"""
