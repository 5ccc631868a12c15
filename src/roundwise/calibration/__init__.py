"""Is the guarantee kept? Every combination of question, noise model, rule and live path, where an error is most likely.

What promises nothing is refused with a sentence, and rules that are known to be wrong must be caught.
"""

from roundwise.calibration.measure import CalibrationResult, calibrate
from roundwise.calibration.page import list_problems

__all__ = ["CalibrationResult", "calibrate", "list_problems"]
