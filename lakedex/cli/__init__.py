"""The `lakedex` command: inspects and maintains a table from a shell."""
