"""A receiver of OpenTelemetry traces: what any instrumented agent exports becomes sessions."""
