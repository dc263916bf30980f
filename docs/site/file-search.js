// A browser starts no worker from file://. There, the search runs in a hidden frame of the page instead.
if (location.protocol === "file:") {
  window.Worker = class {
    #frame = document.createElement("iframe");
    #ready;

    constructor(url) {
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inside = this.#frame.contentWindow;
      inside.postMessage = (data) => setTimeout(() => this.onmessage?.({ data }));
      this.#ready = new Promise((resolve, reject) => {
        const script = inside.document.createElement("script");
        script.src = new URL(url, location);
        script.onload = () => resolve(inside);
        script.onerror = () => reject(new Error(`${script.src} cannot be loaded`));
        inside.document.body.append(script);
      });
      this.#ready.catch((error) => this.onerror?.(error));
    }

    postMessage(data) {
      this.#ready.then((inside) => inside.onmessage({ data }), () => {});
    }

    terminate() {
      this.#frame.remove();
    }
  };
}
