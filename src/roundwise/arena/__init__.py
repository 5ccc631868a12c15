"""Every policy on the same work: the paper's and our fixed instances, and real outcomes that are replayed."""
