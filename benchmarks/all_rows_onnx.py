"""Rows about encoders in ONNX Runtime."""

from all_rows import Result, Row, at_least

FASTER = {"onnx": ("fp32", 1.8), "onnx-int8": ("int8", 3.0)}  # promised of ResNet-50
NEAR = 0.01


def export_speed(result: Result) -> list[Row]:
    rows = []
    for name, found in result["speed"].items():
        ratios = found["ratio"]
        for runtime, (precision, least) in FASTER.items():
            ratio = ratios[f"{runtime}, batches of 8"]
            what = f"ONNX {precision}, {name}, batches of 8: images/s to those of eager PyTorch"
            figure = f"{ratio:.2f} x"
            promised = name == "ResNet-50"
            rows.append(
                at_least(what, ratio, least, shown=figure) if promised else Row(what, figure)
            )
            ours = ratios[f"{runtime}, shared out"] / ratios["torch, shared out"]
            rows.append(
                Row(f"ONNX {precision}, {name}: to surefind's own use of PyTorch", f"{ours:.2f} x")
            )
    return rows


def export_quality(result: Result) -> list[Row]:
    """Of all signals the one that int8 changes most, so that none is chosen by its result."""
    rows = []
    for name, found in result["quality"].items():
        less, exact = found["int8 - torch"], found["torch"]
        worst = max((key for key in less if key != "R@1"), key=lambda key: abs(less[key]))
        for key, what in {"R@1": "R@1", worst: f"{worst} of a wrong first hit"}.items():
            rows.append(
                Row(
                    f"ONNX int8 less fp32, {name}, CUB-200 (2010), {what} (fp32: {exact[key]:.3f})",
                    f"{less[key]:+.4f}",
                    f"within {NEAR}",
                    abs(less[key]) <= NEAR,
                )
            )
    return rows
