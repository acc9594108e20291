"""The `workbench` command: each subcommand prints for people, or JSON with --json."""

import os
import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from workbench.cli_builds import kernels, memory, tune, why_not
from workbench.cli_faults import bisect, minimise
from workbench.cli_models import diff, export, lint, report
from workbench.cli_options import (
    Disable,
    Inputs,
    Json,
    Keep,
    Model,
    Passes,
    Precision,
    Seed,
    Target,
    names_of,
)
from workbench.cli_output import plain, print_json, print_table, rows_of, write, write_arrays
from workbench.cli_serving import serve_bench
from workbench.cli_values import compare, inspect
from workbench.knobs import OptionError, knobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.compiler.builds.build import Build
    from workbench.compiler.ir.dtypes import Array
    from workbench.compiler.ir.program import Program

app = typer.Typer(
    help="See a neural-network compiler think: read, compile and run ONNX models, and look inside.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Check = Annotated[
    bool, typer.Option("--check", help="Run after every pass, and stop where a result changes.")
]
Pipe = Annotated[str | None, typer.Option(help="Print this pipeline's passes in order.")]
Lowering = Annotated[
    bool,
    typer.Option("--lowering", help="Print what each instruction became on the target's device."),
]


def main(arguments: list[str] | None = None) -> None:
    """Runs the command; an error that a user can cause is one message and exit code 1."""
    from workbench.compiler.errors import WorkbenchError

    try:
        app(args=arguments, prog_name="workbench")
    except (WorkbenchError, OptionError, OSError) as error:
        typer.echo(f"workbench: {error}", err=True)
        sys.exit(1)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """See a neural-network compiler think: read, compile and run ONNX models, and look inside."""
    if show:
        from workbench import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.command()
def lab(
    notebook: Annotated[Path, typer.Argument(help="What to open.")] = Path(),
    browser: Annotated[
        bool | None,
        typer.Option(
            help="Open a browser; by default where there is a display.", show_default=False
        ),
    ] = None,
) -> None:
    """Opens JupyterLab; on a machine without a display it prints the address instead."""
    if not notebook.exists():
        raise FileNotFoundError(f"{notebook}: no such file or folder")
    command = [sys.executable, "-m", "jupyterlab", *_place(notebook.resolve())]
    if not (_has_display() if browser is None else browser):
        command.append("--no-browser")
    if sys.platform != "win32" and os.geteuid() == 0:
        command.append("--allow-root")
    sys.stdout.flush()
    os.execv(sys.executable, command)


def _place(notebook: Path) -> list[str]:
    """Arguments that make the printed address point to the notebook itself."""
    here = Path.cwd()
    root = here if notebook.is_relative_to(here) else notebook.parent
    address = f"/lab/tree/{quote(notebook.relative_to(root).as_posix())}"
    return [f"--ServerApp.root_dir={root}", f"--LabApp.default_url={address}"]


def _has_display() -> bool:
    return sys.platform in {"darwin", "win32"} or bool(knobs.display or knobs.wayland_display)


@app.command()
def read(
    model: Model,
    json: Json = False,
    svg: Annotated[Path | None, typer.Option(help="Write the graph as a picture.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the graph as an offline page.")] = None,
    dot: Annotated[Path | None, typer.Option(help="Write the graph for Graphviz.")] = None,
) -> None:
    """Prints a model's program in the text form."""
    program = _program(model)
    if svg or html or dot:
        from workbench.widgets import GraphView

        view = GraphView(program)
        write(svg, view.to_svg)
        write(html, view.to_html)
        write(dot, view.to_dot)
    elif json:
        print_json(_described(program))
    else:
        typer.echo(str(program).rstrip("\n"))


@app.command()
def compile(
    model: Model,
    target: Target = "auto",
    passes: Passes = None,
    disable: Disable = None,
    precision: Precision = None,
    keep: Keep = None,
    check: Check = False,
    json: Json = False,
    html: Annotated[Path | None, typer.Option(help="Write the pass explorer, offline.")] = None,
    text: Annotated[bool, typer.Option("--text", help="Print the compiled program.")] = False,
    lowering: Lowering = False,
) -> None:
    """Compiles a model and prints what each pass did."""
    build = _build(model, target, passes, precision, names_of(disable), check, keep or ())
    if html:
        write(html, build.explore().to_html)
    lowered = build.recording.lowered
    if json:
        table = rows_of(build.recording.table())
        made = {"target": build.target.name, "passes": table, "program": _described(build.program)}
        print_json(made | ({} if lowered is None else {"lowering": asdict(lowered)}))
    elif lowering:
        typer.echo(_lowering(build).rstrip("\n"))
    elif text:
        typer.echo(str(build.program).rstrip("\n"))
    elif not html:
        print_table(build.recording.table())
        if lowered is not None:
            typer.echo(f"lowering: {lowered.summary}")


def _lowering(build: "Build") -> str:
    from workbench.compiler.errors import OperationError

    lowered = build.recording.lowered
    if lowered is None:
        raise OperationError(
            f"target {build.target.name!r} lowers nothing: {build.runner.name} runs programs as they are"
        )
    return lowered.text


@app.command()
def run(
    model: Model,
    inputs: Inputs = None,
    target: Target = "auto",
    precision: Annotated[
        str | None, typer.Option(help="fp16, bf16, or float64 for every float in double precision.")
    ] = None,
    keep: Keep = None,
    repetitions: Annotated[
        int, typer.Option(min=1, help="Runs to time, after one to warm up.")
    ] = 3,
    seed: Seed = 0,
    output: Annotated[Path | None, typer.Option(help="Write the outputs as an .npz file.")] = None,
    json: Json = False,
) -> None:
    """Runs a model and prints its outputs and how long each part took."""
    double = precision == "float64"
    build = _build(model, target, None, None if double else precision, keep=keep or ())
    result = build.run(
        _inputs(inputs, build.program),
        profile=True,
        repetitions=repetitions,
        precision="float64" if double else "float32",
        seed=seed,
        progress=False if json else None,
    )
    outputs = {name: result[name] for name in result}
    if output:
        write_arrays(output, outputs)
    facts = [_facts(name, value) for name, value in outputs.items()]
    if json:
        print_json(
            {"target": build.target.name, "outputs": facts, "timings": rows_of(result.timings())}
        )
        return
    for fact in facts:
        typer.echo("{output}: {type} {lens}, from {min:.6g} to {max:.6g}".format(**fact))
    print_table(result.timings())


app.command()(bisect)
app.command()(compare)
app.command()(inspect)
app.command()(report)
app.command()(diff)
app.command()(minimise)
app.command()(export)
app.command()(lint)
app.command()(kernels)
app.command()(tune)
app.command()(memory)
app.command("why-not")(why_not)
app.command("serve-bench")(serve_bench)


@app.command(
    context_settings={
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "help_option_names": [],
    }
)
def driver(context: typer.Context) -> None:
    """Does what MIGraphX's driver does, with its commands and options; see `driver --help`."""
    from workbench.compat.migraphx.driver import main as drive

    raise typer.Exit(drive(context.args))


@app.command()
def passes(pipeline: Pipe = None, json: Json = False) -> None:
    """Lists every pass, what it does and its options; or the passes of one pipeline, in order."""
    import workbench as wb

    if pipeline is not None:
        from workbench.compiler.passes.pipelines import pipeline_named

        found = pipeline_named(pipeline)
        if json:
            print_json(rows_of(found.table()))
        else:
            typer.echo(found.tree())
        return
    rows: list[dict[str, Any]] = [
        {
            "pass": name,
            "does": (kind.__doc__ or "").strip().split("\n")[0],
            "options": {f.name: f.default for f in fields(kind)},
            "apart": kind.apart,
        }
        for name, kind in wb.passes().items()
    ]
    if json:
        print_json(rows)
        return
    width = max(len(row["pass"]) for row in rows)
    for row in rows:
        options = ", ".join(f"{name}={value}" for name, value in row["options"].items())
        typer.echo(f"{row['pass']:<{width}}  {row['does']}" + (f" ({options})" if options else ""))
        if row["apart"]:
            typer.echo(f"{'':<{width}}  no target's: {row['apart']}")


@app.command()
def targets(json: Json = False) -> None:
    """Lists what can run here, and why the rest cannot."""
    import workbench as wb

    table = wb.targets()
    if json:
        print_json(rows_of(table))
    else:
        print_table(table)


OnHost = Annotated[
    bool, typer.Option("--on-host", help="List the operations that no kernel computes instead.")
]


@app.command()
def devices(json: Json = False, on_host: OnHost = False) -> None:
    """Lists the devices that kernels can run on here, and what the other kinds lack."""
    from workbench.gpu.devices.registry import available
    from workbench.gpu.report import coverage

    if on_host:
        left = [asdict(row) for row in coverage.on_host()]
        if json:
            print_json(left)
        for row in () if json else left:
            forms = f"{row['on_host']} of {row['samples']} forms"
            typer.echo(f"{row['name']:<20} {forms:<16} {row['reason']}")
        return
    rows = [asdict(row) for row in available()]
    if json:
        print_json(rows)
        return
    for row in rows:
        typer.echo(f"{row['device']:<10} {row['missing'] and 'not here: '}{_device(row)}")


def _device(row: dict[str, Any]) -> str:
    facts = "{name}, {arch}, {processor}, {compute_units} compute units, {memory}; {version}"
    return row["missing"] or facts.format(**row)


def _program(model: Path) -> "Program":
    import workbench as wb
    from workbench.compiler.builds.models import STABLEHLO, TFLITE, read_model

    known = {*STABLEHLO, TFLITE}
    return read_model(model) if model.suffix in known else wb.parse_onnx(model)


def _build(
    model: Path,
    target: str,
    passes: str | None,
    precision: str | None,
    disable: "Sequence[str]" = (),
    check: bool = False,
    keep: "Sequence[str]" = (),
) -> "Build":
    import workbench as wb

    program = _program(model)
    options: dict[str, Any] = {"target": target, "disable": disable, "keep": keep}
    if passes is not None:
        options["passes"] = names_of(passes)
    if check:
        options["check"] = {}  # all inputs are generated
    if precision is not None:
        options["precision"] = precision
    return wb.compile(program, **options)


def _inputs(path: Path | None, program: "Program") -> "dict[str, Array]":
    from workbench.compiler.files.npz import read_npz

    return {} if path is None else read_npz(path, program.parameters)


def _described(program: "Program") -> list[dict[str, Any]]:
    from workbench.compiler.text import printing as text

    named = text.names(program)
    return [
        {
            "name": named[instruction.id],
            "id": instruction.id,
            "module": module.name,
            "operation": instruction.name,
            "attributes": {k: plain(v) for k, v in instruction.op.attributes().items()},
            "inputs": [named[value.id] for value in instruction.inputs],
            "modules": [body.name for body in instruction.modules],
            "shape": str(instruction.shape),
            "sources": list(instruction.sources),
        }
        for module in program.modules.values()
        for instruction in module
    ]


def _facts(name: str, value: "Array") -> dict[str, Any]:
    numbers = value.astype("float64") if value.size else None
    return {
        "output": name,
        "type": str(value.dtype),
        "lens": list(value.shape),
        "min": float(numbers.min()) if numbers is not None else float("nan"),
        "max": float(numbers.max()) if numbers is not None else float("nan"),
    }


if __name__ == "__main__":
    main()
