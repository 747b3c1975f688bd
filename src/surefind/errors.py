"""Exceptions of the package."""


class SurefindError(Exception):
    """A problem the user can act on.

    Args:
        problem: What went wrong.
        fix: What to do next, where that adds something.
    """

    def __init__(self, problem: str, *, fix: str | None = None) -> None:
        super().__init__(f"{problem}\n  fix: {fix}" if fix else problem)
        self.problem, self.fix = problem, fix


class InvalidArgument(SurefindError, ValueError):
    """An invalid argument.

    Args:
        argument: Its name.
        expected: What was expected.
        got: What was passed.
        fix: What to do next, where that adds something.
    """

    def __init__(self, argument: str, *, expected: str, got: str, fix: str | None = None) -> None:
        super().__init__(f"{argument}: expected {expected}, got {got}", fix=fix)
        self.argument, self.expected, self.got = argument, expected, got


class InvalidFile(SurefindError):
    """A file that is missing, unreadable or of another kind."""
