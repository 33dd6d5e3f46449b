"""What an operator can do. The screen and the command line are two faces of these functions; none knows textual."""
