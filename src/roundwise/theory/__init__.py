"""The paper: its bounds, its experiments and figures; and whether the guarantee is kept."""
