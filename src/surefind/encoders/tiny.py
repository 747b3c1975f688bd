"""A small convolutional network for small pictures, quick to train from scratch on a CPU."""

from torch import Tensor, nn


class TinyConvNet(nn.Module):
    """Four 3x3 convolutions, each halving the picture but the last: 32 px -> a 4 x 4 map.

    Group norm instead of batch norm: an image's features do not depend on its batch, so chunks
    and processes agree.
    """

    def __init__(self, channels: int = 128) -> None:
        super().__init__()
        self.num_features = channels
        widths = (3, channels // 4, channels // 2, channels, channels)
        self.stages = nn.Sequential(
            *(
                _stage(come, leave, stride=stride)
                for come, leave, stride in zip(widths, widths[1:], (2, 2, 2, 1), strict=False)
            )
        )

    def forward_features(self, pixels: Tensor) -> Tensor:
        features: Tensor = self.stages(pixels)
        return features

    forward = forward_features


def _stage(come: int, leave: int, *, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(come, leave, 3, stride=stride, padding=1, bias=False),
        nn.GroupNorm(8, leave),
        nn.ReLU(inplace=True),
    )
