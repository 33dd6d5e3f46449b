"""Lets SGLang serve DeepSeek models on a CPU with PyPI's packages."""
