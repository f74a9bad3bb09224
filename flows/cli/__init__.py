"""The command `kame`: one file a command, which reads what was typed and shows what came of it."""
