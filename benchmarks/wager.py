"""What Wager costs and what it needs: `python benchmarks/wager.py`, with `--tables` every number of docs/wager.md.

Times are CPU times of one process, the least of several; never a test, because the machine may be busy.
"""

import argparse
from pathlib import Path

import wager_ablation
import wager_speed
import wager_tables
import wager_ties

if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tables", action="store_true", help="the tables of docs/wager.md, about ten minutes")
    options.add_argument("--ties", action="store_true", help="the table of ties within a tolerance, two minutes")
    options.add_argument("--ablation", action="store_true", help="what each part saves, and oracles, ten minutes")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--figure", type=Path, help="draw the dial into this file (docs/figures/dial.svg)")
    options.add_argument("--only", default="", help="times of the cases with these words in their names")
    chosen = options.parse_args()
    if chosen.figure is not None:
        wager_tables.figure(chosen.seed, chosen.figure)
    elif chosen.ablation:
        wager_ablation.tables(chosen.seed)
    elif chosen.ties:
        wager_ties.statements(chosen.seed)
        wager_ties.beside_elimination(chosen.seed)
    elif chosen.tables:
        wager_tables.tables(chosen.seed)
    else:
        if not chosen.only:
            wager_speed.decisions()
        wager_speed.beside_pet(chosen.only)
        wager_speed.every_model(chosen.only)
