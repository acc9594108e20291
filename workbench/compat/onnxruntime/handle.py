"""The inner session that onnxruntime's Python wraps, for code that reaches for ``session._sess``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.compat.onnxruntime.values import OrtValue, OrtValueVector

if TYPE_CHECKING:
    from workbench.compat.onnxruntime.session import Session


class Handle:
    """A session with the order of arguments of onnxruntime's inner class.

    Args:
        session: The session.
    """

    def __init__(self, session: Session) -> None:
        """Wrap a session."""
        self.session = session

    def run(
        self, output_names: Sequence[str], input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Any]:
        """The outputs, as ``Session.run`` gives them."""
        return self.session.run(output_names, input_feed, run_options)

    def run_with_ort_values(
        self,
        input_feed: Mapping[str, OrtValue],
        output_names: Sequence[str],
        run_options: Any = None,
    ) -> OrtValueVector:
        """The outputs as values; inputs come first here."""
        return self.session.run_with_ort_values(output_names, input_feed, run_options)

    def run_with_iobinding(self, iobinding: Any, run_options: Any = None) -> None:
        """Run on what is bound."""
        self.session.run_with_iobinding(iobinding, run_options)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the session's, also under the inner class's names."""
        inner = {
            "inputs_meta": "get_inputs", "outputs_meta": "get_outputs", "model_meta": "get_modelmeta",
            "overridable_initializers": "get_overridable_initializers",
            "session_options": "get_session_options",
        }  # fmt: skip
        if name in inner:
            return getattr(self.session, inner[name])()
        return getattr(self.session, name)
