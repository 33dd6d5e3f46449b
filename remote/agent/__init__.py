"""The agent: answers calls over stdin and stdout until its channel closes."""
