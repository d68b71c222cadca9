"""The embedded model's server process: llama.cpp serves one GGUF file until stdin closes.

Run as a script with two arguments, the weights and a chat template. It prints one line, the address on
which it listens. A process of its own because llama.cpp's server cannot be stopped safely inside
another program while it streams; ending a process can.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any


def main(weights: str, template: str) -> None:
    """Serve on a free port of 127.0.0.1, and leave when whoever started this is gone."""
    xllamacpp: Any = importlib.import_module("xllamacpp")  # it has no types, and tells checkers wrong ones

    # Ctrl-C reaches every process of a terminal. The parent decides: it closes stdin when it is done.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    params = xllamacpp.CommonParams()
    params.model.path = weights
    params.chat_template = Path(template).read_text()
    params.hostname, params.port = "127.0.0.1", 0
    params.n_ctx, params.n_parallel = 4096, 2  # shared out: 2048 tokens for each request
    params.cache_ram_mib = 0  # it would keep up to 8 GiB of prompts
    params.warmup, params.verbosity = False, 0
    # Two threads spin at a barrier, and crawl once a neighbour takes one of their cores.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)  # returns once the model is loaded
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # its destructor may hang while a client streams


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
