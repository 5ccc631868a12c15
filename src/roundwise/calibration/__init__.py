"""Is the guarantee kept? Every combination of question, noise model, rule and live path, where an error is most likely.

What promises nothing is refused with a sentence, and rules that are known to be wrong must be caught.
"""
