"""What readers can start: budgets of time and memory, work that ends when they leave, and one computation for all."""

import json
import socket
import threading
import time
import tracemalloc
from contextlib import contextmanager
from urllib.parse import urlsplit

import numpy as np
import pytest

from roundwise import Binary, InputError, Poisson, TopK, load_study
from roundwise.deadline import CancelledError, Deadline, OverBudgetError, check_deadline, held
from roundwise.model.problem import Problem
from roundwise.planning import outlook_line
from roundwise.planning.fixed_designs import fixed_design
from roundwise.planning.planner import plan_request
from roundwise.study.audit import audit_entries
from roundwise.web import reports
from roundwise.web.forms import Form
from roundwise.web.lab import MOST_ARMS, LabForm
from serving import TOKENS, ask, example, serving


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    found = f"sqlite:///{tmp_path_factory.mktemp('readers')}/a.db"
    example(found, rounds=1)
    return found


class CountedDeadline(Deadline):
    """A deadline that is over after a number of checks."""

    def __init__(self, looks):
        super().__init__(3600)
        self.left = looks

    def check(self):
        self.left -= 1
        if self.left < 0:
            raise CancelledError


class TestDeadline:
    def test_nobody_set_one(self):
        check_deadline()

    def test_time_is_used_up(self):
        deadline = Deadline(0.02)

        def work():
            with deadline.applied():
                while True:
                    check_deadline()

        with pytest.raises(OverBudgetError, match="server"):
            work()
        assert deadline.over
        check_deadline()

    def test_time_that_somebody_waits_is_not_used(self):
        with Deadline(0.2).applied():
            time.sleep(0.25)
            check_deadline()

    def test_one_within_another(self):
        outer = Deadline(3600)
        with outer.applied(), Deadline(3600).applied():
            outer.cancelled.set()
            with pytest.raises(CancelledError):
                check_deadline()

    def test_waiting_for_a_lock_ends_with_the_work(self):
        lock, deadline = threading.Lock(), Deadline(3600)
        lock.acquire()
        threading.Timer(0.05, deadline.cancelled.set).start()
        with pytest.raises(CancelledError), deadline.applied(), held(lock):
            raise AssertionError

    @pytest.mark.parametrize("looks", [1, 5])
    def test_long_work_asks_whether_to_go_on(self, storage, looks):
        form = Form(arms="a\nb\nc", question="top-k", baseline="30 %").request(400)
        with load_study("checkout", storage) as study:
            state, entries = study.state, study.entries()
            for work in (
                lambda: plan_request(form),
                lambda: outlook_line(state),
                lambda: study.report(),
                lambda: [audit_entries(entries) for _ in range(2)],
            ):
                with pytest.raises(CancelledError), CountedDeadline(looks).applied():
                    work()


class TestMemory:
    @staticmethod
    def peak(work):
        tracemalloc.start()
        try:
            work()
            return tracemalloc.get_traced_memory()[1] / 2**20
        finally:
            tracemalloc.stop()

    @pytest.mark.long
    def test_of_a_fixed_design_of_many_comparisons(self):
        problem = Problem(TopK(30), 60, 0.05, Binary())
        means = [0.4] * 30 + [0.3] * 30
        assert self.peak(lambda: fixed_design(problem, means)) < 100  # it was 840: draws times comparisons

    def test_the_fixed_design_is_the_one_of_all_draws(self):
        problem = Problem(TopK(3), 6, 0.05, Binary())
        means = [0.4, 0.42, 0.44, 0.3, 0.3, 0.3]
        found = fixed_design(problem, means)
        variances = np.asarray(means) * (1 - np.asarray(means)) * 6
        draws = np.random.default_rng(7).standard_normal((400_000, 6)) * np.sqrt(variances)
        gaps = [(i, j, means[i] - means[j]) for i in range(3) for j in range(3, 6)]
        pooled = [(means[i] + means[j]) / 2 for i, j, _ in gaps]
        roots = [
            (found.critical_z * np.sqrt(12 * rate * (1 - rate)) - draws[:, i] + draws[:, j]) / gap
            for (i, j, gap), rate in zip(gaps, pooled, strict=True)
        ]
        assert found.samples == pytest.approx(np.quantile(np.max(roots, axis=0), 0.9) ** 2, rel=0.01)

    def test_a_design_of_too_many_comparisons_is_none(self):
        problem = Problem(TopK(300), 600, 0.05, Binary())
        assert fixed_design(problem, [0.4] * 300 + [0.3] * 300) is None

    @pytest.mark.long
    def test_of_a_forecast_of_the_top_half(self):
        form = Form(arms="\n".join(f"a{i}" for i in range(40)), question="top-k", k="20", baseline="30 %").request(400)

        def begun():
            with pytest.raises(CancelledError), CountedDeadline(60).applied():
                plan_request(form, quick=True)

        assert self.peak(begun) < 100  # it was 183: bets on all comparisons of all runs at once


class TestLab:
    @pytest.mark.parametrize("words", [{}, {"world": "binary"}, {"question": "top-k", "k": "1"}])
    def test_means_that_are_all_alike(self, words):
        job = LabForm(means="0, 0", runs="5", most="1000", policies=("round-robin", "wager"), **words).job()
        job.run()
        assert job.state == "done", job.error
        assert "No number of samples is enough" in job.result.compared[0].bound

    @pytest.mark.parametrize(
        ("words", "why"),
        [
            ({"means": "1 " * 1_000_000}, "2000000 letters"),
            ({"means": "1 " * (MOST_ARMS + 1)}, f"{MOST_ARMS + 1} means"),
            ({"means": "1 " * 100, "runs": "5000"}, "means times runs"),
            ({"policies": ("nonsense",)}, "policy"),
        ],
    )
    def test_limits(self, words, why):
        with pytest.raises(InputError, match=why):
            LabForm(**words).job()

    def test_it_ends_within_its_budget(self, monkeypatch):
        monkeypatch.setattr("roundwise.web.jobs.JOB", 0.05)
        job = LabForm(means="1, 0.999", runs="5000", most="1e12").job()
        job.run()
        assert job.state == "failed"
        assert "more than 0.05 s" in job.error


@pytest.mark.parametrize("baseline", ["1e15", "1e18"])
@pytest.mark.parametrize("question", ["best-arm", "claims"])
def test_counts_that_are_too_large_to_draw(baseline, question):
    request = Form(arms="a\nb\nc", question=question, noise="poisson", baseline=baseline).request(20)
    assert isinstance(request.noise, Poisson)
    with pytest.raises(InputError, match="more than can be counted exactly"):
        plan_request(request, quick=True)


WISH = {"question": {"name": "best-arm"}, "arms": ["a", "b"], "noise": {"name": "binary"}, "baseline": 0.3}


@contextmanager
def endless_plans(monkeypatch):
    """Plans that go on until they are given up: what ended each of them, and one item for each that has begun."""
    ends, begun = [], []

    def endless(*_, **__):
        begun.append(True)
        give_up = time.monotonic() + 20
        try:
            while time.monotonic() < give_up:
                check_deadline()
                time.sleep(0.01)
            ends.append("went on")
        except CancelledError:
            ends.append("given up")
            raise

    monkeypatch.setattr("roundwise.planning.planner.plan_request", endless)
    yield ends, begun


def sent(url, path, body):
    """A connection on which a request was sent; nobody reads the answer."""
    found = urlsplit(url)
    connection = socket.create_connection((found.hostname, found.port), timeout=60)
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {found.netloc}\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    return connection


class TestLeaving:
    @pytest.mark.long
    def test_work_is_given_up_when_the_caller_leaves(self, storage, monkeypatch):
        with endless_plans(monkeypatch) as (ends, begun), serving(storage) as (url, _):
            connections = [sent(url, "/api/v1/plan", WISH) for _ in range(4)]  # two of them stand in line
            until(lambda: len(begun) == 2)  # a request that is dropped before its plan begins never has one
            for each in connections:
                each.close()
            until(lambda: len(ends) >= 2)
            assert set(ends) == {"given up"}
            monkeypatch.undo()
            assert ask(url, "POST", "/api/v1/plan", WISH | {"runs": 20, "quick": True})[0] == 200

    def test_work_is_given_up_when_the_server_ends(self, storage, monkeypatch):
        with endless_plans(monkeypatch) as (ends, begun):
            with serving(storage) as (url, _):
                connection = sent(url, "/api/v1/plan", WISH)
                until(lambda: begun)
            connection.close()
            until(lambda: ends)
            assert ends == ["given up"]

    def test_work_over_budget_is_refused_in_a_sentence(self, storage, monkeypatch):
        monkeypatch.setattr("roundwise.web.api.FORECAST", 0.05)
        with serving(storage) as (url, _):
            status, _, found = ask(url, "POST", "/api/v1/plan", WISH | {"runs": 2000})
        assert status == 503
        assert "0.05 s" in found["detail"]

    def test_a_study_whose_forecast_takes_too_long_has_a_report_without_one(self, storage, monkeypatch):
        monkeypatch.setattr(reports, "FORECAST", 0.0)
        with serving(storage) as (url, _):
            assert ask(url, "GET", "/api/v1/studies/checkout/forecast")[2]["forecast"] is None
            assert ask(url, "GET", "/studies/checkout/report.md", raw=True)[0] == 200


def until(reached, seconds=60):
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.01)


class TestSharing:
    def test_a_reader_sees_what_was_recorded_before(self, tmp_path):
        storage = f"sqlite:///{tmp_path}/a.db"
        example(storage, rounds=1)
        with serving(storage) as (url, _):
            for number in range(3):
                ask(url, "POST", "/api/v1/studies/checkout/note", {"text": f"note {number}"})
                head = ask(url, "GET", "/api/v1/studies/checkout/head")[2]["digest"]
                assert ask(url, "GET", "/api/v1/studies/checkout/report")[2]["digest"] == head


@pytest.mark.parametrize(("k", "arms"), [(1000, 2000), (1, 2001)])
def test_plans_that_are_too_large_are_refused(storage, k, arms):
    names = [str(i) for i in range(arms)]
    with serving(storage) as (url, _):
        wish = WISH | {"question": {"name": "top-k", "k": k}, "arms": names}
        status, _, found = ask(url, "POST", "/api/v1/plan", wish)
    assert status == 422
    assert "are not made here. Use `roundwise plan`" in found["detail"]


def test_who_looks_alone_starts_no_plan(storage):
    with serving(storage, ",".join(f"{role}={token}" for role, token in TOKENS.items())) as (url, _):
        headers = {"Authorization": f"Bearer {TOKENS['view']}"}
        assert ask(url, "POST", "/api/v1/plan", WISH, headers)[0] == 403
