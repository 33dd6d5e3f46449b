"""SSH as OpenSSH's own configuration has it: the only part of hsconsole that imports paramiko."""

import logging
from collections.abc import Callable

AskHostKey = Callable[[str, str, str], bool]
"""(host, key type, SHA256 fingerprint) → the operator trusts it. Asked once, from the connecting thread."""
Tell = Callable[[str], None]
"""What is being done, in words; from the connecting thread."""

# paramiko tells of every hiccup; what matters reaches the operator as an OperatorError
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False
