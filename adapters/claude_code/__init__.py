"""Claude Code: its hooks leave what happens in the spool, and get the recorded context."""
