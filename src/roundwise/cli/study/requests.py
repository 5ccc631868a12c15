"""`roundwise ask --as`: the items of a round in the form of a harness or a batch API."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from roundwise.cli.options import option
from roundwise.cli.output import check_output, say, say_text, write_file
from roundwise.errors import DataError, InputError
from roundwise.formats.requests import FORMATS, render_requests

if TYPE_CHECKING:
    from roundwise.study.fold import Round
    from roundwise.study.state import State


_request = partial(option, rich_help_panel="Requests")


class RequestOptions(NamedTuple):
    """What to run next, in the form of another tool."""

    form: Annotated[str | None, _request("--as", f"Form of another tool: {', '.join(FORMATS)}.", "FORMAT")] = None
    items: Annotated[Path | None, _request("--items", "Table of items to draw the round from.", "FILE")] = None
    template: Annotated[
        Path | None, _request("--template", "Batch APIs: JSON body of a request, {column} for an item's cells.", "FILE")
    ] = None
    prompts: Annotated[
        Path | None,
        _request("--prompts", "Batch APIs: table of the arms (arm,prompt), whose cells fill {prompt}.", "FILE"),
    ] = None
    model_of: Annotated[
        str | None,
        _request("--model-of", "Models of arms (default: by --arm-names of the study), a=org/small.", "LIST"),
    ] = None

    def check(self, out: Path | None, as_json: bool) -> None:
        """Raise an InputError if the options do not go together."""
        if self.form is None:
            if any(each is not None for each in self[1:]):
                raise InputError("--items, --template, --prompts and --model-of go with --as FORMAT.")
            return
        if self.form not in FORMATS:
            raise InputError(f"There is no form '{self.form}'. Give --as {', '.join(FORMATS)}.")
        if self.form in ("ids", "lm-eval", "inspect") and (self.template or self.prompts) is not None:
            raise InputError(f"--template and --prompts are for batch APIs, not for --as {self.form}.")
        if self.form in ("ids", "lm-eval") and self.model_of is not None:
            raise InputError(f"--as {self.form} names no models: leave out --model-of.")
        if as_json:
            raise InputError("Give either --as or --json.")
        if out is None and self.form not in ("ids", "inspect"):
            raise InputError(f"--as {self.form} writes one file per arm: give --out FOLDER.")

    def read(self, state: State) -> Callable[[Round, State], tuple[dict[str, str], int]]:
        """Read the items and the template, before anything is recorded.

        Returns what renders the files of the open round, and says how many items are lacking.
        """
        from roundwise.study.next_items import choose_items, read_items, request_for

        assert self.form is not None
        form, items = self.form, read_items(state, self.items)
        known = {arm: theirs for theirs, arm in state.spec.reading.arm_names.items()}
        template, models = self._read_template(), known | self._models(state.spec.arms)
        own = self._read_prompts(state.spec.arms)
        every = [request_for(state, 0, state.spec.arms[0], item, cells) for item, cells in items.items()]
        render_requests(form, every, template, models, own)

        def render(asked: Round, state: State) -> tuple[dict[str, str], int]:
            requests, lacking = choose_items(state, asked, items)
            return render_requests(form, requests, template, models, own), lacking

        return render

    def write(self, number: int, files: dict[str, str], lacking: int, out: Path | None) -> None:
        """Write the requests of a round into a folder, or print them."""
        if out is None:
            for text in files.values():
                say(text.rstrip())
        else:
            try:
                out.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"{out} cannot be written: {error.strerror}. Give another folder.") from None
            for name in files:
                check_output(out / name, theirs=True)
            for name, text in files.items():
                write_file(out / name, text)
            say_text(f"The requests of round {number} are in {out}: {', '.join(files)}.")
        if lacking:
            say_text(f"{self.items} has {lacking} new items too few for this round. Add items and ask again.")

    def _read_template(self) -> Any:
        if self.template is None:
            return None
        try:
            found = json.loads(self.template.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(f"{self.template} cannot be read as JSON ({error}). Give the body of a request.") from None
        if not isinstance(found, dict):
            raise DataError(f"{self.template} is not a JSON object. Give the body of a request.")
        return found

    def _read_prompts(self, arms: tuple[str, ...]) -> dict[str, dict[str, str]]:
        from roundwise.formats.sheet import name_in
        from roundwise.formats.small_table import read_rows

        if self.prompts is None:
            return {}
        _, rows = read_rows(self.prompts, ["arm"])
        found = {row.text("arm"): {title: name_in(cell) for title, cell in row.cells.items()} for row in rows}
        missing = [arm for arm in arms if arm not in found]
        if missing:
            raise DataError(f"{self.prompts} has no row of the arm '{missing[0]}'. Give every arm one.")
        return found

    def _models(self, arms: tuple[str, ...]) -> dict[str, str]:
        pairs = [each.partition("=") for each in (self.model_of or "").split(",") if each.strip()]
        unknown = [arm.strip() for arm, equals, model in pairs if arm.strip() not in arms or not equals or not model]
        if unknown:
            raise InputError(
                f"--model-of names '{unknown[0]}', which is not an arm of this study. Give it as arm=model."
            )
        return {arm.strip(): model.strip() for arm, _, model in pairs}
