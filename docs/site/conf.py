"""Sphinx's configuration of the documentation site: `make docs` builds it into build/site, without a network.

The pages are the Markdown files that a reader of the repository sees, and the notebook with its stored outputs. The API
page is made of docstrings, and the page of the command line of its help.
"""

from __future__ import annotations

import kafka_segment_source

project = "kafkaseg"
author = "the kafkaseg authors"
release = version = kafka_segment_source.__version__
html_title = f"kafkaseg {release}"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
root_doc = "docs/site/contents"
include_patterns = [
    "*.md",
    "docs/*.md",
    "docs/site/*.md",
    "examples/*.ipynb",
]
smartquotes = False  # -- is an option, and no dash
default_role = "code"  # docstrings write names as Markdown does
html_theme = "furo"
html_extra_path = ["index.html"]
html_copy_source = False
html_show_copyright = False

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
nb_execution_mode = "off"  # the notebook has the outputs that a test checks

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "separated"
autodoc_default_options = {"members": True, "undoc-members": False, "show-inheritance": True}
napoleon_numpy_docstring = False
napoleon_use_admonition_for_examples = False
suppress_warnings = [
    "misc.highlighting_failure",  # a cell of the notebook calls the shell
    "ref.python",  # a field named `bytes` is no link to the type
]
