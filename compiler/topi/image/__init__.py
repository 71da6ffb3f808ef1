"""Images: other sizes, and pixels at places that are data."""

from typing import TYPE_CHECKING

from whet.compiler.homes import imported
from whet.compiler.topi.image.blocks import col2im, depth_to_space, space_to_depth
from whet.compiler.topi.image.deformable import deformable_conv2d_nchw
from whet.compiler.topi.image.regions import roi_align
from whet.compiler.topi.image.resize import resize1d, resize2d, resize3d
from whet.compiler.topi.image.sampling import affine_grid, grid_sample, resample

if TYPE_CHECKING:
    from whet.compiler.topi.vision.windows import dilation2d_nchw, dilation2d_nhwc

__all__ = [
    "dilation2d_nchw",
    "dilation2d_nhwc",
    "affine_grid",
    "col2im",
    "deformable_conv2d_nchw",
    "depth_to_space",
    "grid_sample",
    "resample",
    "resize1d",
    "resize2d",
    "resize3d",
    "roi_align",
    "space_to_depth",
]


def __getattr__(name: str) -> object:
    if name in ("dilation2d_nchw", "dilation2d_nhwc"):
        return imported(f"whet.compiler.topi.vision.windows:{name}")
    from whet.compiler.absent import missing

    raise missing(__name__, "topi.image", name)
