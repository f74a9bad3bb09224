"""One server in several processes: distributes callers, and shares counts between the processes."""
