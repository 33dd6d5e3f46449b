"""What dumping costs, on real GPUs with real SGLang 0.5.14: `python3 -m tests.gpu` (see docs/performance.md).

Needs a machine with Python 3.12, torch and a bundle of wheels; nothing of this project's own environment.
"""
