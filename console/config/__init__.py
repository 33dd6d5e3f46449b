"""Profiles: where the container is, how its server runs, where its dumps go."""
