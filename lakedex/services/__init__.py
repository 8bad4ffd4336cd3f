"""Work on a table that nobody asked a query of: verifying it, and later tending it."""
