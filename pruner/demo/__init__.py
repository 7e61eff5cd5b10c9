"""What `pruner demo` works on: real documentation, found on the machine it runs on."""
