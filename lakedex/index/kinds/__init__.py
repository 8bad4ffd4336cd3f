"""One package for each index kind; `lakedex.index.registry` lists them."""
