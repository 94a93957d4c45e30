"""What the command line can do: one command, one file."""
