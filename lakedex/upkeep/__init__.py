"""Keeps a table small: cleaning, archiving, savepoints; after commits by itself, or when told."""
