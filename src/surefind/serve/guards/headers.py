"""What a browser is told not to do with the answers."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

REPORT = "/report/"

_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
# A report is one file with its styles inside; it is shown in a frame of the page, and runs nothing.
_REPORT_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; sandbox; frame-ancestors 'self'"
)
_SWITCHED_OFF = (
    "accelerometer", "camera", "display-capture", "geolocation", "gyroscope", "magnetometer",
    "microphone", "midi", "payment", "usb",
)  # fmt: skip
_EVERYWHERE = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": ", ".join(f"{feature}=()" for feature in _SWITCHED_OFF),
}
_FOR_THE_PAGE = {
    **_EVERYWHERE,
    "Content-Security-Policy": _PAGE_POLICY,
    "X-Frame-Options": "DENY",
}
_FOR_REPORTS = {
    **_EVERYWHERE,
    "Content-Security-Policy": _REPORT_POLICY,
    "X-Frame-Options": "SAMEORIGIN",
}


class SecurityHeaders:
    """Sets them on every response; to be wrapped around all that answers, refusals too."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        added = _FOR_REPORTS if scope["path"].startswith(REPORT) else _FOR_THE_PAGE

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in added.items():
                    headers[name] = value
            await send(message)

        await self.app(scope, receive, send_with_headers)
