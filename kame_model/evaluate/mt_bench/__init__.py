"""`kame evaluate mt-bench`: MT-Bench by voice."""
