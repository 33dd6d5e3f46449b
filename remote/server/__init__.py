"""The SGLang server: what stands before a start, starting, watching, its log, stopping."""
