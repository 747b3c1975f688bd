"""Everything once, on built-in data: what `surefind demo` does, for whoever wants it in Python."""

from surefind.demo.run import DemoResult, run_demo
from surefind.demo.setup import DemoSize

__all__ = ["DemoResult", "DemoSize", "run_demo"]
