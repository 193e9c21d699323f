"""The folder of a federation that `python -m fedrule deploy init` writes: Flower app, certificates, keys, instructions.

app/                the Flower app: its configuration, two small modules, the vocabulary; `flwr run` sends it to all
tls/                the server's certificate and the authority that nodes trust
keys/               a private key for each node, and the public one that is registered
flower/             where `flwr` finds the server; flower/container/ the same within a container
docker-compose.yml  a server and a hub for every node
README.md           commands, and what to expose and what to block
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from datasets.common.errors import DataError, counted
from fedrule.flower import DAYS, LIMIT, PORT, RESEND
from fedrule.flower.certificates import ServerFiles, check_certificates, make_certificates, make_node_key
from fedrule.flower.messages import CLOCK_TOLERANCE, package_version
from fedrule.flower.vocabulary import FILE, Vocabulary

FLOWER = "1.41.0"
CONNECTION = "federation"  # the name of the server for `flwr`
HOSTS = ("localhost",)  # of a server that only its own machine reaches
LOOPBACK = "127.0.0.1"  # where the server listens, and where `flwr` reaches its control interface
CONTAINER = "server"  # the host by which containers reach it
MOST_PORT = 65535
MOST_DAYS = 3650  # of a certificate
# Keys, homes, and what a server or a node learns of them: not for a repository.
SECRETS = "keys/\ntls/*.key\nserver/\nserver.db*\nsuperlink/\nhomes/\nhub-*/\nstate/\nlogs/\nhomes-of-flower/\n"


@dataclass(frozen=True, slots=True)
class AppFolder:
    """Where things are in the folder."""

    path: Path

    @property
    def app(self) -> Path:
        return self.path / "app"

    @property
    def tls(self) -> ServerFiles:
        return ServerFiles(self.path / "tls")

    @property
    def flower(self) -> Path:
        """$FLWR_HOME of `flwr`."""
        return self.path / "flower"

    def key(self, node: int) -> Path:
        return self.path / "keys" / f"node-{node}"

    def check(self) -> None:
        """Refuse certificates that ran out or are not yet valid, and a folder that is not complete."""
        for path in (self.app / "pyproject.toml", self.tls.key):
            if not path.exists():
                raise DataError(f"{path}: no such file; `python -m fedrule deploy init {self.path}` writes it")
        check_certificates(self.tls.authority, self.tls.certificate)


@dataclass(frozen=True, slots=True)
class AppOptions:
    """What is configured."""

    method: str
    parameters: Mapping[str, object]
    nodes: int = 2
    seed: int = 0
    hosts: Sequence[str] = HOSTS  # names and addresses by which nodes reach the server
    port: int = PORT
    server_folder: str = "server"  # where the server keeps its files
    limit: float = LIMIT
    resend: float = RESEND
    days: float = DAYS  # that certificates are valid

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise DataError(f"nodes must be at least 1, got {self.nodes}")
        if not self.hosts:
            raise DataError("give at least one name or address of the server")
        for host in self.hosts:
            if not re.fullmatch(r"[A-Za-z0-9.:-]+", host):
                raise DataError(f"{host!r} is not a name or an address of a machine")
        if not 0 < self.days <= MOST_DAYS:
            raise DataError(f"days must be above 0 and at most {MOST_DAYS:,}, got {self.days:g}")
        if not 1 <= self.port <= MOST_PORT:
            raise DataError(f"port must be 1 to {MOST_PORT}, got {self.port}")

    @property
    def certified(self) -> list[str]:
        """Whom the certificate is for: also the server's own machine, and its container for the others."""
        return [*dict.fromkeys([*self.hosts, "localhost", LOOPBACK, CONTAINER])]


def check_new(folder: Path) -> None:
    """Refuse a folder with something in it, so that no key is overwritten."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: exists already; choose another folder: keys and certificates are never overwritten")


def write_app(folder: Path, vocabulary: Vocabulary, options: AppOptions) -> AppFolder:
    """Write a new folder."""
    check_new(folder)
    made = AppFolder(folder)
    package = made.app / "federation"
    package.mkdir(parents=True, exist_ok=True)
    (made.app / "pyproject.toml").write_text(app_configuration(options), "utf-8")
    (package / "__init__.py").write_text('"""A federation of fedrule."""\n', "utf-8")
    for side in ("client", "server"):
        (package / f"{side}.py").write_text(MODULE.format(side=side), "utf-8")
    vocabulary.write(package / FILE)
    make_certificates(made.tls.folder, options.certified, days=options.days)
    for node in range(options.nodes):
        make_node_key(made.key(node))
    write_connection(made, options.port)
    (folder / "docker-compose.yml").write_text(compose(options), "utf-8")
    (folder / "README.md").write_text(instructions(options), "utf-8")
    (folder / ".gitignore").write_text(SECRETS, "utf-8")
    return made


def write_connection(folder: AppFolder, port: int) -> None:
    """Tell `flwr` where the server is, on its own machine and within its container."""
    places = {folder.flower: folder.tls.authority.resolve(), folder.flower / "container": "/federation/tls/ca.crt"}
    for place, authority in places.items():
        place.mkdir(parents=True, exist_ok=True)
        lines = (
            "[superlink]",
            f"default = {json.dumps(CONNECTION)}",
            f"[superlink.{CONNECTION}]",
            f"address = {json.dumps(f'{LOOPBACK}:{port}')}",
            f"root-certificates = {json.dumps(str(authority))}",
        )
        (place / "config.toml").write_text("\n".join(lines) + "\n", "utf-8")


MODULE = '''"""The {side} of the federation."""

from pathlib import Path

from fedrule.flower.{side}_app import {side}_app

app = {side}_app(Path(__file__).parent)
'''


def app_configuration(options: AppOptions) -> str:
    """The pyproject.toml of the app."""
    values: dict[str, object] = {
        "method": options.method,
        "folder": options.server_folder,
        "nodes": options.nodes,
        "seed": options.seed,
        "wait": 600.0,
        "limit": options.limit,
        "resend": options.resend,
        "clock": CLOCK_TOLERANCE,
    }
    about = {
        "method": "a federated method of fedrule",
        "folder": "where the server keeps its run; a new run needs a new or an empty one",
        "nodes": "to wait for before the run begins",
        "seed": "of all random numbers",
        "wait": "seconds for the nodes to connect",
        "limit": "seconds for an answer; a node that takes longer has dropped out of the round",
        "resend": "seconds after which a request without an answer is sent again, then twice as many, and so on",
        "clock": "seconds that the clock of a node may be off",
    }
    lines = [f"{name} = {_toml(value)}  # {about[name]}" for name, value in values.items()]
    parameters = [f"{name} = {_toml(value)}" for name, value in options.parameters.items()]
    return f"""[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "federation"
version = "1.0.0"
description = "A federation of homes by fedrule {package_version()}"
license = "Apache-2.0"
dependencies = ["flwr>=1.41,<1.42"]

[tool.flwr.app]
publisher = "fedrule"

[tool.flwr.app.components]
serverapp = "federation.server:app"
clientapp = "federation.client:app"

[tool.flwr.app.config]
{chr(10).join(lines)}

[tool.flwr.app.config.parameters]  # of the method
{chr(10).join(parameters)}
"""


def _toml(value: object) -> str:
    if isinstance(value, bool | str | int | float):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    raise DataError(f"{value!r} cannot be written to a configuration; give a number or a text")


def compose(options: AppOptions) -> str:
    """A server and a hub for every node in containers."""
    hubs = "".join(
        HUB.format(node=node, hub=node + 1, port=options.port, host=CONTAINER) for node in range(options.nodes)
    )
    keys = "".join(
        f"\n      - ./keys/node-{node}.pub:/federation/keys/node-{node}.pub:ro" for node in range(options.nodes)
    )
    return COMPOSE.format(port=options.port, host=CONTAINER, hubs=hubs, keys=keys)


COMPOSE = """# A server and its hubs. Written by `python -m fedrule deploy init`; set FEDRULE to a checkout of fedrule.
# Hubs reach the server as "{host}", a name that is in its certificate.
x-image: &image
  build:
    context: ${{FEDRULE:?the folder of a checkout of fedrule}}
    dockerfile_inline: |
      FROM python:3.11-slim
      WORKDIR /fedrule
      COPY . .
      RUN pip install --no-cache-dir -c constraints-flower.txt -e ".[flower]"
      ENV FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
      ENV HOME=/tmp NUMBA_CACHE_DIR=/tmp/numba
      WORKDIR /federation
  restart: unless-stopped
  # Keys are readable by their owner only, and folders of hubs must be.
  user: "${{OWNER:?the owner of this folder, as id -u and id -g say, e.g. 1000:1000}}"

services:
  {host}:
    <<: *image
    # All addresses of the container, which only this network reaches. Nothing is published: for hubs elsewhere put a
    # proxy before it that lets /v1/fleet through and nothing else (README.md).
    command: >-
      flower-superlink --host 0.0.0.0 --port {port} --enable-supernode-auth
      --database /federation/superlink/superlink.db
      --ssl-ca-certfile /federation/tls/ca.crt --ssl-certfile /federation/tls/server.pem
      --ssl-keyfile /federation/tls/server.key --disable-runtime-dependency-installation
    environment: {{FLWR_HOME: /federation/flower}}
    volumes:
      - ./tls:/federation/tls:ro
      - ./app:/federation/app:ro
      - ./flower/container:/federation/flower
      - ./superlink:/federation/superlink
      - ./server:/federation/server{keys}
    expose: ["{port}"]
{hubs}"""

HUB = """
  hub-{hub}:
    <<: *image
    depends_on: [{host}]
    # Its owner may add to the node-config: require_secure=true max_epsilon=4.0 (README.md).
    command: >-
      flower-supernode --superlink {host}:{port} --root-certificates /federation/tls/ca.crt
      --auth-supernode-private-key /federation/key
      --node-config 'homes="/federation/homes.parquet" state="/federation/state"'
    volumes:
      - ./tls/ca.crt:/federation/tls/ca.crt:ro
      - ./keys/node-{node}:/federation/key:ro
      - ./homes/hub-{hub}.parquet:/federation/homes.parquet:ro
      - ./hub-{hub}:/federation/state
"""


def instructions(options: AppOptions) -> str:
    """The README.md of the folder."""
    host = options.hosts[0]
    register = "\n    ".join(
        f"flwr supernode register keys/node-{node}.pub {CONNECTION}" for node in range(options.nodes)
    )
    return INSTRUCTIONS.format(
        method=options.method,
        flower=FLOWER,
        host=host,
        port=options.port,
        register=register,
        connection=CONNECTION,
        days=f"{options.days:g}",
        nodes=counted(options.nodes, "node"),
        train="trains" if options.nodes == 1 else "train",
        hubs=counted(options.nodes, "hub"),
        loopback=LOOPBACK,
        version=package_version(),
    )


INSTRUCTIONS = """# A federation of fedrule {version} by Flower {flower}

{nodes} {train} `{method}`; the configuration is `app/pyproject.toml`. The certificates are for tests and valid for
{days} days; in production use your own authority, and make the key of each node on that node
(`ssh-keygen -t ecdsa -b 384 -N "" -f node-0`; only `node-0.pub` leaves it).

## Start
All machines have fedrule {version} with the extra flower (`pip install -c constraints-flower.txt -e ".[flower]"`) and
`FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1` in their environment.

The server, in this folder. It listens on {loopback}, where nodes of the same machine reach it (`localhost:{port}`). Do
not let it listen on other addresses: nodes of other machines come by way of a proxy, see below.

    flower-superlink --host {loopback} --port {port} --enable-supernode-auth --database server.db \\
      --ssl-ca-certfile tls/ca.crt --ssl-certfile tls/server.pem --ssl-keyfile tls/server.key \\
      --disable-runtime-dependency-installation

Register the nodes' public keys, once, on the server's machine:

    export FLWR_HOME=$PWD/flower
    {register}

Each node has `tls/ca.crt`, its own private key and its homes, and nothing else of this folder:

    flower-supernode --superlink {host}:{port} --root-certificates ca.crt --auth-supernode-private-key node-0 \\
      --node-config 'homes="homes.parquet" state="state"'

Several nodes on one machine need `--port` with a different number each: that of a node's own runtime interface.

`homes` is a .parquet file of homes, a .toml file that describes databases, a HOME.json, or the configuration folder of
a Home Assistant (with `unknown_names="ignore"`, since hardly any has known names only); `state` a folder that must
survive restarts and must not be shared. `first=N` fixes the number of the node's first home, and
`unknown_names="ignore"` leaves out devices and rules whose names the federation does not know. When a run is over the
node deletes its secrets; `*.homes`, `*.method`, `*.setup`, `*.states` and `*.sums` stay in `state`, as does everything
of a run whose end the node did not hear of. Nobody needs them unless that run goes on: delete them when you like.

What the owner of a node can ask for, in its node-config: `require_secure=true` refuses runs without secure sums, and
`max_epsilon=4.0` those without noise or with a larger epsilon; against the server itself only both together help, since
without secure sums the server adds the noise. The node logs what each run promises. **This binds the
app that fedrule writes, and not whoever runs the federation:** `flwr run` sends the app's code to the nodes, which run
it, so that a changed app can do there whatever the node's user may do. Take part where you trust who may call `flwr
run`, and start the node as a user who reads nothing but its own homes and state.

Train, on the server's machine:

    flwr run app {connection} --stream

The folder that the configuration names has the model (`model.safetensors`; `weights.npz` with the bare numbers), the
record of the rounds (`rounds.jsonl`), what the server does or why it failed (`status.json`) and the checkpoint. After a
crash of the server start it again and call `flwr run` again: it resumes after the last round that was finished, with
the same bits.

## What to expose, what to block
The server has three interfaces on one port:

| path | for | reachable from |
|---|---|---|
| `/v1/fleet` | nodes, which prove their key | the nodes: expose this one only |
| `/v1/control` | `flwr`: registers keys, **submits code that all machines run** | the server's machine only |
| `/v1/runtime` | processes that the server starts itself | the server's machine only |

The control interface has no authentication in the open build: whoever reaches it owns the federation. So the server
listens on {loopback}, and what listens outside is a proxy that lets `/v1/fleet` through and answers 404 to everything
else, e.g. nginx; ADDRESS is the address of this machine that nodes reach:

    server {{
        listen ADDRESS:{port} ssl;
        ssl_certificate tls/server.pem;
        ssl_certificate_key tls/server.key;
        client_max_body_size 0;
        location /v1/fleet/ {{
            proxy_pass https://{loopback}:{port};
            proxy_ssl_trusted_certificate tls/ca.crt;
            proxy_ssl_name {host};
            proxy_ssl_verify on;
        }}
        location / {{ return 404; }}
    }}

A node opens no port to the outside; its own runtime interface (port 9094) listens on {loopback} and is to stay there.

## Clocks
Nodes whose clock is more than `clock` seconds off are refused: certificates are valid between two points in time, and
a request is valid for `limit` seconds. Flower itself refuses nodes from 300 seconds on.

## Containers
`docker-compose.yml` has a server and {hubs}; it was checked as YAML only, not run. Within their network hubs reach the
server as `server`, which its certificate names; nothing is published. The containers run as the owner of this folder
(`export OWNER=$(id -u):$(id -g)`). Make their folders before: `mkdir -m 700 server superlink hub-1`, and one for every
further hub; a hub refuses one that others can read. `superlink` has the registered keys: keep it when you empty
`server` for a new run. `flwr` runs in the server's container:
`docker compose exec server flwr supernode register keys/node-0.pub {connection}` for each node, then
`docker compose exec server flwr run app {connection} --stream`.
"""
