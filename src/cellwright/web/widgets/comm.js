// A widget's way to the kernel, by the page. One message is under way at a time; the widget gathers what comes meanwhile.

import { toText } from "./buffers.js";

export class Comm {
  target_name = "jupyter.widget";

  constructor(model, tell) {
    this.comm_id = model;
    this.tell = tell;
    this.heard = 0;
    this.waiting = [];
  }

  on_msg(listen) {
    this.listen = listen;
  }

  on_close(listen) {
    this.closed = listen;
  }

  send(data, callbacks) {
    this.waiting.push(callbacks);
    this.tell({ send: this.comm_id, data: toText(data) });
    return "";
  }

  close() {}

  /** The kernel has taken the oldest message; what was true before is none of this widget's business any more. */
  done(number) {
    this.heard = Math.max(this.heard, number ?? 0);
    this.waiting.shift()?.iopub?.status?.({
      content: { execution_state: "idle" },
    });
  }

  /** Whether a state is not of before what somebody does here just now. */
  isNewer(number) {
    return this.waiting.length === 0 && number >= this.heard;
  }

  hear(state) {
    this.listen?.({
      content: { data: { method: "update", state } },
      buffers: [],
    });
  }

  end() {
    this.closed?.({});
  }
}
