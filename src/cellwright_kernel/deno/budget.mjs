// What one cell may say: decides, per piece of output, whether it passes, waits or is dropped. Sends nothing.
//
// The same rules as the Python kernel's: three quarters of the limit pass as they come, what follows waits in a ring
// of the last quarter, so that the newest is kept, and is released when the cell ends. What comes after the end
// passes as far as the limit allows, and one line says where it ends.

import { Math, TextEncoder, Uint8Array } from "./natives.mjs";

const TAIL_PART = 4;
const MAX_CHUNK = 4096;
const CHUNKS_PER_LIMIT = 32;
const encoder = new TextEncoder();

export class Budget {
  passedBytes = 0;
  passedMessages = 0;
  lost = { bytes: 0, writes: 0, limit: "" };
  closed = false;
  #silenced = false;
  #fresh = { bytes: 0, writes: 0, limit: "", stream: "stdout" };
  #held = [];
  #heldFrom = 0;
  #heldBytes = 0;
  #holding = false;

  constructor(limits) {
    this.limits = limits;
  }

  /** The part of some text that may pass now; the rest waits. */
  admitText(name, text, writes = 1) {
    if (this.closed) return this.#admitLate(name, text, writes);
    if (this.#holding) {
      this.#holdText(name, text, writes);
      return "";
    }
    const room = this.#room();
    const size = text.length <= room ? byteLength(text) : room + 1;
    if (size <= room && this.passedMessages < this.#headMessages()) {
      this.passedBytes += size;
      this.passedMessages += 1;
      return text;
    }
    const head = this.passedMessages < this.#headMessages() ? firstBytes(text, room) : "";
    this.passedBytes += byteLength(head);
    this.passedMessages += head ? 1 : 0;
    this.#holding = true;
    this.#holdText(name, text.slice(head.length), writes);
    return head;
  }

  /** Whether a message of that size may be sent now; where not, `hold` or `drop` it. */
  admitMessage(size) {
    if (this.#holding || size > this.#room() || this.passedMessages >= this.#headMessages()) return false;
    this.passedBytes += size;
    this.passedMessages += 1;
    return true;
  }

  /** The size of the largest message that can be held. */
  get capacity() {
    return Math.max(0, this.limits.maxBytes - this.passedBytes);
  }

  /** Lets a message wait, at the cost of the oldest that do. */
  hold(send, size) {
    this.#holding = true;
    this.#held.push({ send, size, writes: 1 });
    this.#heldBytes += size;
    this.#evict();
  }

  /** Counts a message that is not sent at all. */
  drop(size) {
    this.#lose(size, 1, "max_output_bytes");
  }

  /** The marker's stream and text (empty where nothing was lost), and what waited. */
  release() {
    const held = joined(this.#held.slice(this.#heldFrom));
    const fresh = this.#fresh;
    this.#fresh = { bytes: 0, writes: 0, limit: "", stream: "stdout" };
    this.passedBytes += this.#heldBytes;
    this.passedMessages += held.length;
    this.#held = [];
    this.#heldFrom = this.#heldBytes = 0;
    this.#holding = false;
    return { stream: fresh.stream, marker: this.#marker(fresh), held };
  }

  /** The account, for the reply's metadata. */
  report() {
    return {
      output_bytes: this.passedBytes,
      output_messages: this.passedMessages,
      dropped_bytes: this.lost.bytes,
      dropped_messages: this.lost.writes,
      limit: this.lost.limit || null,
    };
  }

  #room() {
    const tail = this.closed ? 0 : Math.floor(this.limits.maxBytes / TAIL_PART);
    return Math.max(0, this.limits.maxBytes - tail - this.passedBytes);
  }

  #headMessages() {
    const tail = this.closed ? 0 : Math.floor(this.limits.maxMessages / TAIL_PART);
    return this.limits.maxMessages - tail;
  }

  #admitLate(name, text, writes) {
    const size = byteLength(text);
    if (!this.#silenced && size <= this.#room() && this.passedMessages < this.limits.maxMessages) {
      this.passedBytes += size;
      this.passedMessages += 1;
      return text;
    }
    this.#lose(size, writes, "max_output_bytes", name);
    if (this.#silenced) return "";
    this.#silenced = true;
    const limit = grouped(this.limits.maxBytes);
    return `\n[cellwright: output after the cell's end is dropped; limit max_output_bytes=${limit}]\n`;
  }

  /** How much text is held, and later evicted, as one: enough to be cheap, little enough to keep a tail. */
  #chunk() {
    return Math.max(1, Math.min(MAX_CHUNK, Math.floor(this.limits.maxBytes / CHUNKS_PER_LIMIT)));
  }

  #holdText(name, text, writes) {
    const kept = lastBytes(text, this.capacity);
    const cut = kept.length < text.length ? byteLength(text) - byteLength(kept) : 0;
    if (cut) this.#lose(cut, kept ? 0 : writes, "max_output_bytes", name);
    for (let from = 0; from < kept.length; from += this.#chunk()) {
      this.#append(name, kept.slice(from, from + this.#chunk()), from ? 0 : writes);
    }
    this.#evict();
  }

  #append(name, text, writes) {
    const size = byteLength(text);
    const last = this.#held.length > this.#heldFrom ? this.#held.at(-1) : null;
    if (last?.name === name && last.size + size <= this.#chunk()) {
      last.parts.push(text);
      last.size += size;
      last.writes += writes;
    } else {
      this.#held.push({ name, parts: [text], size, writes });
    }
    this.#heldBytes += size;
  }

  #evict() {
    const most = Math.max(0, this.limits.maxMessages - this.passedMessages);
    while (this.#held.length > this.#heldFrom) {
      const tooLarge = this.#heldBytes > this.capacity;
      if (!tooLarge && this.#held.length - this.#heldFrom <= most) break;
      const oldest = this.#held[this.#heldFrom];
      this.#held[this.#heldFrom++] = undefined;
      this.#heldBytes -= oldest.size;
      this.#lose(
        oldest.size,
        oldest.writes,
        tooLarge ? "max_output_bytes" : "max_output_messages",
        oldest.name,
      );
    }
    if (this.#heldFrom > 1024 && this.#heldFrom * 2 > this.#held.length) {
      this.#held = this.#held.slice(this.#heldFrom);
      this.#heldFrom = 0;
    }
  }

  #lose(size, writes, limit, stream) {
    if (!this.#fresh.writes && stream) this.#fresh.stream = stream;
    for (const loss of [this.lost, this.#fresh]) {
      loss.bytes += size;
      loss.writes += writes;
      loss.limit = limit;
    }
  }

  #marker(loss) {
    if (!loss.bytes && !loss.writes) return "";
    const limit = loss.limit === "max_output_bytes" ? this.limits.maxBytes : this.limits.maxMessages;
    const what = `${grouped(loss.bytes)} bytes in ${grouped(Math.max(loss.writes, 1))} writes dropped here`;
    return `\n[cellwright: ${what}; limit ${loss.limit}=${grouped(limit)}]\n`;
  }
}

/** The length in UTF-8. */
export function byteLength(text) {
  let size = text.length;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit < 0x80) continue;
    // Either half of a pair counts two, so that the pair makes its four.
    size += unit < 0x800 || (unit >= 0xd800 && unit < 0xe000) ? 1 : 2;
  }
  return size;
}

/** A number as people read it: 1,234,567. */
export function grouped(number) {
  return `${number}`.replace(/\B(?=(?:\d{3})+$)/g, ",");
}

function firstBytes(text, size) {
  const head = text.slice(0, size);
  if (byteLength(head) <= size) return wellCut(head);
  return wellCut(head.slice(0, encoder.encodeInto(head, new Uint8Array(size)).read));
}

function lastBytes(text, size) {
  if (text.length <= size && byteLength(text) <= size) return text;
  let from = Math.max(0, text.length - size);
  let length = byteLength(text.slice(from));
  while (length > size) length -= byteLength(text[from++]);
  const unit = text.charCodeAt(from);
  return text.slice(unit >= 0xdc00 && unit < 0xe000 ? from + 1 : from);
}

/** Without the first half of a pair whose second was cut off. */
function wellCut(text) {
  const unit = text.charCodeAt(text.length - 1);
  return unit >= 0xd800 && unit < 0xdc00 ? text.slice(0, -1) : text;
}

function joined(held) {
  const runs = [];
  for (const item of held) {
    const last = runs.at(-1);
    if (item.parts && last?.name === item.name && last.parts) last.parts.push(...item.parts);
    else runs.push(item.parts ? { ...item, parts: [...item.parts] } : item);
  }
  return runs.map((item) => item.parts ? { name: item.name, text: item.parts.join("") } : item);
}
