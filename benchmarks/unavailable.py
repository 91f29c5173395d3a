"""The one error of the suite's own."""


class Unavailable(Exception):
    """A contender cannot take part here. The message says what is missing."""
