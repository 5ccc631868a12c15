"""An A/B/n test read from a warehouse table every morning.

Which of four checkouts sells best? Users are assigned at random, a quarter to each, and a table records who saw what
and who bought. Each morning you tell the study what the table holds. Users it knows already are skipped, so the query
is always the same.

Here the warehouse is an SQLite database in memory, filled by `a_day_of_users`; use your own connection instead.
"""

import random
import sqlite3
import tempfile

from roundwise import BestArm, Binary, Columns, create_study

QUERY = "SELECT user_id, variant, converted FROM exposures WHERE experiment = 'checkout'"
RATES = {"Control": 0.100, "Big button": 0.108, "Guest checkout": 0.130, "Short form": 0.102}


def a_day_of_users(warehouse, rng):
    for _ in range(rng.randint(3800, 4200)):
        variant = rng.choice(list(RATES))
        row = ("checkout", variant, int(rng.random() < RATES[variant]))
        warehouse.execute("INSERT INTO exposures (experiment, variant, converted) VALUES (?, ?, ?)", row)


rng = random.Random(7)
warehouse = sqlite3.connect(":memory:")
warehouse.execute("CREATE TABLE exposures (user_id INTEGER PRIMARY KEY, experiment, variant, converted)")

with (
    tempfile.TemporaryDirectory() as folder,
    create_study(
        "checkout",
        question=BestArm(),
        arms=list(RATES),
        noise=Binary(),
        split="equal",  # the assignment service decides who sees what ...
        round_size=3500,  # ... and a round is complete with 3,500 new users, a little less than a day brings
        columns=Columns(arm="variant", outcome="converted", id="user_id"),
        seed=7,  # to print the same each time: leave it out in a real study
        storage=f"sqlite:///{folder}/studies.db",
    ) as study,
):
    while study.ask() is not None:
        a_day_of_users(warehouse, rng)
        cursor = warehouse.execute(QUERY)
        names = [column[0] for column in cursor.description]
        report = study.tell(dict(zip(names, zip(*cursor, strict=True), strict=True)))
        print(f"{report.results} users: {report.headline}")
    print(study.report().sentence)  # for a paper; .html() is the whole report
warehouse.close()

# It prints:
#
#     3965 users: Not decided yet. Any of the 4 arms may be the best; Guest checkout (13.6 %) leads
#     8062 users: Not decided yet. Guest checkout (13.1 %), Big button (11.3 %) or Control (10.8 %) is the best; Short
#         form is out
#     11890 users: Not decided yet. Guest checkout (13.4 %) or Big button (11.4 %) is the best; Short form and Control
#         are out
#     15808 users: Not decided yet. Guest checkout (13.4 %) or Big button (11.4 %) is the best; Short form and Control
#         are out
#     19672 users: Guest checkout is best: 13.5 %; the next is Big button (11.0 %)
#     With 19672 results of 4 arms in 5 rounds, split equally as fixed in advance, judged by the rule of wager
#         (roundwise 1.0.0rc1), the study concluded that Guest checkout is the best arm; the probability of a wrong
#         conclusion is at most 5 % at any number of rounds, assuming that results are 0 or 1.
