"""Pruning inside other people's pipelines; import the one module that is needed: `pruner.integrations.langchain`."""
