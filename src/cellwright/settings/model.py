"""Names, types, bounds and defaults of all settings. Where their values come from is in ``load``."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from cellwright.settings.paths import default_storage

__all__ = [
    "Action",
    "ApprovalRules",
    "ConnectionKind",
    "ConnectionSettings",
    "GallerySettings",
    "JupyterServerSettings",
    "Rule",
    "Settings",
    "Size",
]
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", re.IGNORECASE)

_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


def size_bytes(value: Any) -> Any:
    """A written size in bytes; anything else as it is, for whoever checks it."""
    if isinstance(value, str) and (match := _SIZE.fullmatch(value)) is not None:
        return int(float(match[1]) * _UNITS[match[2].lower()])
    return value


Size: TypeAlias = Annotated[int, BeforeValidator(size_bytes, json_schema_input_type=str | int)]


# The settings that are about one-shot runs alone. Part of ``model``; what they mean is said in
# ``tools.scripts``.

Seconds = Annotated[float, Field(gt=0, le=7 * 24 * 3600)]


class RunSettings(BaseSettings):
    """How long scripts run, how many at once, and what is kept of them."""

    run_timeout_s: Seconds = 60
    """How long a one-shot run may take, and does where it does not say."""

    max_runs: int = Field(default=8, ge=1, le=1_000)
    """One-shot runs at once; the rest waits for its turn."""

    max_run_disk: int = Field(default=100 * 1024**2, ge=1024**2)
    """What the directory of a one-shot run may hold, in bytes or as ``"100MB"``; never more than ``max_session_disk``."""

    max_kept_runs: int = Field(default=100, ge=1, le=100_000)
    """Runs whose files are kept in ``runs/`` of the data directory; the oldest go first."""

    max_kept_run_bytes: int = Field(default=1024**3, ge=1024**2)
    """What those files may take together, in bytes or as ``"1GB"``."""

    keep_runs_s: Seconds = 7 * 24 * 3600
    """How long those files are kept."""

    @field_validator("max_run_disk", "max_kept_run_bytes", mode="before")
    @classmethod
    def _bytes_of_runs(cls, value: Any) -> Any:
        return size_bytes(value)


# Where templates of others are offered; what a source may be is said in ``templates.galleries``.


class GallerySettings(BaseModel):
    """A gallery of templates: its source as a text, or ``[[templates]]`` in a settings file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str = Field(min_length=1, max_length=2_000)
    signers: Path | None = None
    """A file of allowed signers, as git has them; the index must then be signed by one of those."""

    @field_validator("signers")
    @classmethod
    def _at_home(cls, value: Path | None) -> Path | None:
        return value.expanduser().absolute() if value is not None else None


def _gallery(value: Any) -> Any:
    return {"source": value} if isinstance(value, str) else value


# The settings that are about models alone. Part of ``model``; what they mean is said in ``agent.models``.

_ModelSeconds = Annotated[float, Field(gt=0, le=24 * 3600)]

Dollars = Annotated[float, Field(ge=0, le=1_000_000)]


class ModelRowSettings(BaseModel):
    """A model that the table lacks or has otherwise: ``[model_rows."provider:name"]`` in a settings file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str | None = None
    context_tokens: int = Field(default=128_000, ge=1_000)
    output: Literal["native", "tool", "prompted"] = "prompted"
    tools: Literal["many", "one", "none"] = "many"
    context: Literal["json", "block"] = "block"
    pictures: bool = False
    thinking: bool = False
    temperature: float | None = Field(default=None, ge=0, le=2)
    price_in: Dollars = 0
    price_out: Dollars = 0
    price_cached: Dollars = 0


class ModelsSettings(BaseSettings):
    """Which models answer questions, and how they are asked."""

    models: tuple[str, ...] = ()
    """The models that are asked where a question names none, the first first; those that there are keys for by default."""

    model_rows: dict[str, ModelRowSettings] = {}
    """What the table of models lacks, or has otherwise, by ``provider:name``."""

    model_retries: int = Field(default=3, ge=0, le=10)
    """How often a model is asked again that does not answer, before the next one is."""

    model_timeout_s: _ModelSeconds = 300
    """How long a model may say nothing before it is asked again."""


# The settings that are about SLURM alone. Part of ``model``; what a shape may be is said in
# ``slurm.shapes``.


def _words(value: Any) -> Any:
    """Words as people write them in a variable, or a JSON list of them; anything else as it is."""
    if not isinstance(value, str):
        return value
    return json.loads(value) if value.lstrip().startswith("[") else value.split()


def _text(value: Any) -> Any:
    """SLURM's numbers without a unit, such as 32000 (MB), are written as numbers too."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _gpu_numbers(value: Any) -> Any:
    """Numbers of GPUs as one text, however they were written; anything else as it is, for whoever checks it."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = json.loads(value)
    numbers = [value] if isinstance(value, int) and not isinstance(value, bool) else value
    if isinstance(numbers, list | tuple):
        return ",".join(map(str, numbers)) or "off"
    return value.replace(" ", "") if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_words)]

Text = Annotated[str | None, BeforeValidator(_text)]


class SlurmSettings(BaseSettings):
    """How allocations are asked for and kept."""

    slurm_partition: str | None = None
    """The partition of allocations, where a call names none."""

    slurm_gres: str | None = None
    """Generic resources, for instance ``"gpu:1"``."""

    slurm_cpus: int | None = Field(default=4, ge=1, le=4_096)
    """Processors of an allocation."""

    slurm_mem: Text = None
    """Memory of an allocation as SLURM writes it: ``"32G"``, MB without a unit, 0 for all that the node has; else the site's default."""

    slurm_time: Text = "4:00:00"
    """The time limit of an allocation: minutes, ``hours:minutes:seconds`` or ``days-hours:minutes:seconds``."""

    slurm_account: str | None = None
    """The account that allocations are charged to."""

    slurm_qos: str | None = None
    """The quality of service of allocations."""

    slurm_constraint: str | None = None
    """Features that an allocation's node must have, for instance ``"a100&nvlink"``."""

    slurm_modules: Words = ()
    """Environment modules that are loaded before the host starts, for instance ``"cuda/12.6 gcc"``."""

    slurm_extra: Words = ()
    """Further arguments of ``sbatch``, for instance ``["--reservation=course"]``."""

    slurm_debug_partition: str | None = None
    """The partition of ``cellwright host start --debug``."""

    slurm_debug_time: Text = "30:00"
    """The time limit of ``cellwright host start --debug``."""

    slurm_template: Path | None = None
    """A batch script to use instead of our own."""

    slurm_python: Path | None = None
    """The interpreter that has Cellwright on the nodes; the daemon's own where not said."""

    slurm_max_allocations: int = Field(default=4, ge=1, le=1_000)
    """Allocations that may be pending or running at once."""

    slurm_warn_s: int = Field(default=300, ge=10, le=65_000)
    """How long before its time limit an allocation warns its sessions; a short one in its last quarter."""

    slurm_poll_s: float = Field(default=10, ge=1, le=600)
    """How often ``squeue`` is asked; every 2 s while an allocation starts, ends or cannot be reached."""

    slurm_wait_s: float = Field(default=20, ge=0, le=280)
    """How long a call waits for a new allocation before it tells its place in the queue instead."""

    slurm_on_expiry: Literal["tell", "move"] = "tell"
    """What sessions do before the time limit: ``tell`` warns them, ``move`` also replays their state on another allocation."""

    slurm_connection: Literal["srun", "tls"] = "srun"
    """How the daemon reaches an allocation's host: through ``srun``, or by mutual TLS to a port on its node (extra ``slurm``)."""

    slurm_idle_s: Seconds | None = None
    """How long an allocation stays with no daemon attached and nothing running; then it is given back and its
    sessions are suspended. By default until its time limit."""

    slurm_command_timeout_s: Seconds = 20
    """How long one command of SLURM may take."""

    @field_validator("slurm_template", "slurm_python")
    @classmethod
    def _in_full(cls, value: Path | None) -> Path | None:
        # Links are kept: an interpreter knows its environment by the name that it is called by.
        return value.expanduser().absolute() if value is not None else None


# The settings that are about Jupyter servers alone. Part of ``model``; what they mean is said in
# ``jupyter.servers``.


class JupyterServerSettings(BaseModel):
    """One of several servers: ``[jupyter_servers.NAME]`` in a settings file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    token: SecretStr | None = None
    token_file: Path | None = None
    username: str = ""
    kernel: str = ""


Action: TypeAlias = Literal[
    "network", "connection", "packages", "apply", "allocation", "delete", "budget", "take_over"
]
"""What a person may be asked about before it is done."""

Rule: TypeAlias = Literal["allow", "ask", "refuse"]


class ApprovalRules(BaseModel):
    """For each action whether it is done at once, asked about or refused, and what holds where nobody answers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    network: Rule = "allow"
    connection: Rule = "allow"
    packages: Rule = "allow"
    apply: Rule = "allow"
    allocation: Rule = "allow"
    delete: Rule = "allow"
    budget: Rule = "refuse"
    take_over: Rule = "refuse"
    unanswered: Literal["refuse", "allow"] = "refuse"
    timeout_s: Seconds = 300


class JupyterSettings(BaseSettings):
    """The bearer token of every TCP listener, at least 16 characters; a variable only, never written down. Else ``token_file``."""

    jupyter_url: str | None = None
    """The address of the Jupyter server, gateway or hub that the host ``jupyter`` means; ``https``, unless it is this machine's."""

    jupyter_token: SecretStr | None = None
    """The token that opens it; better in ``jupyter_token_file``."""

    jupyter_token_file: Path | None = None
    """The file of that token."""

    jupyter_username: str = ""
    """Whom kernels are for, where a gateway asks (``KERNEL_USERNAME``); whose server, where a hub's token opens several."""

    jupyter_kernel: str = ""
    """The kernelspec of new kernels there; one that fits the notebook's language by default."""

    jupyter_servers: dict[str, JupyterServerSettings] = {}
    """More servers by name, each with ``url``, ``token`` or ``token_file``, ``username`` and ``kernel``; ``lab`` is the host ``jupyter:lab``."""

    jupyter_insecure_http: bool = False
    """Send tokens and code to servers on other machines without encryption."""

    jupyter_start_timeout_s: Seconds = 300
    """How long a hub may take to start the user's server."""

    jupyter_unreachable_s: Seconds = 60
    """How long a Jupyter server may be out of reach before its kernels are given up; those that live on are found again."""

    @field_validator("jupyter_token_file")
    @classmethod
    def _whole_path(cls, value: Path | None) -> Path | None:
        return value.expanduser().resolve() if value is not None else None


# The settings that are about sign-in over HTTP alone. Part of ``model``; what they mean is said in ``oauth``.

_LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


def _safe_address(value: str) -> bool:
    """Whether what goes to an address is encrypted, or stays on this machine."""
    parts = urlsplit(value)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK_HOSTS)


class SignInSettings(BaseSettings):
    """How MCP clients sign in over HTTP, beside the bearer token."""

    oauth_issuer: str | None = None
    """Who signs MCP clients in over HTTP: ``"own"``, which asks you on the page, or the address of an OpenID Connect issuer."""

    oauth_url: str | None = None
    """The address by which clients reach the listener, for instance ``https://notebooks.example``; its own by default.
    Tokens are good for ``/mcp`` below it alone."""

    oauth_audience: str | None = None
    """The audience that an OpenID issuer's tokens must name; the address of ``/mcp`` by default."""

    oauth_subjects: Words = ()
    """Whom an OpenID issuer's tokens let in, by ``sub`` or verified ``email``; ``*`` is everybody it gives one for this audience."""

    oauth_token_s: Seconds = 3600
    """How long an access token of our own is good; its client then gets another by itself."""

    oauth_idle_days: int = Field(default=30, ge=1, le=3_650)
    """Days after which a client that did not come must sign in anew."""

    oauth_client_hosts: Words = ()
    """Hosts whose programs may say by a document who they are (client ID metadata documents), for instance
    ``["claude.ai"]``; ``*`` is every public host. Read by our own issuer alone; others register themselves."""

    @field_validator("oauth_issuer", "oauth_url")
    @classmethod
    def _encrypted(cls, value: str | None) -> str | None:
        if value is not None and value != "own" and not _safe_address(value):
            raise ValueError("an address begins with https://, or is of this machine")
        return value

    @field_validator("oauth_url")
    @classmethod
    def _bare(cls, value: str | None) -> str | None:
        if value is not None and (urlsplit(value).path.strip("/") or urlsplit(value).query):
            raise ValueError("this is a server's address, without a path")
        return value.rstrip("/") if value is not None else None


# The settings that are about connections alone. Part of ``model``; what they mean is said in ``connections``.

ConnectionKind: TypeAlias = Literal["postgresql", "mysql", "sqlite", "duckdb", "s3", "http", "mcp"]

_KIND_OF_SCHEME: dict[str, ConnectionKind] = {
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "mysql": "mysql",
    "mariadb": "mysql",
    "sqlite": "sqlite",
    "duckdb": "duckdb",
    "s3": "s3",
    "http": "http",
    "https": "http",
}

ConnectionName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]


def _command_line_words(value: Any) -> Any:
    """A command line as its words; anything else as it is, for whoever checks it."""
    return shlex.split(value) if isinstance(value, str) else value


class ConnectionSettings(BaseModel):
    """A database, an object store, an HTTP API or an MCP server: ``[connections.NAME]`` in a settings file."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    url: SecretStr = SecretStr("")
    kind: Literal["mcp"] | None = None
    command: Annotated[
        tuple[str, ...], BeforeValidator(_command_line_words, json_schema_input_type=str | list[str])
    ] = ()
    read_only: bool = True
    username: str = ""
    password_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    password_file: Path | None = None
    auth: str = Field(default="", pattern=r"^(|bearer|basic|(header|query|env):[A-Za-z0-9_-]{1,100})$")
    openapi: str = ""
    timeout_s: float = Field(default=50, gt=0, le=3_600)
    max_rows: int = Field(default=100_000, ge=1, le=10_000_000)
    max_bytes: Size = Field(default=50 * 1024**2, ge=1024, le=1024**3)

    @property
    def leads_to(self) -> ConnectionKind:
        """What is at the address, or is started by the command."""
        if self.command or self.kind is not None:
            return "mcp"
        return _KIND_OF_SCHEME[urlsplit(self.url.get_secret_value()).scheme.lower()]

    @model_validator(mode="after")
    def _leads_somewhere(self) -> Self:
        address = self.url.get_secret_value()
        if bool(address) == bool(self.command):
            raise ValueError("a connection has a url, or the command of an MCP server")
        kind = _KIND_OF_SCHEME.get(urlsplit(address).scheme.lower())
        if address and kind is None:
            raise ValueError(f"an address begins with {', '.join(f'{one}:' for one in _KIND_OF_SCHEME)}")
        if address and self.kind == "mcp" and kind != "http":
            raise ValueError("the address of an MCP server begins with https: or http:")
        if self.auth and self.auth.startswith("env:") != bool(self.command):
            raise ValueError("auth is env:NAME for a command, and for nothing else")
        return self

    @field_validator("password_file")
    @classmethod
    def _from_home(cls, value: Path | None) -> Path | None:
        return value.expanduser().absolute() if value is not None else None


class ConnectionsSettings(BaseSettings):
    """What code and agents reach by name."""

    connections: dict[ConnectionName, ConnectionSettings] = {}
    """Databases, S3 stores, HTTP APIs and MCP servers by name: ``[connections.sales]`` with ``url``; see the guide on connections.
    Read-only unless ``read_only = false``. Their credentials stay outside the sandbox."""


# The settings themselves: names, types, bounds and defaults. Where their values come from is in ``load``.


_SHORTEST_TOKEN = 16

_UNCONFINED = (
    "code in cells can do whatever this user can, "
    "and limits on its memory, disk, processes and network are not kept"
)

_UNENCRYPTED = "tokens, code and output go to Jupyter servers on other machines in the clear"


class Settings(
    ConnectionsSettings, JupyterSettings, ModelsSettings, RunSettings, SignInSettings, SlurmSettings
):
    """What the engine may use and where it stops."""

    model_config = SettingsConfigDict(env_prefix="CELLWRIGHT_", frozen=True, extra="forbid")

    root: Path = Field(default_factory=Path.cwd)
    """The directory under which new notebooks are put, in ``notebook_dir``."""

    notebook_dir: Path = Path("notebooks")
    """The folder of new notebooks, from where a client works, else from ``root``; an absolute path is that folder for all."""

    roots: tuple[Path, ...] = ()
    """The directories in which clients may name files, by default where each client works; links that lead out are refused."""

    project: Path | None = None
    """The project of every notebook inside it; by default the nearest directory with ``.git``, ``pyproject.toml`` or ``.venv``."""

    storage: Path = Field(default_factory=default_storage)
    """The directory of the journal, of the host's files and of installed packages. Each has a daemon of its own."""

    data_directory: Path | None = None
    """What one-shot tools share and leave behind; ``data`` in the storage directory by default."""

    default_language: str = "python"
    """The language of a session that names none."""

    host: str | None = None
    """The host of a session that names none, such as ``slurm:gpu``; what ``run_mode`` says by default."""

    run_mode: Literal["auto", "slurm", "local", "jupyter"] = "auto"
    """Where sessions run that name no host; ``auto`` is ``slurm`` where ``sbatch`` finds a configuration, else ``local``."""

    templates: tuple[Annotated[GallerySettings, BeforeValidator(_gallery)], ...] = ()
    """Galleries of templates (guide: galleries): a folder, ``git+https://…``, or an index's ``https://…/index.json``.

    ``{source = "…", signers = "/path"}`` asks for an index signed by somebody in that file of allowed signers."""

    preload: tuple[str, ...] = ()
    """Modules that the fork server imports once for all Python kernels, for instance ``["numpy", "pandas"]``."""

    agent_name: str = Field(default="Cellwright", min_length=1, max_length=60)
    """What people who have a shared notebook open see the agent called."""

    standby_kernels: int = Field(default=2, ge=0, le=64)
    """Kernels that wait, warm, for the next session, and as many Deno processes (about 45 MB each) once TypeScript ran.

    Caches of libraries are made beside them, once for each interpreter; with 0, completion's is left out."""

    max_sessions: int = Field(default=10, ge=1, le=10_000)
    """Sessions that may be active at once."""

    when_full: Literal["suspend", "refuse"] = "suspend"
    """What happens at ``max_sessions``: the longest idle session is suspended, or new ones are refused.

    A session on which nothing works and that was not used for 60 s makes room; where there is none, new ones are refused."""

    max_cells: int = Field(default=100, ge=1, le=100_000)
    """Cells that a notebook may hold, besides those that a plan writes to explain its steps."""

    max_source_bytes: Size = Field(default=512 * 1024, ge=1024)
    """How long a source may be that is run, in bytes or as ``"512KB"``; a longer one is kept, and neither it nor what was
    to run with it does."""

    max_concurrent_starts: int = Field(default=16, ge=1, le=256)
    """Kernels that may be starting at once."""

    start_timeout_s: Seconds = 60
    """How long a kernel may take to answer for the first time."""

    cell_timeout_s: Seconds = 30
    """How long a cell may run before it is interrupted, where a call does not say; a session can lower it for every call."""

    input_timeout_s: Seconds = 300
    """How long a cell that asks for input waits; where nobody could answer, its code is told at once."""

    interrupt_grace_s: Seconds = 3
    """How long an interrupted cell may take to stop before its kernel is killed."""

    max_output_bytes: int = Field(default=1_000_000, ge=1_000, le=1_000_000_000)
    """Output kept of one cell; the middle of anything longer is dropped and counted."""

    max_output_messages: int = Field(default=25_000, ge=100, le=10_000_000)
    """Output messages kept of one cell; those beyond are dropped and counted."""

    max_memory_fraction: float = Field(default=0.8, gt=0, le=1)
    """The part of the memory of the machine, or of the fullest container or service around the host, above which nothing
    starts and the running cell is stopped."""

    session_idle_s: Seconds = 3600
    """How long a session may be idle before its kernel is let go; the session itself stays."""

    undelete_s: Seconds = 600
    """How long a session that was deleted on the page can be brought back, with its kernel."""

    host_idle_s: Seconds = 900
    """How long the process that owns the kernels stays with no engine attached and nothing running."""

    save_quiet_s: float = Field(default=0.5, ge=0, le=60)
    """How long a notebook must be quiet before it is written to its file."""

    history_days: float = Field(default=90, ge=0, le=36_500)
    """How long it is kept what ran and what was changed; notebooks and each session's newest execution stay."""

    max_journal: Size = Field(default=1024**3, ge=1024**2)
    """How large the journal may become before the oldest history is let go."""

    event_buffer: int = Field(default=1_000, ge=1, le=1_000_000)
    """Events that wait for one slow subscriber before it starts to miss some and is told so."""

    tools_in_scripts: bool = True
    """Whether scripts that are run once may call tools by `cellwright_api`, as the client that runs them."""

    structured_clients: tuple[str, ...] = ()
    """Names of MCP clients that run tools from code (`my-runner`, `agent-*`): they get data as structured content with
    output schemas, and not as text. A client can ask for it itself, by the experimental capability `cellwright/structured`."""

    app_clients: tuple[str, ...] = ()
    """Names of MCP clients that show apps and do not say so (`MCP Apps Host`, `my-*`): they are told of ours, too."""

    image_pixels: int = Field(default=512, ge=32, le=8_192)
    """The longer side of a picture in a reply to an agent; larger ones are scaled, and the whole is a resource."""

    daemon_idle_s: Seconds = 900
    """How long the daemon stays with no client, no listener and no active session."""

    persist_sessions: bool = True
    """Whether sessions and history outlive the daemon."""

    audit_max_bytes: int = Field(default=64 * 1024**2, ge=64 * 1024)
    """What the audit log may take, in bytes or as ``"64MB"``; then its oldest lines are let go, and a line says so."""

    unsafe_no_sandbox: bool = False
    """Run code with nothing to confine it. Every reply then says so."""

    sandbox_namespaces: bool = True
    """Whether to try namespaces; without them code is confined as on machines that forbid them (tier C)."""

    max_session_memory: Literal["auto"] | Annotated[int, Field(ge=64 * 1024**2)] | None = "auto"
    """Memory that one session may use, in bytes or as ``"512MB"``: a ceiling, no reservation.

    ``"auto"`` is half of what the machine, its container or the allocation had left when the host started, and at least
    512 MB. A session that asks for more is told in its ``losses``; all together are bounded by ``max_memory_fraction``."""

    max_session_disk: int = Field(default=100 * 1024**2, ge=1024**2)
    """What one session may write to its working directory, in bytes or as ``"100MB"``."""

    max_session_files: int = Field(default=20_000, ge=100, le=10_000_000)
    """Files and directories that one session may make in its working directory."""

    max_session_processes: int | None = Field(default=128, ge=32)
    """Processes and threads that one session may have at once."""

    max_session_open_files: int | None = Field(default=1_024, ge=64)
    """Files that each process of a session may have open."""

    max_session_cpu_s: int | None = Field(default=3_600, ge=1)
    """Processor time that each process of a session may use, in seconds."""

    max_session_cpus: float | None = Field(default=None, ge=0.05, le=1_024)
    """Processors that one session may use at once, for instance ``1.5``. Exact in tier A; elsewhere rounded up to whole
    processors, which code can undo."""

    gpus: Annotated[str, BeforeValidator(_gpu_numbers), Field(pattern=r"^(auto|off|\d+(,\d+)*)$")] = "auto"
    """GPUs that code may use: ``"auto"``, ``"off"``, or numbers of ``/dev/nvidia*`` or a vendor's ``renderD*`` from 0: ``[0, 2]``.

    ``"auto"`` is all that the user, or SLURM's step, may use, less what ``CUDA_VISIBLE_DEVICES``,
    ``ROCR_VISIBLE_DEVICES`` or ``ZE_AFFINITY_MASK`` left out where the daemon was started."""

    max_checkpoints: int = Field(default=8, ge=1, le=64)
    """Checkpoints that are kept of one session; the oldest goes first, named ones last, the newest never."""

    max_checkpoint_memory: int = Field(default=1024**3, ge=1024**2)
    """Memory of one session's checkpoints, beyond what they share with its kernel, in bytes or as ``"1GB"``."""

    max_plan_attempts: int = Field(default=3, ge=1, le=3)
    """Runs of one TODO's cell, repairs included, before a plan stops and asks; at most 3."""

    plan_backoff_s: float = Field(default=1, ge=0, le=60)
    """How long a plan waits before it tries a failed network again; doubled each time."""

    error_hints: bool = True
    """Whether a failed cell is answered with what the fixers know: a line "did you mean", in JSON ``hint``."""

    approvals: ApprovalRules = ApprovalRules()
    """What is asked about (guide: approvals) before it is done: `allow`, `ask` or `refuse` for each action."""

    allow_network: bool = False
    """Whether code may reach every public host: another word for ``network = "open"``."""

    network: Literal["off", "allow", "deny", "open"] = "off"
    """What code may reach, through a proxy that logs it: nothing, what is listed, what is not, or every public host."""

    network_allow: tuple[str, ...] = ()
    """Hosts and addresses that code may reach, for instance ``["*.example.org", "10.1.2.3:8080"]``."""

    network_deny: tuple[str, ...] = ()
    """Hosts and addresses that code may not reach, in every mode."""

    network_max_connections: int = Field(default=64, ge=1, le=10_000)
    """Connections that one session may have at once."""

    network_max_bytes: int = Field(default=1024**3, ge=1024)
    """What one session may send and receive altogether, in bytes or as ``"1GB"``."""

    network_max_s: Seconds = 600
    """How long one request to the network may take."""

    network_idle_s: Seconds = 60
    """How long a connection to the network may carry nothing."""

    max_download_bytes: int = Field(default=50 * 1024**2, ge=1024)
    """What one request may bring in, in bytes or as ``"50MB"``; an answer that announces more is refused, another is cut,
    and the execution and the network log say so."""

    max_upload_bytes: int = Field(default=50 * 1024**2, ge=1024)
    """What one request may send out, in bytes or as ``"50MB"``."""

    fetch_timeout_s: Seconds = 50
    """How long one fetch may take, redirects and waiting for its turn with a host included; not while others are fetched."""

    fetch_interval_s: float = Field(default=0.5, ge=0, le=3600)
    """Seconds between requests to one host, after the first four."""

    fetch_user_agent: str = Field(
        default="Cellwright/0.1 (+https://github.com/cellwright/cellwright)",
        min_length=1,
        max_length=200,
        pattern=r"^[\x20-\x7e]+$",
    )
    """What hosts are told is asking."""

    fetch_cache_bytes: int = Field(default=100 * 1024**2, ge=0)
    """What answers from the web are kept in, in bytes or as ``"100MB"``; 0 keeps none."""

    approved_packages: tuple[str, ...] | None = None
    """Packages that may be installed, with versions where they are bound; a list of well-known ones by default."""

    approved_npm_packages: tuple[str, ...] | None = None
    """npm packages that may be installed for TypeScript and JavaScript; a list of well-known ones by default."""

    install_timeout_s: Seconds = 300
    """How long one installation of packages may take."""

    max_install_bytes: int = Field(default=2 * 1024**3, ge=1024)
    """What one installation of packages may take, in bytes or as ``"2GB"``."""

    read_paths: tuple[Path, ...] = ()
    """Directories and files, beyond the project, that code may read."""

    write_paths: tuple[Path, ...] = ()
    """Directories, beyond the working directory, that code may write to."""

    pass_environment: tuple[str, ...] = ()
    """Environment variables that code may see, beyond the harmless ones such as ``PATH`` and ``LANG``."""

    trusted_plugins: Words = ()
    """Plugins, by distribution or as ``tools:NAME``, whose tools run outside of the sandbox, with all that you may do."""

    token: SecretStr | None = None
    """The bearer token of every TCP listener; otherwise it is read from ``token_file``."""

    token_file: Path | None = None
    """The file of the bearer token, made where there is none; ``daemon/token`` in the storage directory by default."""

    allowed_hosts: Words = ()
    """Names, beyond the listener's own, under which HTTP clients may address it; in a variable separated by spaces."""

    allowed_origins: Words = ()
    """Origins of web pages, beyond the listener's own, that may use it, for instance ``["https://lab.example"]``."""

    srcbook_file: Path | None = None
    """A Srcbook-style JSON file whose options are read below every other source but the defaults."""

    @property
    def dangers(self) -> dict[str, str]:
        """Settings that take protection away, each with what that means."""
        said = {"unsafe_no_sandbox": _UNCONFINED, "jupyter_insecure_http": _UNENCRYPTED}
        return {name: danger for name, danger in said.items() if getattr(self, name)}

    @field_validator("root", "storage")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().resolve()

    @field_validator("roots", "read_paths", "write_paths")
    @classmethod
    def _all_absolute(cls, value: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(one.expanduser().resolve() for one in value)

    @field_validator("project", "token_file", "srcbook_file", "data_directory")
    @classmethod
    def _absolute_if_given(cls, value: Path | None) -> Path | None:
        return value.expanduser().resolve() if value is not None else None

    @field_validator("token")
    @classmethod
    def _hard_to_guess(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < _SHORTEST_TOKEN:
            raise ValueError(f"a token needs at least {_SHORTEST_TOKEN} characters")
        return value

    @field_validator(
        "audit_max_bytes",
        "max_session_memory",
        "max_session_disk",
        "max_checkpoint_memory",
        "network_max_bytes",
        "max_download_bytes",
        "max_upload_bytes",
        "max_install_bytes",
        "fetch_cache_bytes",
        mode="before",
    )
    @classmethod
    def _size(cls, value: Any) -> Any:
        return size_bytes(value)
