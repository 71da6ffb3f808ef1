"""Sphinx configuration: what `scripts/docs` builds, and with which extensions."""

import logging
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "extensions"))

from lesson_order import LessonOrder

import whet
from whet.compiler import settings

logging.getLogger("alembic").setLevel(logging.WARNING)  # a lesson makes a log

project = "Whet"
author = "the Whet authors"
project_copyright = "the Whet authors; Apache-2.0"
release = version = whet.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "myst_parser",
    # ours, in docs/extensions
    "api_pages",
    "checklist_pages",
    "docstrings",
    "house_tables",
    "sample_report",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
# the lessons' pages are generated from docs/lessons into docs/generated/lessons
exclude_patterns = ["_build", "extensions", "lessons", "generated/lessons/*.ipynb"]
default_role = "code"  # `name` in a docstring
nitpicky = False
suppress_warnings = ["config.cache"]  # the gallery's settings hold a class, which is not stored
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autosummary_generate = False  # docs/extensions/api_pages.py writes the pages
napoleon_numpy_docstring = False
napoleon_use_ivar = True

sphinx_gallery_conf = {
    "examples_dirs": ["lessons"],
    "gallery_dirs": ["generated/lessons"],
    "filename_pattern": settings.tutorial_exec_pattern(),
    "ignore_pattern": r"__init__\.py",
    "within_subsection_order": LessonOrder,
    "copyfile_regex": r"",
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,  # its page would load scripts from the network
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "show_memory": False,
}

html_theme = "furo"
html_title = f"Whet {release}"
html_static_path = ["static"]
html_css_files = ["whet.css"]
html_copy_source = False
html_show_sourcelink = False
templates_path = []
