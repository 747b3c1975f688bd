"""What a thing would be answered with, without the answer."""

from starlette.types import ASGIApp, Receive, Scope, Send


class HeadAsGet:
    """HEAD is GET to all routes; the server leaves out the body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # the server looks at its own, and sends no body
        await self.app(scope, receive, send)
