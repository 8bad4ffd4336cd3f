"""Keeps a table small: cleaning, archiving, savepoints; after commits, or by a call."""
