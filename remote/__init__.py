"""The half of hsconsole that runs in the container: Python 3.9+, standard library alone."""

__version__ = "0.1.0"
