"""What a thing would be answered with, without the answer."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadAsGet:
    """HEAD is GET to all routes; the server leaves out the body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        asked = {**scope, "method": "GET"}  # the server looks at its own, and sends no body

        async def sending(message: Message) -> None:
            if "route" in asked:  # for those outside who count
                scope["route"] = asked["route"]
            await send(message)

        await self.app(asked, receive, sending)
