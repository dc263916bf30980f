// The smallest thing that speaks the host's lines: it runs JavaScript by indirect eval and shows values with String().
// What tests of the host need to see a real Deno do, without depending on the driver's own habits.
let token = "";
const encoder = new TextEncoder();
const say = (channel, kind, parent, content = {}, metadata = {}) => {
  const line = encoder.encode(token + JSON.stringify({ channel, kind, parent, content, metadata }) + "\n");
  for (let at = 0; at < line.length;) at += Deno.stdout.writeSync(line.subarray(at));
};
let greeting = {};
globalThis.greeting = () => greeting;
globalThis.token = () => token;
globalThis.print = (text) => say("iopub", "stream", current, { name: "stdout", text });
let current = "";
let count = 0;

async function execute({ id, content }) {
  current = id;
  count += 1;
  say("iopub", "execute_input", id, { code: content.code, execution_count: count });
  try {
    const value = await (0, eval)(content.code);
    if (value !== undefined) {
      say("iopub", "execute_result", id, { data: { "text/plain": String(value) }, execution_count: count, metadata: {} });
    }
    return { status: "ok", execution_count: count };
  } catch (error) {
    return { status: "error", execution_count: count, ename: error.name, evalue: error.message, traceback: [] };
  }
}

async function answer(request) {
  say("iopub", "status", request.id, { execution_state: "busy" });
  let content = { status: "ok" };
  if (request.kind === "kernel_info_request") content = { status: "ok", language_info: { name: "typescript" } };
  if (request.kind === "execute_request") content = await execute(request);
  say(request.channel, request.kind.replace("request", "reply"), request.id, content, {});
  say("iopub", "status", request.id, { execution_state: "idle" });
  if (request.kind === "shutdown_request") Deno.exit(0);
}

let held = "";
const decoder = new TextDecoder();
for await (const chunk of Deno.stdin.readable) {
  held += decoder.decode(chunk, { stream: true });
  for (let end; (end = held.indexOf("\n")) >= 0; held = held.slice(end + 1)) {
    const message = JSON.parse(held.slice(0, end));
    if (token === "") {
      token = message.token;
      greeting = message;
    } else await answer(message);
  }
}
