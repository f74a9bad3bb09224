"""`kame evaluate duplex`: Full-Duplex-Bench."""
