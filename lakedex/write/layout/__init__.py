"""Which rows go to which file and in which order, so that ranges of columns tell files apart."""
