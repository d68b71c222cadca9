"""The command `mule`: one question, one run of the loop, shown as it goes."""

from __future__ import annotations

import argparse
import functools
import os
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from io import TextIOWrapper
from typing import Any, get_args

import anyio
from returns.pipeline import is_successful

from mule import __version__
from mule.cli._explain import READER_GONE, exit_status, explain
from mule.cli._interrupt import until_interrupted
from mule.cli._show import JsonShow, TextShow
from mule.cli._spec import api_key, load_tool, parse_model
from mule.cli.local import local_model
from mule.effect import run
from mule.ports import MuleListener, MuleStreamFunction, MuleTool
from mule.results import settle
from mule.settings import MuleRunInput
from mule.values.errors import MuleError
from mule.values.messages import UserMessage
from mule.values.model import Model, ModelThinkingLevel
from mule.values.request import SimpleStreamOptions


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and give its exit status.

    0: answered. 1: the run failed. 2: it was called wrongly, or something is not installed. 130: Ctrl-C.
    """
    arguments = _parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        return anyio.run(until_interrupted, functools.partial(_run, arguments))
    except KeyboardInterrupt:  # before the run's own way with it was in place
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mule", description="A model/tool loop.")
    parser.add_argument("--version", action="version", version=f"mule {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run",
        help="ask a question and show the run",
        description="Ask a question and show the run: the answer as it comes, each tool call and result.",
        epilog="The key for an endpoint is read from MULE_API_KEY or OPENAI_API_KEY.",
    )
    run.add_argument("question")
    run.add_argument(
        "--model",
        required=True,
        metavar="SPEC",
        help="local (the embedded model), or openai-completions:MODEL@BASE_URL",
    )
    run.add_argument(
        "--tool",
        action="append",
        default=[],
        metavar="MODULE:NAME",
        help="a tool, or a function with types; may be given more than once",
    )
    run.add_argument("--system", metavar="TEXT", help="the system prompt")
    run.add_argument("--json", action="store_true", help="print the run's events, one JSON object a line")
    run.add_argument("--max-tokens", type=_positive, metavar="N", help="the longest answer, in tokens")
    run.add_argument(
        "--reasoning",
        choices=get_args(ModelThinkingLevel),
        default="off",
        metavar="LEVEL",
        help=f"how much to think: {', '.join(get_args(ModelThinkingLevel))}",
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


async def _run(arguments: argparse.Namespace) -> int:
    try:
        model = parse_model(arguments.model, reasoning=arguments.reasoning != "off")
        tools = tuple(load_tool(spec) for spec in arguments.tool)
        async with AsyncExitStack() as held:
            stream: MuleStreamFunction | None = None
            if model is None:
                local = await held.enter_async_context(local_model())
                model, stream = local.model, local.stream
            input = _input(arguments, model, stream, tools)
            result = await settle(run(input, _listener(arguments, priced=stream is not None)))
    except MuleError as exc:
        return _failed(exc)
    return 0 if is_successful(result) else _failed(result.failure())


def _input(
    arguments: argparse.Namespace,
    model: Model[Any],
    stream: MuleStreamFunction | None,
    tools: tuple[MuleTool, ...],
) -> MuleRunInput:
    return MuleRunInput(
        model=model,
        stream=stream,
        system_prompt=arguments.system,
        prompts=(UserMessage(content=arguments.question, timestamp=round(time.time() * 1000)),),
        tools=tools,
        reasoning=arguments.reasoning,
        options=SimpleStreamOptions(api_key=api_key(), max_tokens=arguments.max_tokens),
    )


def _listener(arguments: argparse.Namespace, *, priced: bool) -> MuleListener:
    return JsonShow(sys.stdout.buffer) if arguments.json else TextShow(sys.stdout, priced=priced)


def _failed(error: MuleError) -> int:
    status = exit_status(error)
    if status == READER_GONE:
        # Nobody reads on; Python would still try to flush what it holds, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    else:
        print(f"mule: {explain(error)}", file=sys.stderr)
    return status
