"""Command line: `python -m selvedge_ml train|evaluate|export|push|serve|work`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import sources
from .model import Data, ModelError, load
from .predictors import EPOCHS, KINDS
from .series import DataError
from .training import Order, train

EXIT_BAD_INPUT = 2


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; 2 where what it was given is wrong."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except (DataError, ModelError, OSError) as error:
        print(f"selvedge_ml: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m selvedge_ml", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("train", help="train a model, or go on with one")
    command.set_defaults(run=_train)
    command.add_argument("--kind", required=True, choices=KINDS)
    command.add_argument(
        "--data", required=True, type=Path, help="readings as Occupancy Detection or SKAB publish them"
    )
    command.add_argument("--out", required=True, type=Path, help="folder for the model")
    command.add_argument("--seed", type=_whole_number, default=1)
    command.add_argument(
        "--epochs", type=_whole_number, help=f"default: {', '.join(f'{k} {n}' for k, n in EPOCHS.items())}"
    )
    command.add_argument("--name", help="default: office-climate, or that of the model of --from")
    command.add_argument("--version", default="1")
    command.add_argument("--from", dest="start", type=Path, help="folder of a model to go on with")

    command = commands.add_parser("evaluate", help="how good the models are, beside naive ones")
    command.set_defaults(run=_evaluate)
    command.add_argument("--data", required=True, type=Path, help="folder with occupancy/, skab/ and nab/")
    command.add_argument("--out", required=True, type=Path, help="folder for results.json and the plots")
    command.add_argument("--seeds", type=_whole_number, default=5)
    command.add_argument("--quick", action="store_true", help="two seeds, a quarter of the epochs, fewer files")

    command = commands.add_parser("export", help="write model.onnx and model.json")
    command.set_defaults(run=_export)
    command.add_argument("model", type=Path, help="folder of `train`")
    command.add_argument("--out", required=True, type=Path)

    command = commands.add_parser("push", help="put an exported model into an OCI registry")
    command.set_defaults(run=_push)
    command.add_argument("model", type=Path, help="folder of `export`")
    command.add_argument("url", help="http://HOST:PORT/models/NAME:VERSION")

    command = commands.add_parser("serve", help="windows as JSON lines in, scores out: the baseline of measurements")
    command.set_defaults(run=_serve)
    command.add_argument("--runtime", required=True, choices=("keras", "onnxruntime"))
    command.add_argument("model", type=Path, help="folder of `train` for keras, of `export` for onnxruntime")

    command = commands.add_parser("work", help="train or predict again and again: what `selvedge evaluate` measures")
    command.set_defaults(run=_work)
    command.add_argument("--kind", required=True, choices=KINDS)
    command.add_argument("--task", required=True, choices=("training", "prediction"))
    command.add_argument("--data", required=True, type=Path, help="readings as Occupancy Detection publishes them")
    command.add_argument("--directory", required=True, type=Path, help="where it is told to go, and leaves its turns")
    command.add_argument("--number", required=True, type=_whole_number, help="by which its files are known")
    command.add_argument("--epochs", type=_whole_number, default=1, help="of a training")
    command.add_argument("--predictions", type=_whole_number, default=100, help="of a turn")
    return parser


def _train(options: argparse.Namespace) -> None:
    from .plots import course_plot

    series = sources.read(options.data)
    start = load(options.start) if options.start else None
    name = options.name or (start.description.name if start else "office-climate")
    order = Order(options.kind, name, options.version, options.seed, options.epochs or EPOCHS[options.kind])

    def told(epoch: int, epochs: int, loss: float, held_out_loss: float) -> None:
        # A terminal has one line that changes, a log a line an epoch.
        start, end = ("\r", "\n" if epoch == epochs else "") if sys.stderr.isatty() else ("", "\n")
        words = f"{order.kind}: epoch {epoch} of {epochs}, loss {loss:.4f}, held out {held_out_loss:.4f}"
        print(start + words, end=end, file=sys.stderr, flush=True)

    model, course = train(order, series, (Data.of(options.data, series),), start, told)
    model.save(options.out)
    course_plot(model.description, course, options.out / "loss.png")
    print(
        f"{options.out}: {name}:{options.version}, anomalous above {model.description.threshold:.3f}", file=sys.stderr
    )


def _evaluate(options: argparse.Namespace) -> None:
    from .evaluate import evaluate

    evaluate(options.data, options.out, seeds=options.seeds, quick=options.quick)


def _export(options: argparse.Namespace) -> None:
    from .export import export

    export(load(options.model), options.out)
    print(f"{options.out}: model.onnx and model.json", file=sys.stderr)


def _push(options: argparse.Namespace) -> None:
    from .oci import push

    print(push(options.model, options.url))


def _serve(options: argparse.Namespace) -> None:
    from .serve import serve

    serve(options.runtime, options.model, sys.stdin, sys.stdout)


def _work(options: argparse.Namespace) -> None:
    from .work import Work, serve

    work = Work(options.kind, options.task, options.epochs, options.predictions)
    try:
        serve(work, sources.read(options.data), options.directory, options.number)
    except (DataError, OSError) as error:
        # Who waits for its turns does not see what it prints.
        (options.directory / f"failed-{options.number}").write_text(str(error))
        raise


def _whole_number(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: is to be 1 or more")
    return number


if __name__ == "__main__":
    sys.exit(main())
