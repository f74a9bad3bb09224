"""`kame evaluate`: evaluates front-ends; one file per command."""
