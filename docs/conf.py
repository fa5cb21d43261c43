"""Build the documentation: `make docs`."""

import os
from importlib.metadata import version as installed_version

os.environ.setdefault("MPLBACKEND", "Agg")

project = "maxmargin"
author = "maxmargin developers"
release = version = installed_version("maxmargin")
root_doc = "index"
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "auto_examples/*.md5", "auto_examples/*.ipynb"]

extensions = ["myst_parser", "numpydoc", "sphinx.ext.mathjax", "sphinx_gallery.gen_gallery"]
myst_enable_extensions = ["dollarmath", "amsmath"]
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(__init__|demo)\.py",
    "abort_on_example_error": True,
    "only_warn_on_example_error": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "maxmargin"
html_theme_options = {"navigation_with_keys": False, "secondary_sidebar_items": ["page-toc"]}
