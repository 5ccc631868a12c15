"""Is the guarantee kept? Every combination of question, noise model, policy and live path, in the worlds where an error is
most likely; what promises nothing is refused with a sentence, and rules that are known to be wrong must be caught."""
