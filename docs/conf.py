"""Settings of the documentation."""

import workbench

project = "The graph workbench"
author = copyright = "The graph workbench authors"
version = release = workbench.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["images"]
html_title = project
nb_execution_mode = "off"
