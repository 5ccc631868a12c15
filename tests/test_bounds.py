"""Bounds side by side: overview, curves, figures, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bounds_cases import CASES, a_promise
from roundwise import (
    PET,
    BestArm,
    InputError,
    Problem,
    Statements,
)
from roundwise.questions import Question
from roundwise.theory.bounds import (
    Centre,
    affine_certificate,
    centre,
    certificate,
    chain_probability,
    closed_form,
    instances,
    overview,
    promise,
    promised_gamma,
    sequence_probability,
    upper_bounds,
)
from roundwise.theory.figures.bounds import batch_curve, scaled, trade_off


@pytest.mark.long
def test_the_overview_is_in_order() -> None:
    for question, means in CASES.values():
        found = overview(Problem(question, 4), means, gamma=20.0)
        assert found.sample_lower <= found.upper.samples
        assert 1 <= found.expected_batches <= found.upper.batches
        plain = found.plain()
        assert plain["batches"]["lower"] == found.expected_batches
        assert plain["samples"]["upper"] == found.upper.samples


@pytest.mark.long
def test_curves() -> None:
    problem = Problem(BestArm(), 2)
    means = [2 * math.sqrt(2e-6), 0.0]  # T* = 8 / gap^2 = 1e6
    curve = batch_curve(problem, means, np.geomspace(1, 1e6, 3), runs=50)
    assert (curve.lower <= curve.pet.batches).all()
    assert (curve.pet.batches <= curve.upper).all()
    assert (curve.upper <= curve.upper_stated).all()
    assert (np.diff(curve.lower) >= 0).all()
    found = trade_off(problem, means, 1.0, growths=(2, 8), runs=50, number=3)
    (few_gamma, many), (much_gamma, few) = found.points.values()
    assert few_gamma < much_gamma
    assert few < many
    assert (np.diff(found.lower) <= 0).all()
    with pytest.raises(InputError, match="must be finite and above T_min"):
        trade_off(problem, [9.0, 0.0], 1.0)
    with pytest.raises(InputError, match="no curve to draw"):
        scaled(Problem(Statements([[1, 0], [1, 0]], [0, 1]), 2), [0.5, 0.0], [1.0])


@pytest.mark.long
def test_figures_are_the_same_bytes_twice(tmp_path: object) -> None:
    pytest.importorskip("matplotlib")
    from pathlib import Path

    from roundwise.theory.figures.bounds import sequence_figure
    from roundwise.theory.figures.paper import save

    texts = []
    for name in ("a.svg", "b.svg"):
        path = Path(str(tmp_path)) / name
        save(sequence_figure(Problem(BestArm(), 2), [0.3, 0.0]), path)
        texts.append(path.read_bytes())
    assert texts[0] == texts[1]
    assert b"instance 3: T* = 88.9" in texts[0]


def test_errors_say_what_to_do() -> None:
    problem = Problem(BestArm(), 2)
    for words, call in (
        ("means", lambda: overview(problem, [1.0, 1.0])),
        ("means", lambda: upper_bounds(PET(), problem, [1.0, 1.0])),
        ("means", lambda: promise(problem, [1.0, 1.0], 1.0, 5.0)),
        ("`easiest` .T_min. is 0", lambda: overview(problem, [1.0, 0.0], easiest=0.0)),
        ("A tail goes with a gamma", lambda: overview(problem, [1.0, 0.0], tail=0.1)),
        ("`gamma` is -1", lambda: a_promise(gamma=-1.0)),
        ("`easiest` is 0", lambda: a_promise(easiest=0.0)),
        ("`reach` is -1", lambda: a_promise(reach=-1.0)),
        ("`tail` is 1", lambda: a_promise(tail=1.0)),
        ("`delta` is 5", lambda: a_promise(delta=5.0)),
        ("`batches` is 0", lambda: affine_certificate(a_promise(), 0)),
        ("`probability` is 1", lambda: certificate(a_promise(), 1.0)),
        ("'state'.*'stated'", lambda: closed_form(a_promise(), "state")),
        ("`ratio` is 1", lambda: instances([1.0, 0.0], Centre(np.zeros(2), 1.0), 1.0, 3)),
        ("`steps` is -1", lambda: instances([1.0, 0.0], Centre(np.zeros(2), 1.0), 0.5, -1)),
        ("one instance", lambda: centre(BestArm(), [[1.0, 0.0], [0.0, 1.0]])),
        ("as rows", lambda: sequence_probability(BestArm(), [1.0, 0.0], 1.0, 0.1, 0.05)),
        ("positive complexities", lambda: chain_probability([0.0, 1.0], [1.0], [1.0], [0.1], 0.05)),
        ("at most T. = 10", lambda: promised_gamma(PET(), problem, 20.0, 10.0)),
    ):
        with pytest.raises(InputError, match=words):
            call()


def test_an_unknown_question_is_told_what_to_do() -> None:
    class Odd(Question):
        name = "odd"
        answer = evidence = complexity = None

    with pytest.raises(InputError, match=r"Centre.*scaling_error"):
        centre(Odd(), [1.0, 0.0])
