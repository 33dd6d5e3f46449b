"""SSH as OpenSSH's own configuration has it: the only part of hsconsole that imports paramiko."""

import logging

# paramiko tells of every hiccup; what matters reaches the operator as an OperatorError
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False
