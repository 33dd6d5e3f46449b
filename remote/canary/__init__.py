"""The canary: a few prompts through the running server, and proof that their dumps mean what they should."""
