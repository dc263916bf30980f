"""What TypeScript might try in a Deno kernel, which grants its code everything: only the sandbox stands in the way."""

from __future__ import annotations

from tests.support.sandbox.escapes.attempts import Attempt

__all__ = ["DENO"]

# What is printed goes its own way, and may come after the answer: it is given a moment.
_TRY = "await (async () => { %s })().catch((error) => console.log(String(error))); await new Promise((r) => setTimeout(r, 100))"


def _ts(name: str, code: str, seen: str, *, root: bool = False) -> Attempt:
    return Attempt(name, _TRY % code, seen, root=root, tiers="B")  # type: ignore[arg-type]  # one of Seen


DENO = (
    _ts("read a file outside", "console.log(Deno.readTextFileSync(W.secret))", "token"),
    _ts(
        "read through a symlink",
        "Deno.symlinkSync(W.secret, 'l'); console.log(Deno.readTextFileSync('l'))",
        "token",
    ),
    _ts(
        "read through a hard link",
        "Deno.linkSync(W.secret, 'h'); console.log(Deno.readTextFileSync('h'))",
        "token",
    ),
    _ts("read the home directory", "console.log(Deno.readTextFileSync(W.home + '/.ssh/id'))", "token"),
    _ts(
        "read the engine's state", "console.log(Deno.readTextFileSync(W.storage + '/state-secret'))", "token"
    ),
    _ts("read the environment of the host", "console.log(Deno.env.get('CW_SECRET'))", "token"),
    _ts(
        "read a living session's file",
        "const walk = (d) => { for (const e of Deno.readDirSync(d)) { const p = d + '/' + e.name; if (e.isDirectory) walk(p); else if (e.name === 'of-the-other') console.log(Deno.readTextFileSync(p)); } }; walk(W.storage + '/sessions')",
        "token",
    ),
    _ts(
        "read another process's environment",
        "console.log(Deno.readTextFileSync(`/proc/${W.victim}/environ`))",
        "token",
    ),
    _ts("write a file outside", "Deno.writeTextFileSync(W.bait, 'x')", "changed"),
    _ts("delete a file outside", "Deno.removeSync(W.bait)", "missing"),
    _ts("change a file's mode", "Deno.chmodSync(W.bait, 0o666)", "altered"),
    _ts("make a file outside", "Deno.writeTextFileSync(W.outside + '/planted', '')", "planted"),
    _ts("poison a cache", "Deno.writeTextFileSync(W.home + '/.cache/uv/planted', '')", "planted"),
    _ts(
        "connect over TCP",
        "const c = await Deno.connect({hostname: '127.0.0.1', port: W.tcp}); await c.write(new Uint8Array(5)); c.close()",
        "heard",
    ),
    # Nobody answers. Time that passed before it was even sent is given again.
    _ts(
        "fetch",
        "let last; for (const _ of [1, 2, 3]) try { await fetch(`http://127.0.0.1:${W.tcp}/`, {signal: AbortSignal.timeout(500)}) } catch (error) { last = error }; throw last",
        "heard",
    ),
    _ts(
        "connect to a unix socket",
        "const c = await Deno.connect({transport: 'unix', path: W.unix}); await c.write(new Uint8Array(5)); c.close()",
        "heard",
    ),
    _ts(
        "listen on a port of the machine",
        "globalThis.listener = Deno.listen({hostname: '127.0.0.1', port: W.free})",
        "reached",
    ),
    _ts("signal a process", "Deno.kill(W.victim, 'SIGKILL')", "dead"),
    _ts(
        "read by way of a program",
        "const o = await new Deno.Command('cat', {args: [W.secret]}).output(); console.log(new TextDecoder().decode(o.stdout))",
        "token",
    ),
    _ts(
        "call the C library",
        "const libc = Deno.dlopen('libc.so.6', {unshare: {parameters: ['i32'], result: 'i32'}}); console.log(libc.symbols.unshare(0x04000000) === 0 ? 'ESCAPED' : 'refused'); libc.close()",
        "said",
        root=True,
    ),
    _ts(
        "use memory outside the heap",
        "globalThis.kept = []; for (let i = 0; i < 4; i++) kept.push(new Uint8Array(100 << 20).fill(1)); await new Promise((r) => setTimeout(r, W.wait_s * 1000)); console.log('ESCAPED'); globalThis.kept = null",
        "said",
    ),
    _ts(
        "fill the disk",
        "for (let i = 0; i < 4; i++) Deno.writeFileSync('fill' + i, new Uint8Array(30 << 20)); await new Promise((r) => setTimeout(r, W.wait_s * 1000)); console.log('ESCAPED')",
        "said",
    ),
)
