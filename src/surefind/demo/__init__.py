"""Everything once, on built-in data: what `surefind demo` does, for whoever wants it in Python."""

from surefind.demo.result import DemoResult
from surefind.demo.run import run_demo
from surefind.demo.size import DemoSize

__all__ = ["DemoResult", "DemoSize", "run_demo"]
