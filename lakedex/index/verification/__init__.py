"""Verification of indexes: what a check of one index receives, and what it finds."""
