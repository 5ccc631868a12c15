"""The problem, one trial of it, a batch of results, and what the batches so far say about the means."""
