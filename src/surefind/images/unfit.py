"""Why an image cannot be taken, before its name is known."""


class Unfit(Exception):
    """Raised behind the door; `decode` adds the name of the image and raises `ImageRejected`."""

    def __init__(self, reason: str, *, fix: str = "replace the image, or leave it out") -> None:
        super().__init__(reason)
        self.reason, self.fix = reason, fix
