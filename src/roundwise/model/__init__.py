"""The problem, its trial, batches of results, and the estimates from past batches."""
