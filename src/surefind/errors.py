"""Errors that say what went wrong and, where there is more to say, what to do next."""


class SurefindError(Exception):
    """A problem the user can act on: what went wrong, and `fix` where there is more to say."""

    def __init__(self, problem: str, *, fix: str | None = None) -> None:
        super().__init__(f"{problem}\n  fix: {fix}" if fix else problem)
        self.problem, self.fix = problem, fix


class InvalidArgument(SurefindError, ValueError):
    """An argument that cannot be used: its name, what was expected, what came."""

    def __init__(self, argument: str, *, expected: str, got: str, fix: str | None = None) -> None:
        super().__init__(f"{argument}: expected {expected}, got {got}", fix=fix)
        self.argument, self.expected, self.got = argument, expected, got


class InvalidFile(SurefindError):
    """A file that is missing, unreadable, or not what its name guarantees."""
