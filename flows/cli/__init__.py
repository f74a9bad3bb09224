"""The command `kame`: one file per command, which parses the options, calls the work and prints the result."""
