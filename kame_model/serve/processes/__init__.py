"""One server in several processes: who gets which caller, and what the processes know of each other."""
