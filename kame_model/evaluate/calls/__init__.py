"""Calls to a server on a simulated clock, which `questions`, `mt_bench` and `duplex` share."""
