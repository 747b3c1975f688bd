"""The demo of `surefind demo` as a function: everything once, on built-in data."""

from surefind.demo.run import DemoResult, DemoSize, run_demo

__all__ = ["DemoResult", "DemoSize", "run_demo"]
