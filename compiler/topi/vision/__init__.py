"""Detection: boxes made, joined, and those that overlap left out."""

from whet.compiler.topi.vision.anchors import (
    multibox_detection,
    multibox_prior,
    multibox_transform_loc,
)
from whet.compiler.topi.vision.classes import all_class_non_max_suppression
from whet.compiler.topi.vision.nms import get_valid_counts, non_max_suppression
from whet.compiler.topi.vision.proposals import proposal
from whet.compiler.topi.vision.regions import roi_align_nchw, roi_align_nhwc, roi_pool_nchw

__all__ = [
    "all_class_non_max_suppression",
    "get_valid_counts",
    "multibox_detection",
    "multibox_prior",
    "multibox_transform_loc",
    "non_max_suppression",
    "proposal",
    "roi_align_nchw",
    "roi_align_nhwc",
    "roi_pool_nchw",
]
