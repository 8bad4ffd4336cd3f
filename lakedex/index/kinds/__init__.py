"""One package or module for each index kind; `lakedex.index.registry` lists them."""
