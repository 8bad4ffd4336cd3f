"""A deterministic simulation of writers on one store: all of it follows from one seed."""
