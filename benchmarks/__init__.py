"""What is measured: `python -m benchmarks NAME [--json] [--quick]`, run from the checkout."""
