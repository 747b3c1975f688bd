"""python -m surefind."""

from surefind.cli.main import main

main()
