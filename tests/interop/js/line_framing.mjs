// One message a line, for vscode-jsonrpc, which has headers alone.

import { createInterface } from "node:readline";

export function lineFraming(rpc) {
  class Reader extends rpc.AbstractMessageReader {
    constructor(stream) {
      super();
      this.stream = stream;
    }

    listen(callback) {
      const lines = createInterface(this.stream);
      lines.on("line", (line) => callback(JSON.parse(line)));
      lines.on("close", () => this.fireClose());
      return { dispose: () => lines.close() };
    }
  }

  class Writer extends rpc.AbstractMessageWriter {
    constructor(stream) {
      super();
      this.stream = stream;
    }

    async write(message) {
      this.stream.write(`${JSON.stringify(message)}\n`);
    }

    end() {
      this.stream.end();
    }
  }

  return (child) => [new Reader(child.stdout), new Writer(child.stdin)];
}
