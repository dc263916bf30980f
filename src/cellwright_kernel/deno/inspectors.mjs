// A line to the inspector: a WebSocket, as much of one as that takes, over a plain connection.
//
// Deno's own WebSocket takes several times as long for a message, and cannot be closed without a last turn.

import { Deno, JSON, Map, Promise, TextDecoder, TextEncoder, Uint8Array, URL } from "./natives.mjs";

const TEXT = 0x81;
const MASKED = 0x80;
const MAX_SHORT = 125;
const MAX_MEDIUM = 0xffff;
const HEAD_END = "\r\n\r\n";
const READ_BYTES = 1 << 16;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Speaks to the inspector at an address; `notice` gets what it says unasked. */
export async function openInspector(address, notice = () => {}) {
  const { hostname, port, pathname, host } = new URL(address);
  const connection = await Deno.connect({ hostname, port: +port });
  connection.setNoDelay(true);
  const head = [
    `GET ${pathname} HTTP/1.1`,
    `Host: ${host}`,
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
  ];
  await connection.write(encoder.encode(head.join("\r\n") + HEAD_END));
  const inspector = new Inspector(connection, notice);
  await inspector.greeted;
  return inspector;
}

class Inspector {
  #connection;
  #notice;
  #waiting = new Map();
  #lastId = 0;
  #unsent = [];
  #buffer = new Uint8Array(READ_BYTES);
  #held = this.#buffer.subarray(0, 0);
  /** Settles when the inspector has hung up. */
  closed = Promise.withResolvers();

  constructor(connection, notice) {
    this.#connection = connection;
    this.#notice = notice;
    this.greeted = this.#greet();
  }

  /** The inspector's answer: `{result}` or `{error}`. */
  call(method, params = {}) {
    const id = ++this.#lastId;
    this.#unsent.push(frame(JSON.stringify({ id, method, params })));
    if (this.#unsent.length === 1) this.#write();
    return new Promise((resolve) => this.#waiting.set(id, resolve));
  }

  /** Lets the process end in spite of it, or not. */
  hold(isHeld) {
    if (isHeld) this.#connection.ref();
    else this.#connection.unref();
  }

  /** Hangs up, at once. */
  close() {
    this.#connection.closeWrite();
  }

  async #write() {
    while (this.#unsent.length) {
      let rest = this.#unsent[0];
      while (rest.length) rest = rest.subarray(await this.#connection.write(rest));
      this.#unsent.shift();
    }
  }

  async #greet() {
    let head = "";
    while (!head.includes(HEAD_END)) {
      if (!await this.#fill()) throw new Deno.errors.ConnectionRefused("the inspector hung up");
      head = decoder.decode(this.#held);
    }
    // The head is ASCII, so that characters are bytes.
    this.#held = this.#held.subarray(head.indexOf(HEAD_END) + HEAD_END.length);
    this.#read().finally(() => this.closed.resolve());
  }

  async #read() {
    do {
      for (let next; (next = unframed(this.#held));) {
        this.#held = this.#held.subarray(next.end);
        if (next.text) this.#settle(JSON.parse(next.text));
      }
    } while (await this.#fill());
  }

  #settle(message) {
    const resolve = this.#waiting.get(message.id);
    if (!resolve) return this.#notice(message);
    this.#waiting.delete(message.id);
    resolve(message);
  }

  /** Adds what arrives to what is held; whether there was anything. */
  async #fill() {
    // Mostly nothing is held, and nothing is copied; what is held would be overwritten.
    const before = this.#held.slice();
    const size = await this.#connection.read(this.#buffer);
    if (size === null) return false;
    this.#held = this.#buffer.subarray(0, size);
    if (before.length) {
      const joined = new Uint8Array(before.length + size);
      joined.set(before);
      joined.set(this.#held, before.length);
      this.#held = joined;
    }
    return true;
  }
}

/** A text as the protocol wants it from a client. Its mask, which hides nothing here, is all zeros. */
function frame(text) {
  const payload = encoder.encode(text);
  const head = [TEXT, ...lengthOf(payload.length), 0, 0, 0, 0];
  const whole = new Uint8Array(head.length + payload.length);
  whole.set(head);
  whole.set(payload, head.length);
  return whole;
}

function lengthOf(size) {
  if (size <= MAX_SHORT) return [MASKED | size];
  return size <= MAX_MEDIUM ? [MASKED | 126, ...bigEndian(size, 2)] : [MASKED | 127, ...bigEndian(size, 8)];
}

/** The first message among some bytes and where it ends, if it is there whole; pings and the like have no text. */
function unframed(bytes) {
  if (bytes.length < 2) return null;
  const extra = { 126: 2, 127: 8 }[bytes[1]] ?? 0;
  const from = 2 + extra;
  if (bytes.length < from) return null;
  const size = extra ? bytes.subarray(2, from).reduce((sum, byte) => sum * 256 + byte, 0) : bytes[1];
  const end = from + size;
  if (bytes.length < end) return null;
  return { text: bytes[0] === TEXT ? decoder.decode(bytes.subarray(from, end)) : "", end };
}

function bigEndian(number, size) {
  const bytes = [];
  for (let left = number; bytes.length < size; left = (left - left % 256) / 256) bytes.unshift(left % 256);
  return bytes;
}
