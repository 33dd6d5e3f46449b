"""The command line: the same operations as the screen, headless, with --json and typed exit codes."""
