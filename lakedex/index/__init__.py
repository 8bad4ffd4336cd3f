"""Every index kind, and the metadata table that stores them."""
