"""Look at and tend a table from a shell; prints what the rooms below answer, decides nothing."""
