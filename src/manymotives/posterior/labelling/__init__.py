"""Draws in, names out: the ArviZ schema, with all that a file must hold to be read again."""
