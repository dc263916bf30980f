// Bytes within a state travel as text.

const NAME = "cellwright_buffer";

export function fromText(value) {
  if (Array.isArray(value)) return value.map(fromText);
  if (value === null || typeof value !== "object") return value;
  if (typeof value[NAME] === "string") {
    const bytes = Uint8Array.from(
      atob(value[NAME]),
      (one) => one.charCodeAt(0),
    );
    return new DataView(bytes.buffer);
  }
  return Object.fromEntries(
    Object.entries(value).map(([name, part]) => [name, fromText(part)]),
  );
}

export function toText(value) {
  if (value instanceof ArrayBuffer) return toText(new DataView(value));
  if (ArrayBuffer.isView(value)) {
    let text = "";
    const bytes = new Uint8Array(
      value.buffer,
      value.byteOffset,
      value.byteLength,
    );
    for (let at = 0; at < bytes.length; at += 32768) {
      text += String.fromCharCode(...bytes.subarray(at, at + 32768));
    }
    return { [NAME]: btoa(text) };
  }
  if (Array.isArray(value)) return value.map(toText);
  if (value === null || typeof value !== "object") return value;
  if (typeof value.toJSON === "function") return toText(value.toJSON());
  return Object.fromEntries(
    Object.entries(value).map(([name, part]) => [name, toText(part)]),
  );
}
