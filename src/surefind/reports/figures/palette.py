"""Colours that stay apart for the colour-blind, each with one meaning in all figures."""

RIGHT = "#009e73"  # green; never without a mark, a dash or a word beside it
WRONG = "#cc3311"  # red
OURS = "#0072b2"  # blue
GREY = "#7f7f7f"
PALE = "#e4e4e4"  # grids, tiles without a picture
INK = "#222222"
SERIES = (OURS, "#aa4499", "#44aa99", "#e69f00", "#56b4e9", "#882255", "#999933", "#332288")
