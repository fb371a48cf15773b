"""Programs that run inside the sandbox. Plain standard library; copied in, never imported by the trusted side."""
