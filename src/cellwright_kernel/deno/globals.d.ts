// What cells find without importing it, for the type check; the driver is what puts it there.

declare const cellwright: {
  /** Leave a value for the session's other languages, by name. */
  put(name: string, value: unknown): Promise<void>;
  // deno-lint-ignore no-explicit-any
  get(name: string): Promise<any>;
  names(): Promise<string[]>;
};
declare function display(value: unknown, options?: object): Promise<void>;
declare function html(strings: TemplateStringsArray, ...values: unknown[]): object;
declare function svg(strings: TemplateStringsArray, ...values: unknown[]): object;
declare function md(strings: TemplateStringsArray, ...values: unknown[]): object;
