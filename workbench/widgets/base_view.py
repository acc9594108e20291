"""The base of every widget: a selection, a theme, a height, and a short string that holds its state."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from threading import RLock
from typing import Any, NamedTuple

import anywidget
import traitlets
from ipywidgets import Widget

from workbench.widgets.display import is_unattended
from workbench.widgets.lifetime import loosen, pin
from workbench.widgets.state import read_state, write_state

THEMES = ("auto", "light", "dark")


_embedded: ContextVar[bool] = ContextVar("embedded", default=False)
_hearing = RLock()


@contextmanager
def embedded() -> Generator[None]:
    """Views that are made inside have no channel to the browser: they are panes of another view.

    Nor does the host hear of them, for marimo would open a channel to each widget that is made.
    """
    with _hearing:
        token, heard = _embedded.set(True), Widget._widget_construction_callback  # pyright: ignore[reportPrivateUsage]
        Widget.on_widget_constructed(None)
        try:
            yield
        finally:
            Widget.on_widget_constructed(heard)
            _embedded.reset(token)


class Answer(NamedTuple):
    """A message of Python to the browser, which has set a trait."""

    asked: str
    """The trait that the browser sets."""
    value: int
    trait: str
    """The trait that Python sets then."""
    data: bytes


class BaseView(anywidget.AnyWidget):
    """A widget whose persistent traits are also encoded in one string."""

    selected = traitlets.Int(None, allow_none=True).tag(sync=True)
    """Id of the selected instruction, or None."""
    theme = traitlets.Enum(THEMES, default_value="auto").tag(sync=True)
    """``light``, ``dark``, or ``auto`` for the page's."""
    height = traitlets.Int(480).tag(sync=True)
    """Height in pixels."""
    state = traitlets.Unicode("")
    """A short string that restores the whole view when it is set."""
    data = traitlets.Bytes().tag(sync=True)

    entry = ""
    """The view's module in ``static/``."""
    _remembered: tuple[str, ...] = ("selected", "theme")

    def __init__(self, **traits: Any) -> None:
        """Set traits, then keep `state` in sync with them."""
        state = traits.pop("state", "")
        super().__init__(**traits)
        loosen(self)
        self.observe(self._write_state, names=list(self._remembered))
        self.observe(self._read_state, names=["state"])
        self._write_state(None)
        if state:
            self.state = state

    def open(self) -> None:
        """Open the channel to the browser, unless the view is a pane of another one or nobody watches."""
        if not (_embedded.get() or is_unattended()):
            super().open()

    def close(self) -> None:
        """Close the channel to the browser, also that of the layout."""
        if (layout := self._trait_values.get("layout")) is not None:
            layout.close()
        super().close()

    def retire(self) -> None:
        """Close the view and let go of what it shows: its cell has run again."""
        self.close()
        for name in ("recording", "steps", "scene", "program", "table"):
            if name in vars(self):
                delattr(self, name)
        self.data = b""

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget, which its cell keeps until it runs again."""
        from IPython.core.getipython import get_ipython  # noqa: PLC0415

        if self.comm is None:
            return {}, {}
        pin(self, get_ipython())
        return super()._repr_mimebundle_(**kwargs)

    def answers(self) -> Iterable[Answer]:
        """Answers of Python to choices in the browser, the likeliest first."""
        return ()

    def smaller(self) -> BaseView | None:
        """A view that shows the most important part of this one, if there is such a view."""
        return None

    @traitlets.validate("state")
    def _check_state(self, proposal: Any) -> str:
        """Refuse an invalid state string before any trait is set."""
        state = str(proposal["value"])
        for name, value in read_state(state).items():
            trait = self.traits().get(name)
            choices = tuple(trait.values or ()) if isinstance(trait, traitlets.Enum) else (value,)
            if value not in choices:
                raise ValueError(f"state {state!r}: {name} is {value!r}, expected one of {choices}")
        return state

    def _fresh(self, name: str) -> Any:
        """The value of a trait that a state does not mention."""
        return self.traits()[name].default(self)

    def _write_state(self, _change: Any) -> None:
        self.state = write_state({name: getattr(self, name) for name in self._remembered})

    def _read_state(self, change: Any) -> None:
        values = read_state(change["new"])
        with self.hold_trait_notifications():
            for name in self._remembered:
                setattr(self, name, values[name] if name in values else self._fresh(name))
        self._write_state(
            None
        )  # normalise: a value may have been out of range, or unknown to this view
