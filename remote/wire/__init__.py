"""What crosses the link: frames, and the frozen values both halves know.

The only part of `remote` that `console` imports.
"""
