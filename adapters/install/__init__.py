"""Add Instar to the agents that a user has, and take it away again."""
