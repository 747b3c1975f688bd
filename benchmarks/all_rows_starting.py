"""Rows about what a command costs before it does anything."""

from all_rows import Result, Row


def startup(result: Result) -> list[Row]:
    beyond = dict(result["beyond_python"])
    shown = beyond.pop("surefind --help")
    rows = [
        Row(
            "`surefind --help`: CPU seconds beyond those of Python itself",
            f"{shown:.2f} s",
            "< 0.5 s",
            shown < 0.5,
        )
    ]
    return rows + [Row(f"  `{name}`", f"{seconds:.2f} s") for name, seconds in beyond.items()]
