"""The skill package format and the registry of published skills."""
