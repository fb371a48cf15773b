"""Memory and skills over the Model Context Protocol. Needs the extra `mcp`."""
