import os

# Haystack decides at its import whether to phone home.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
