"""Build the documentation: `make docs`. Nothing in it needs a network, to build or to read."""

import os
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
os.environ.setdefault("MPLBACKEND", "Agg")

project = "maxmargin"
author = "maxmargin developers"
copyright = author
release = version = installed_version("maxmargin")
root_doc = "index"
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = [
    "_build",
    "auto_examples/*.md5",
    "auto_examples/*.ipynb",
    "**sg_execution_times.rst",
]
templates_path = ["_templates"]

extensions = [
    "myst_parser",
    "numpydoc",
    "realised",  # docs/_ext: where a formula lives, and the listings it links to
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]

myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_dmath_allow_labels = True
numfig = True  # formulas are numbered by chapter: (11.2)

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # the docstrings say it in words
suppress_warnings = ["ref.term"]  # what scikit-learn wrote and we inherit refers to its glossary
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
# scikit-learn's own methods, the same everywhere: the pages of classes name them in a sentence.
autosummary_context = {
    "of_sklearn": {
        "fit_predict",
        "fit_transform",
        "get_feature_names_out",
        "get_metadata_routing",
        "get_params",
        "score",
        "set_callbacks",
        "set_decision_function_request",
        "set_fit_request",
        "set_output",
        "set_params",
        "set_predict_request",
        "set_score_request",
        "set_transform_request",
    }
}

# `make docs` takes MathJax out of its npm package (tools/mathjax.sh): one file, no CDN.
mathjax_path = "mathjax/tex-svg.js"
mathjax3_config = {"tex": {"tags": "none"}, "svg": {"fontCache": "global"}}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(__init__|demo)\.py",
    "within_subsection_order": "gallery.Story",
    "abort_on_example_error": True,
    "only_warn_on_example_error": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "maxmargin"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "navbar_align": "left",
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {page: [] for page in ("index", "speed", "architecture", "auto_examples/index")}
html_show_sourcelink = False
html_copy_source = False
