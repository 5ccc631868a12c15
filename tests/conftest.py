"""Which tests are run when: most by `make test`, long ones by `make long` (CI runs both), slow ones by `make slow`.

Long are the functions in long.txt, which `python tests/long.py` measures. Slow are studies with that marker, and the
cells of large products that are not in the fixed part of CI.
"""

import os
import resource
from pathlib import Path
from zlib import crc32

import pytest

# one of so many cells is in CI; `roundwise calibrate`, which CI runs too, has cells of its own for most of these
PRODUCTS = {
    "test_plan.py::test_every_question_with_every_model": 4,
    "test_intervals.py::test_what_is_shown_has_something_to_spare": 3,
    "test_intervals.py::test_bounds_of_means_say_no_more_than_the_decision": 3,
    "test_intervals.py::test_what_is_ruled_out_is_a_half_line_and_the_bound_its_end": 3,
    "test_intervals.py::test_bounds_only_tighten": 3,
    "test_golden.py::test_it_is_opened_reported_verified_and_continued": 2,
    "test_golden.py::test_it_goes_on_in_a_version_whose_every_plan_differs": 2,
    "test_golden.py::test_a_state_that_cannot_be_read_is_counted_anew": 2,
    "test_wager.py::TestBoundaries::test_every_question_with_every_noise": 3,
    "test_wager.py::TestBoundaries::test_arms_first_batches_and_deltas": 3,
    "test_policies.py::test_many_runs_at_once_equal_single_runs_bit_for_bit": 3,
    "test_question_laws.py::test_each_run_is_computed_as_if_alone": 3,
    "test_question_laws.py::test_extreme_units": 3,
    "test_intervals_hold.py::TestTheTruth::test_it_is_rarely_ruled_out": 2,
    "test_agreement.py::test_false_alarms_are_rare": 2,
    "test_claims_bounds.py::test_bounds_hold": 2,
    "test_claims_bounds.py::test_a_bound_passes_the_margin_just_where_the_claim_is_shown": 2,
    "test_refuted.py::TestReports::test_no_bound_leaves_out_its_estimate": 3,
    "test_sweep.py::TestInterruption::test_only_whole_cells_are_left_and_the_sweep_goes_on": 2,
}


LONG = frozenset(Path(__file__).with_name("long.txt").read_text().split())


def function_of(nodeid):
    """The file and the function of a test, without its folder and case."""
    return nodeid.partition("[")[0].rpartition("/")[2]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark what is long, and the cells of products that are slow."""
    for item in items:
        name = function_of(item.nodeid)
        if crc32(item.nodeid.partition("[")[2].encode()) % PRODUCTS.get(name, 1):
            item.add_marker(pytest.mark.slow)
        elif name in LONG:
            item.add_marker(pytest.mark.long)


def pytest_addoption(parser):
    """What measures."""
    parser.addoption("--cpu", metavar="FILE", help="add a line with the seconds of CPU of every test to this file")


def _cpu():
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Measure, if asked to: setting up included, children when they have ended."""
    before = _cpu()
    result = yield
    if item.config.option.cpu:
        with open(item.config.option.cpu, "a") as file:
            file.write(f"{_cpu() - before:.3f} {function_of(item.nodeid)}{os.linesep}")
    return result
