"""Studies that change: made, told and looked at again, for the tests of what may change."""

from contextlib import contextmanager

from roundwise import BestArm, Binary, create_study
from roundwise.study.audit import audit_entries
from roundwise.study.state import replay

ARMS = ("a", "b", "c")


@contextmanager
def studies(folder):
    """What makes studies in a folder; they are closed in the end."""
    made = []

    def make(name="s", question=None, arms=ARMS, noise=None, **more):
        url = f"sqlite:///{folder}/studies.db"
        study = create_study(
            name, question=question or BestArm(), arms=arms, noise=noise or Binary(), storage=url, seed=1, **more
        )
        made.append(study)
        return study

    yield make
    for each in made:
        each.close()


def sums(**arms):
    return {"arm": list(arms), "count": [n for n, _ in arms.values()], "successes": [k for _, k in arms.values()]}


def rates(study, **wanted):
    """Tell the batch that is asked for, with these rates."""
    asked = study.ask()
    n = {arm: int(each) for arm, each in zip(asked.arms, asked.pulls, strict=True) if each}
    return study.tell(sums(**{arm: (each, round(each * wanted[arm])) for arm, each in n.items()}), new=True)


def same_when_read_again(study):
    """The state from the checkpoint is that of the whole log, and an audit finds nothing."""
    recent, whole = study.state, replay(study.entries())
    assert recent.spec.to_json() == whole.spec.to_json()
    assert recent.trial.plan.pulls.tolist() == whole.trial.plan.pulls.tolist()
    assert repr(recent.trial.kept) == repr(whole.trial.kept)
    assert audit_entries(study.entries()).differences == ()
