"""The HTTP service (extra `service`)."""
