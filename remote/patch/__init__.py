"""SGLang's model file: check it, put the dump's few lines into it, take them out again byte for byte."""
