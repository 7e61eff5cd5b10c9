"""Measurements of the pruner on labelled lists."""
