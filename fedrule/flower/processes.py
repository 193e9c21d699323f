"""A server and nodes of Flower as real processes on this machine, with TLS and node keys.

Everything listens on 127.0.0.1. Flower's processes start others, which outlive a parent that is killed for a moment;
all of them carry a mark in their environment by which `stop` finds those that are left.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from datasets.common.environment import thread_variables
from datasets.common.errors import DataError, install_hint
from fedrule.flower.app_folder import CONNECTION, LOOPBACK, AppFolder, write_connection

MARK = "FEDRULE_DEPLOYMENT"
START_SECONDS = 60.0
STOP_SECONDS = 15.0
RESTART_SECONDS, RESTART_PAUSE = 600.0, 5.0
ACTIVATED = "Activated node_id"  # what the server logs when it lets a node in


@dataclass
class Deployment:
    """The processes of a federation in an app folder; a context manager that stops them all."""

    folder: AppFolder
    port: int = field(default_factory=lambda: free_port())
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: secrets.token_hex(8))

    def __enter__(self) -> Deployment:
        self.folder.check()
        check_installed()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start_server(self) -> None:
        """Start the server and wait until it listens."""
        tls = self.folder.tls
        self._start(
            "server",
            "flower-superlink",
            *("--host", LOOPBACK, "--port", str(self.port), "--enable-supernode-auth"),
            *("--database", str(self.folder.path / "superlink.db"), "--disable-runtime-dependency-installation"),
            *("--ssl-ca-certfile", str(tls.authority), "--ssl-certfile", str(tls.certificate)),
            *("--ssl-keyfile", str(tls.key)),
        )
        write_connection(self.folder, self.port)
        self._wait_for_port("server", self.port)

    def register(self, node: int) -> int:
        """Make the key of a node known to the server; Flower's number of the node."""
        content = json.loads(
            self.flwr("supernode", "register", f"{self.folder.key(node)}.pub", CONNECTION, "--format", "json")
        )
        if not content.get("success"):
            raise DataError(f"node {node} cannot be registered: {content.get('error-message', content)}")
        return int(content["node-id"])

    def start_node(self, node: int, config: str, *, arguments: Sequence[str] | None = None) -> None:
        """Start a node with this node-config; `arguments` in place of those that name authority and key."""
        if arguments is None:
            own_key = ("--auth-supernode-private-key", str(self.folder.key(node)))
            arguments = ("--root-certificates", str(self.folder.tls.authority), *own_key)
        port = ("--port", str(free_port()))
        server = ("--superlink", f"{LOOPBACK}:{self.port}")
        self._start(f"node-{node}", "flower-supernode", *server, *port, *arguments, "--node-config", config)

    def restart_node(self, node: int, config: str) -> None:
        """Start a node that was killed, again and again until the server lets it in.

        Flower holds a node for connected until its heartbeats are missed, a minute or two, and refuses a second one
        with its key until then (exit code 305). On real nodes a service manager does the same.
        """
        end = time.monotonic() + RESTART_SECONDS
        while time.monotonic() < end:
            before = self.log_of("server").count(ACTIVATED)
            self.start_node(node, config)
            process = self.processes[f"node-{node}"]
            while process.poll() is None and self.log_of("server").count(ACTIVATED) == before:
                if time.monotonic() > end:
                    break
                time.sleep(0.5)
            if process.poll() is None:
                return
            time.sleep(RESTART_PAUSE)
        raise DataError(f"node {node} is not let in again; see {self.log_file(f'node-{node}')}")

    def run(self) -> int:
        """Submit the app; Flower's number of the run."""
        content = json.loads(self.flwr("run", str(self.folder.app), CONNECTION, "--format", "json"))
        if not content.get("success"):
            raise DataError(f"the app cannot be run: {content.get('error-message', content)}")
        return int(content["run-id"])

    def status(self, run: int) -> str:
        """Of a run: pending, starting, running or finished:..."""
        content = json.loads(self.flwr("list", CONNECTION, "--run-id", str(run), "--format", "json"))
        runs = content.get("runs", [])
        return str(runs[0]["status"]) if runs else "unknown"

    def check_running(self) -> None:
        """An error that names the process that has ended by itself."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise DataError(f"{name} ended with code {process.returncode}: {self._last_words(name)}")

    def _last_words(self, name: str) -> str:
        """The last line of a log that is not of a traceback, and where the rest is."""
        return f"{last_line(self.log_of(name)) or 'it said nothing'} (log: {self.log_file(name)})"

    def write_log(self, name: str, text: str) -> Path:
        path = self.log_file(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def log_of(self, name: str) -> str:
        path = self.log_file(name)
        return path.read_text("utf-8", errors="replace") if path.exists() else ""

    def log_file(self, name: str) -> Path:
        return self.folder.path / "logs" / f"{name}.log"

    def kill(self, name: str) -> None:
        """End a process at once, with all that it started: what a power failure does."""
        process = self.processes.pop(name)
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        for pid in self._marked(name):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        """End all processes, nodes first, and wait until they are gone."""
        ordered = sorted(self.processes.items(), key=lambda each: each[0] == "server")
        for name, process in ordered:
            if name != "server":
                process.terminate()
        for name, process in ordered:
            if name == "server":
                process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
            if process.poll() is None:
                process.kill()
                process.wait()
        self.processes.clear()
        for pid in self._marked(None):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def flwr(self, *arguments: str) -> str:
        """The output of `flwr`."""
        made = subprocess.run(
            [self._program("flwr"), *arguments],
            env=self._environment("flwr", self.folder.flower),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if not made.stdout.strip():
            where = self.write_log("flwr", made.stderr)
            raise DataError(f"flwr {arguments[0]} failed: {last_line(made.stderr)} (log: {where})")
        return made.stdout

    def _start(self, name: str, program: str, *arguments: str) -> None:
        home, log = self.folder.path / "homes-of-flower" / name, self.log_file(name)
        home.mkdir(parents=True, exist_ok=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            self.processes[name] = subprocess.Popen(
                [self._program(program), *arguments],
                env=self._environment(name, home),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=self.folder.path,
                start_new_session=True,  # Ctrl-C reaches only us, and we stop them in order
            )

    def _wait_for_port(self, name: str, port: int) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if self.processes[name].poll() is not None:
                raise DataError(f"the {name} did not start: {self._last_words(name)}")
            with suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1):
                return
            time.sleep(0.2)
        raise DataError(f"the {name} does not listen after {START_SECONDS:g} seconds; see {self.log_file(name)}")

    def _environment(self, name: str, home: Path) -> dict[str, str]:
        return {
            **os.environ,
            **thread_variables(1),
            "PATH": search_path(),
            "FLWR_HOME": str(home.resolve()),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "PYTHONUNBUFFERED": "1",
            MARK: f"{self.mark}.{name}.",
        }

    def _program(self, name: str) -> str:
        return shutil.which(name, path=search_path()) or name

    def _marked(self, name: str | None) -> Iterator[int]:
        """Processes that this deployment, or one of its processes, has started and that are still there."""
        wanted = f"{MARK}={self.mark}.{'' if name is None else name + '.'}".encode()
        for entry in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError, ValueError):
                if any(each.startswith(wanted) for each in entry.read_bytes().split(b"\0")):
                    yield int(entry.parent.name)


def search_path() -> str:
    """$PATH with the programs beside this interpreter, which Flower's processes look for by name."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def check_installed() -> None:
    """An error where Flower is not there."""
    if shutil.which("flower-superlink", path=search_path()) is None:
        raise DataError(f"flower-superlink is not installed; it comes with {install_hint('flower')}")


def last_line(text: str) -> str:
    """The last line with words, without those of a traceback and the frames that Flower draws around messages."""
    lines = [
        line.strip("\u2502\u256d\u2570\u256e\u256f\u2500 \t") for line in text.splitlines() if not line.startswith("  ")
    ]
    return next((line for line in reversed(lines) if any(letter.isalpha() for letter in line)), "")


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
