"""Texts that would lead out of a folder, if anybody made a path of them."""

from urllib.parse import quote

STEPS = (
    "../", "..\\", "....//", "..;/", ".../", "..%2f", "%2e%2e/", "%2e%2e%2f", "%2e%2e%5c",
    "..%5c", "%252e%252e%252f", "..%252f", "..%c0%af", "%c0%ae%c0%ae/", "..%ef%bc%8f",
    "\u2025/", "\uff0e\uff0e/", "..\u2215", "..\u2044", "..\uff0f", "/..", "./../", "..//",
    ".%00./", "..%00/", "%u002e%u002e/", "0x2e0x2e/", "..%0d%0a/", "..\t/",
)  # fmt: skip
SECRET = "secret.png"  # in the parent of the folder of pictures


def traversals(secret: str, picture: str) -> list[str]:
    """Ways to ask for a file by where it is; `picture` is one that may be shown."""
    by_steps = [4 * step + "etc/passwd" for step in STEPS]
    near = [step + SECRET for step in STEPS[:12]]
    absolute = [
        secret, f"/{secret}", f"//{secret}", f"file://{secret}", f"file:{secret}",
        f"{secret}%00.png", f"{secret}\0.png", quote(secret, safe=""), secret.replace("/", "\\"),
        f"{picture}/../../{SECRET}", f"{picture}/", f"{picture}%00", f"./{picture}/../../x",
        "/etc/passwd", "//etc/passwd", "\\\\127.0.0.1\\share\\x", "C:\\Windows\\win.ini", "C:/x",
        "/proc/self/environ", "/proc/self/cwd/pyproject.toml", "/dev/zero", "/dev/stdin", "~",
        "~/.ssh/id_rsa", "$HOME", "`id`", "|id", "index.html%00", "..", ".", "%2e", "%00",
        "CON", "a" * 5000, "http://127.0.0.1:9/x", "%", "%zz",
    ]  # fmt: skip
    return [*by_steps, *near, *absolute]
