"""The half of hsconsole that runs on the operator's laptop."""

__version__ = "0.1.0"
