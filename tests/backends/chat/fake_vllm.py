"""What the command `vllm` looks like to us: its options, a process of its own beside it, health after a while."""

import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

N_UNHEALTHY = 2
"""Looks at its health that are answered with 503 before it is ready."""


def script_in(folder: Path, *, broken: bool = False, stubborn: bool = False) -> Path:
    """An executable `vllm` in a folder; it notes what it was asked and its processes in `started.json` there.

    A broken one says why on its log and ends at once; a stubborn one does not listen to SIGTERM.
    """
    path = folder / "vllm"
    call = f"main({str(folder / 'started.json')!r}, broken={broken}, stubborn={stubborn})"
    root = Path(__file__).resolve().parents[3]
    lines = [f"#!{sys.executable}", f"import sys; sys.path.insert(0, {str(root)!r})"]
    path.write_text("\n".join([*lines, f"from {__name__} import main", call]) + "\n", encoding="utf-8")
    path.chmod(0o755)
    return path


class _Handler(http.server.BaseHTTPRequestHandler):
    n_looks = 0
    model = ""
    tells_cached_tokens = False

    def do_GET(self) -> None:
        if self.path == "/health":
            _Handler.n_looks += 1
            self._send(200 if self.n_looks > N_UNHEALTHY else 503, {})
        else:
            self._send(200, {"object": "list", "data": [{"id": self.model}]})

    def do_POST(self) -> None:
        json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        details = {"cached_tokens": 1} if self.tells_cached_tokens else None
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": details}
        self._send(200, {"choices": [{"message": {"content": "a fake"}}], "usage": usage})

    def _send(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def main(note: str, *, broken: bool, stubborn: bool) -> None:
    """Serves until it is stopped."""
    import signal

    if broken:
        sys.exit("ValueError: the model needs 99 GiB of GPU memory")
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    core = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    Path(note).write_text(json.dumps({"arguments": sys.argv[1:], "pids": [os.getpid(), core.pid]}), encoding="utf-8")
    options = dict(zip(sys.argv, sys.argv[1:], strict=False))
    _Handler.model = options["--served-model-name"]
    _Handler.tells_cached_tokens = "--enable-prompt-tokens-details" in sys.argv
    server = http.server.ThreadingHTTPServer((options["--host"], int(options["--port"])), _Handler)
    threading.Thread(target=server.serve_forever).start()
