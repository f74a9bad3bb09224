"""Evaluation of front-ends and servers: one package for each command of `kame evaluate`, and what they share.

recall/        free running on held-out dialogues
questions/     spoken questions
mt_bench/      spoken MT-Bench
duplex/        turn taking (Full-Duplex-Bench)
judge.py       the chat model that judges answers
report/        the folder of results, with confidence intervals and plots; comparison of evaluations; the paper's table

answers/       scores answers: key words, accepted answers, what a recogniser hears
calls/         calls to a server on a simulated clock, which questions, mt_bench and duplex share

In each of the four `evaluate.py` has the function that the command calls.
"""
