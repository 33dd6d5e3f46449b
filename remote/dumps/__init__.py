"""Reading dumps: what is in the dump folder, what each dump holds, whether it is right, and a test request."""
