"""How the site is built: Sphinx, the PyData theme, examples run by sphinx-gallery, formulas as MathML.

Why these: the reference comes from numpydoc docstrings, the examples are scripts whose output and pictures are taken
when they run and kept as long as they do not change, and the search index is a script, so that search works from a
folder without a server.  mkdocs-material reads more easily as source, but would have needed a plug-in for each of the
three.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "_ext")]
# The threads of BLAS and of the examples must not fight over two cores while sphinx runs them one after another.
os.environ.setdefault("MPLBACKEND", "agg")

import example_cache
import figures
import page_order
import reports

import kernelsieve

example_cache.clear_when_code_changed(HERE)
reports.copy_reports(HERE)

project = "kernelsieve"
author = copyright = "The kernelsieve developers"
version = release = kernelsieve.__version__
language = "en"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "myst_parser",
    "console",
    "mathml",
    "percent_signs",
    "spelled_out",
]
exclude_patterns = [
    "scripts",
    "_ext",
    "_parts",
    "README.md",
    "**/GALLERY_HEADER.rst",
    "sg_execution_times.rst",
    "**/sg_execution_times.rst",
]
templates_path = ["_templates"]
default_role = "py:obj"
nitpicky = False

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_block", "attrs_inline", "substitution"]
# {{ mnist_fit }} and the like from the results of the benchmarks, {{ xu_2011.moved_20 }} from those of the experiments.
myst_substitutions = figures.figures() | reports.recorded_facts(HERE)
myst_heading_anchors = 3

autosummary_generate = True
toc_object_entries_show_parents = "hide"
# to_torch is documented without torch, too.
autodoc_mock_imports = [] if importlib.util.find_spec("torch") else ["torch"]
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_preprocess_types = False
doctest_test_doctest_blocks = "default"

sphinx_gallery_conf = {
    "examples_dirs": ["scripts/guide", "scripts/gallery"],
    "gallery_dirs": ["guide", "gallery"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": page_order.Order,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "backreferences_dir": "reference/used",
    "doc_module": ("kernelsieve",),
    "reference_url": {"kernelsieve": None},
    "inspect_global_variables": True,
    "matplotlib_animations": False,
    "image_srcset": ["2x"],
    "write_computation_times": False,
    "reset_modules": ("page_style.reset",),
    "default_thumb_file": str(HERE / "_static" / "home-curve-light.png"),
    "nested_sections": False,
}
# Reports begin where their experiment does, which may be at a heading of the second rank.
suppress_warnings = ["config.cache", "myst.header"]

html_theme = "pydata_sphinx_theme"
html_title = "kernelsieve"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sourcelink = False
html_copy_source = False
html_favicon = "_static/mark.svg"
html_theme_options = {
    "logo": {
        "text": "kernelsieve",
        "image_light": "_static/mark.svg",
        "image_dark": "_static/mark.svg",
        "alt_text": "",
    },
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 8,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "use_edit_page_button": False,
    "back_to_top_button": False,
}
html_sidebars = {"index": [], "faq": [], "command_line": [], "kernels": [], "peers": []}
