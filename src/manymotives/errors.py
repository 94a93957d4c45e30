"""The one kind of error a user's input can cause; its message says what was found, where, and what to do."""


class InputError(ValueError):
    """Something given to the library cannot be used as it is."""
