"""Secondary indexes: values of any column to record keys, and through those to file groups."""
