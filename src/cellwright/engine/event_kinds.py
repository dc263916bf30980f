"""The kinds of events, each with when it is sent and what its ``data`` holds: the site lists them from here."""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["ABOUT", "EventKind"]

EventKind: TypeAlias = Literal[
    "notebook.cell.executing",
    "notebook.cell.output",
    "notebook.cell.completed",
    "notebook.input.requested",
    "notebook.input.settled",
    "notebook.approval.requested",
    "notebook.approval.settled",
    "notebook.cell.late_output",
    "notebook.cell.files",
    "notebook.types.checked",
    "notebook.state.changed",
    "notebook.host.changed",
    "notebook.plan.changed",
    "notebook.replay.progress",
    "notebook.replay.completed",
    "notebook.verification.progress",
    "notebook.verification.completed",
    "notebook.agent.step",
    "notebook.network.request",
    "notebook.checkpoint.created",
    "notebook.checkpoint.dropped",
    "notebook.cell.undone",
    "notebook.session.rolled_back",
    "notebook.session.branched",
    "notebook.session.adopted",
    "notebook.session.taken",
    "notebook.session.given_back",
    "notebook.error",
]

ABOUT: dict[EventKind, tuple[str, str]] = {
    "notebook.cell.executing": (
        "an execution was queued, then began",
        (
            "`state`: `queued`, `running`; `attempt`; with `queued` also `source`, and `by`, as in "
            "the audit log"
        ),
    ),
    "notebook.cell.output": (
        "the kernel sent output",
        (
            "`type` (`stream`, `display_data`, `execute_result`, `error`, `update_display_data`, "
            "`clear_output`), `content`, as in Jupyter's protocol. In MCP's log messages: `output` "
            "and `text`, cut at 2,000 characters"
        ),
    ),
    "notebook.cell.completed": (
        "an execution ended",
        (
            "`state` (`ok`, `error`, `timeout`, `interrupted`, `died`), `seconds`, "
            "`execution_count`, `error`, `reason`, `dropped_bytes`, `dropped_messages`"
        ),
    ),
    "notebook.input.requested": (
        "code asks for input and waits",
        "`number`, `prompt`, `password`, `expires_at`",
    ),
    "notebook.input.settled": (
        "it waits no longer; the answer is in no event",
        "`number`, `answered`, `reason`",
    ),
    "notebook.approval.requested": (
        "something waits for a person's approval",
        "`id`, `action`, `what`, `by`, `expires_at`",
    ),
    "notebook.approval.settled": (
        "it was decided, or nobody answered",
        "`id`, `allowed`, `by`, `scope`, `reason`",
    ),
    "notebook.cell.late_output": (
        (
            "output of an execution that had ended: from a thread, or by another cell; its outputs "
            "stay as they were"
        ),
        "`type`, `content`; `first`; `by`: the execution that updates its display",
    ),
    "notebook.cell.files": (
        "it left files in the working directory",
        "`files` (`path`, `type`, `size`, `time`), `directory`, `more`",
    ),
    "notebook.types.checked": (
        "a TypeScript notebook's types were checked",
        "`diagnostics` (`cell_id`, `line`, `column`, `code`, `message`, `file`), `more`",
    ),
    "notebook.state.changed": (
        "document or session changed",
        (
            '`change` with `by` (its author, `"file"`, or `"person"` on a server); or `session`: '
            "`created`, `active`, `suspended`, `deleted`, `restored`, with `reason`, `interpreter`, "
            "`started_by`; or `renamed`; or `sharing` and `there`"
        ),
    ),
    "notebook.host.changed": (
        "the kernel's host is out of reach, back, or will be ended",
        "`host`, `reachable`, `reason`, `expires_at`",
    ),
    "notebook.plan.changed": (
        "a plan went a step on",
        "`phase`, `stage`, `todo`, `cell_id`, `statuses`, `attempts`",
    ),
    "notebook.replay.progress": (
        "a step of a replay ended",
        "`replay_id`, `done`, `total`, `cell_id`, `same`",
    ),
    "notebook.replay.completed": (
        "a replay ended; none where the engine ended first",
        (
            "`replay_id`, `state` (`completed`, `stopped`), `done`, `total`, `same`, `reason`; "
            "`differences` (the first 50: `cell_id`, `execution_id`, `replays`, `output`, "
            "`expected`, `got`, `why`, `diff`), `more`; `edited`, `not_run`"
        ),
    ),
    "notebook.checkpoint.created": (
        "a checkpoint was taken",
        (
            "`id`, `name`, `time`, `generation`, `lineage`, `cell_id`, `execution_id`, "
            "`private_bytes`, `cannot_return`, `files`, `files_left_out`"
        ),
    ),
    "notebook.checkpoint.dropped": (
        "checkpoints went",
        "`checkpoints` (ids)",
    ),
    "notebook.verification.progress": (
        "a cell of a verification ran",
        "`verification_id`, `done`, `total`, `state`",
    ),
    "notebook.verification.completed": (
        "a verification ended; its certificate is in the notebook",
        "`verification_id`, `verified`, `reason`",
    ),
    "notebook.session.rolled_back": (
        "a session went back",
        "`checkpoint` (none by replay), `by`, `stale`, `undone`, `not_restored`",
    ),
    "notebook.cell.undone": (
        'a cell with `on_error="rollback"` failed',
        "`rolled_back`, `note`",
    ),
    "notebook.session.branched": (
        "a branch was made; sent for both sessions",
        "`branch`, `of`, `by` (`checkpoint`, `replay`), `reason`, `not_carried`",
    ),
    "notebook.session.adopted": (
        "a session took a branch back",
        "`branch`",
    ),
    "notebook.session.taken": (
        "a person took the session over",
        "`by`, `instead_of`",
    ),
    "notebook.session.given_back": (
        "and gave it back",
        "`by`, `note`; `added`, `edited`, `deleted`, `ran`: cell ids since",
    ),
    "notebook.agent.step": (
        "a step of the data agent ended (trace)",
        (
            "`run_id`, `step`, `step_kind`, `role`, `pattern`, `branch`, `model`, `tool`, "
            "`tokens_in`, `tokens_out`, `cached`, `money` (US dollars), `seconds` (`model`, "
            "`kernel`, `engine`, `took`), `state` (`ok`, `failed`), `note`, `executions`"
        ),
    ),
    "notebook.network.request": (
        "a request of the code to the network was over",
        (
            "`host`, `port`, `address`, `method`, `bytes_up`, `bytes_down`, `verdict` (`allowed`, "
            "`refused`, `cut`, `failed`, `malformed`), `reason`, `setting`, `execution`, `number`, "
            "`seconds`; the newest 1,000 of a session are kept"
        ),
    ),
    "notebook.error": (
        "something went wrong outside a cell's code",
        (
            "`code` (`kernel_died`, `merge_conflict`, `save_failed`, `host`; of a shared notebook "
            "the error's own, such as `host_unreachable`), `message`, `hint`, and what it concerns"
        ),
    ),
}
"""When it is sent, and the keys of its data, as Markdown."""
