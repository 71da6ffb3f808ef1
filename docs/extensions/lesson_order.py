"""The order in which the lessons are read."""

from __future__ import annotations

LESSONS = (
    "vector_add.py",
    "schedule_primitives.py",
    "tuning_a_matmul.py",
    "tuning_without_a_template.py",
    "fast_matmul.py",
    "tensorize.py",
    "layouts_and_groups.py",
    "recurrences.py",
    "hybrid_script.py",
)


class LessonOrder:
    """Sphinx-gallery sorts the lessons by what this gives for a file.

    Args:
        folder: where the lessons are; there is only one folder.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, file: str) -> int:
        """The place of a lesson."""
        return LESSONS.index(file)

    def __repr__(self) -> str:
        return "LessonOrder"
