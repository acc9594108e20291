"""A session: a program, the settings, and what was made of them so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from workbench.compiler import showing
from workbench.compiler.builds.build import Build, compile
from workbench.compiler.errors import OperationError
from workbench.compiler.files.inputs import read_inputs
from workbench.compiler.ir.program import Program
from workbench.compiler.report.result import Result
from workbench.compiler.report.run_comparison import Run
from workbench.compiler.run.inputs import by_name
from workbench.compiler.text.naming import ids_kept
from workbench.widgets.session.outcome import Outcome
from workbench.widgets.session.settings import Settings

if TYPE_CHECKING:
    from workbench.compiler.report.kernels import Kernels

ACTIONS = ("compile", "run", "profile", "compare", "bisect")
MOST_KEPT = 7
"""Most earlier builds whose times and errors are kept."""
AGAIN = "again"
"""Compile with the settings as they are now, and repeat what was done with the build before."""


class Session:
    """A program and its settings, the build, and the last result, report and bisection.

    An action compiles first if there is no build of the current settings. What an earlier build gave is
    dropped only when the next build is there.

    Args:
        program: The source program.
        source: The code that makes it, for ``code``; by default it is a variable named ``program``.
        settings: The settings.
        build: A build of the program with these settings, if there is one.
    """

    def __init__(
        self,
        program: Program,
        *,
        source: str = "",
        settings: Settings | None = None,
        build: Build | None = None,
    ) -> None:
        """Open a program; nothing is compiled yet."""
        self.program = program
        self.source = source
        self.settings = settings or Settings()
        self.given: Mapping[str, Any] | None = None
        """Arrays by parameter that take the place of the settings' inputs."""
        self._build = build
        self._built = self.settings if build is not None else None
        self.result: Result | None = None
        """The outputs of the last run, or of the last profile with its timings."""
        self.profiled = False
        self.report: Any = None
        """The report of the last comparison."""
        self.bisection: Any = None
        """The answer of the last bisection."""
        self.did: list[str] = []
        """The actions since the program was compiled, in order, each once."""
        self.before: Outcome | None = None
        """The facts of the build before the last one."""
        self.kept: dict[str, Run] = {}
        """Times and errors of earlier builds, by their settings in words."""
        self._lint: tuple[Any, Any] | None = None

    @property
    def build(self) -> Build | None:
        """The last build; it may be of other settings than the current ones."""
        return self._build

    @property
    def is_stale(self) -> bool:
        """Whether the settings have changed since the last build."""
        return self._build is not None and not self._is_built()

    def _is_built(self) -> bool:
        """Whether the build has the current settings; inputs do not count."""
        return self._built is not None and _of_build(self._built) == _of_build(self.settings)

    @property
    def timed(self) -> bool:
        """Whether the last result has timings; a device has them from a profile only."""
        on_device = self._build is not None and self._build.target.takes_device
        return self.result is not None and (self.profiled or not on_device)

    def do(self, action: str) -> Any:
        """Carry out an action by name.

        Raises:
            OperationError: There is no such action.
            WorkbenchError: It failed.
        """
        if action == AGAIN:
            return self.again()
        if action not in ACTIONS:
            raise OperationError(f"unknown action {action!r}; expected one of {', '.join(ACTIONS)}")
        actions: dict[str, Callable[[], Any]] = {
            "compile": self.compile,
            "run": self.run,
            "profile": lambda: self.run(profile=True),
            "compare": self.compare,
            "bisect": self.bisect,
        }
        found = actions[action]()
        self.did = [*(d for d in self.did if d != action), action]
        return found

    def again(self) -> Build:
        """Compile with the current settings, and run, profile and compare as before."""
        repeated = [action for action in self.did if action in ("run", "profile", "compare")]
        build = self.compile()
        for action in repeated:
            self.do(action)
        return build

    def compile(self) -> Build:
        """Compile the program with the current settings."""
        before = None if self._built is None else Outcome.of(self, self._built)
        made = compile(self.program, **self.settings.arguments())
        self.kept = dict([*self.runs().items()][-MOST_KEPT:])
        self.before, self._lint = before, None
        self._build, self._built = made, self.settings
        self.result, self.report, self.bisection, self.profiled = None, None, None, False
        self.did = []
        return made

    def ready(self) -> Build:
        """The build of the current settings; it is made if there is none."""
        if self._build is not None and self._is_built():
            return self._build
        return self.compile()

    def run(self, profile: bool = False) -> Result:
        """Run the build; a profile also times its parts."""
        build = self.ready()
        self.result = build.run(self._inputs(), profile=profile, seed=self.settings.seed)
        self.profiled = profile
        return self.result

    def compare(self) -> Any:
        """Compare each value of the build with the reference."""
        build = self.ready()
        self.report = showing.view("compare")(build, self._inputs(), seed=self.settings.seed)
        return self.report

    def bisect(self) -> Any:
        """Find the pass and the edit that change what the program computes."""
        arguments = self.settings.arguments()
        self.bisection = showing.view("bisect")(
            self.program, self._inputs(), seed=self.settings.seed, **arguments
        )
        return self.bisection

    def runs(self) -> dict[str, Run]:
        """The last times and errors of each build that has any, by its settings in words, this one last."""
        result = self.result if self.timed else None
        if self._built is None or (result is None and self.report is None):
            return self.kept
        own = self._built.words()
        others = {name: run for name, run in self.kept.items() if name != own}
        return others | {own: Run.of((result, self.report), own)}

    @property
    def change(self) -> str:
        """The difference that the last compilation made to the build, as far as both are known."""
        now = None if self._built is None else Outcome.of(self, self._built)
        return "" if now is None or self.before is None else now.change_from(self.before)

    def note(self) -> str:
        """The last finding in one line of words, after what the last compilation changed."""
        return ". ".join(filter(None, [self.change, self._finding()]))

    def _finding(self) -> str:
        if self.bisection is not None and self.did[-1:] == ["bisect"]:
            return str(self.bisection.summary)
        if self.report is not None and self.did[-1:] == ["compare"]:
            return str(self.report.summary)
        last = self.result if self.result is not None else self.build
        if last is not None:
            return repr(last).strip("<>")
        return f"{len(self.program.main):,} instructions; nothing is compiled yet"

    def lint(self) -> Any:
        """The findings of lint, with the times of the last profile; their texts name instructions by id."""
        assert self._build is not None
        result = self.result if self.profiled else None
        if result is not None and result.program is not self._build.program:
            result = None
        if self._lint is None or self._lint[0] is not result:
            with ids_kept():
                self._lint = (result, self._build.lint(result))
        return self._lint[1]

    def kernels(self) -> Kernels | None:
        """The kernels of the build, with the times of the last profile; None if its target has none."""
        if self._build is None or not self._build.target.takes_device:
            return None
        return self._build.kernels(self.result if self.profiled else None)

    def _inputs(self) -> dict[str, Any] | None:
        if self.given is not None:
            return by_name(self.given)
        path = self.settings.inputs
        return read_inputs(self.program, path) if path else None

    def code(self) -> str:
        """The Python that opens the program and repeats what was done, as a cell."""
        lines = ["import workbench as wb", ""]
        if self.source:
            lines.append(f"program = {self.source}")
        lines.append(self.settings.compile_code())
        inputs = self.settings.inputs_code()
        given = ", ".join(filter(None, [inputs, self._seed_code()]))
        calls = {
            "run": f"result = build.run({given})",
            "profile": f"result = build.run({', '.join(filter(None, [given, 'profile=True']))})",
            "compare": f"report = wb.compare({', '.join(filter(None, ['build', given]))})",
            "bisect": self._bisect_code(given),
        }
        shown = {
            "profile": "result.timings()",
            "compare": "report.culprits()",
            "bisect": "found.summary",
        }
        lines += [calls[a] for a in self.did if a in calls]
        last = self.did[-1] if self.did else "compile"
        return "\n".join(
            [*lines, shown.get(last, "result" if last == "run" else "build.explore()")]
        )

    def _seed_code(self) -> str:
        seed = self.settings.seed
        return f"seed={seed}" if seed and not self.settings.inputs else ""

    def _bisect_code(self, given: str) -> str:
        call = self.settings.compile_code().splitlines()[-1]
        arguments = call.partition("wb.compile(program, ")[2].removesuffix(")")
        return f"found = wb.bisect({', '.join(filter(None, ['program', given, arguments]))})"


def _of_build(settings: Settings) -> tuple[Any, ...]:
    """The settings on which a build depends."""
    s = settings
    return (s.target, s.device, s.precision, s.off, s.order)
