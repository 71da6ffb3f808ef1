"""Images: other sizes, and pixels at places that are data."""

from whet.compiler.topi.image.blocks import col2im, depth_to_space, space_to_depth
from whet.compiler.topi.image.deformable import deformable_conv2d_nchw
from whet.compiler.topi.image.regions import roi_align
from whet.compiler.topi.image.resize import resize1d, resize2d, resize3d
from whet.compiler.topi.image.sampling import affine_grid, grid_sample, resample

__all__ = [
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
