"""Filmstrips: a program after each of some passes, side by side in a still picture, for slides and print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.compiler.errors import OperationError
from workbench.widgets.beside import beside
from workbench.widgets.display import LIMIT, Bundle, bundle
from workbench.widgets.explorer import MARK_WORDS
from workbench.widgets.steps import Steps
from workbench.widgets.svg import svg


class Filmstrip:
    """A strip with a picture for each of some passes.

    Args:
        recording: The recording.
        passes: Names of the passes to show; by default those that change the most instructions, and something
            drawn.
        most: Most passes to show.
        theme: ``auto`` follows the page, or ``light`` or ``dark``.

    Raises:
        OperationError: No pass has that name, or it changed nothing.
    """

    def __init__(
        self, recording: Any, passes: Sequence[str] = (), *, most: int = 3, theme: str = "auto"
    ) -> None:
        """Choose the passes."""
        self.steps, self.theme = Steps(recording), theme
        changes = {
            k: sum(len(e.rows) for e in s.edits) for k, s in enumerate(self.steps.steps) if s.edits
        }
        self.names = names = {k: self.steps.steps[k].name.partition("(")[0] for k in changes}
        if missing := set(passes) - set(names.values()):
            changed = ", ".join(dict.fromkeys(names.values()))
            raise OperationError(f"no change by {', '.join(missing)}; expected some of {changed}")
        drawn = [
            k for k in changes if names[k] in passes or (not passes and self.steps.is_visible(k))
        ]
        self.shown = sorted(sorted(drawn, key=lambda k: -changes[k])[:most])

    def summary(self) -> str:
        """The filmstrip in one line of words."""
        names = ", ".join(self.names[k] for k in self.shown)
        return f"The program before and after {names}" if names else "The passes changed nothing"

    def to_svg(self) -> str:
        """The filmstrip as SVG."""
        first, _ = self.steps.shown(self.shown[0]) if self.shown else self.steps.shown(0)
        frames: list[tuple[int, dict[int, int], str]] = [(first, {}, "before")]
        for k in self.shown:
            step = self.steps.steps[k]
            caption = f"{self.names[k]}: {step.size_before:,} → {step.size_after:,}"
            frames.append((self.steps.shown(k)[1], self.steps.marks(k)[1], caption))
        scene = self.steps.scene
        opened = scene.default_open()
        pictures = [
            svg(scene, opened, step=state, theme=self.theme, limit=LIMIT,
                marks={id: MARK_WORDS[m] for id, m in marks.items()})
            for state, marks, _ in frames
        ]  # fmt: skip
        return beside(pictures, [caption for *_, caption in frames], [self.summary()], self.theme)

    def _repr_mimebundle_(self, **_: Any) -> Bundle:
        return bundle(None, self.to_svg(), self.summary())
