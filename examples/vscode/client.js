"use strict";
// An agent behind `a2a-gateway stdio`, by vscode-jsonrpc. Knows nothing of VS Code: it serves any
// program on Node. The wire is described in docs/bindings/framed-session.md of the gateway.

const { spawn } = require("node:child_process");
const { randomUUID } = require("node:crypto");
const { once } = require("node:events");
const { createInterface } = require("node:readline");
const rpc = require("vscode-jsonrpc/node");

// the events of a stream come as `$/progress`, which vscode-jsonrpc knows already
const EVENTS = new rpc.ProgressType();
const PARAMETERS = "a2a-service-parameters";
const CANCELLED = -32044;
// the gateway gives running answers its grace (10 s by default) when its input ends
const END_MS = 15_000;

// Content-Length headers, as with a language server
const headers = (child) => [
  new rpc.StreamMessageReader(child.stdout),
  new rpc.StreamMessageWriter(child.stdin),
];

class AgentClient {
  #child;
  #connection;
  #gone;

  /**
   * Starts the program, whose input and output carry the calls. `log` gets its lines of stderr;
   * `parameters` go along with every call, such as `{ authorization: "Bearer …" }`.
   */
  static async start(command, args, options = {}) {
    const { cwd, env, log = () => {}, parameters = {}, framing = headers } = options;
    const client = new AgentClient(spawn(command, args, { cwd, env }), log, framing);
    try {
      await client.request("$/initialize", {
        streams: "notifications",
        [PARAMETERS]: { "a2a-version": "1.0", ...parameters },
      });
    } catch (error) {
      client.#child.kill();
      const reason = await client.#gone;
      throw new Error(`${command} cannot be used: ${reason || error.message}`);
    }
    return client;
  }

  constructor(child, log, framing) {
    this.#child = child;
    let last = "";
    const lines = createInterface(child.stderr).on("line", (line) => log((last = line)));
    this.#connection = rpc.createMessageConnection(...framing(child));
    this.#connection.onError(([error]) => log(error.message));
    this.#connection.listen();
    this.#gone = Promise.all([once(child, "close"), once(lines, "close")]).then(
      ([[code, signal]]) => (code === 0 ? "" : last || `it ended by ${signal ?? `code ${code}`}`),
      (error) => error.message,
    );
    // calls that wait for an answer learn that none comes
    this.#gone.then(() => this.#connection.dispose());
  }

  /** Resolves when the program has ended, to the reason if it failed. */
  get gone() {
    return this.#gone;
  }

  /** Any A2A operation: `request("GetTask", { id })`. Cancelling ends the call, not its task. */
  request(method, params, token) {
    // an argument too many would make an array of the params
    return this.#connection.sendRequest(method, params, ...(token ? [token] : []));
  }

  /** A2A operation that streams; `onEvent` gets each event, in order, before this resolves. */
  async stream(method, params, onEvent, token) {
    const partialResultToken = randomUUID();
    const listening = this.#connection.onProgress(EVENTS, partialResultToken, onEvent);
    try {
      return await this.request(method, { ...params, partialResultToken }, token);
    } finally {
      listening.dispose();
    }
  }

  /**
   * Sends a text; `onText` gets the answer as it comes. Resolves to how it went, and to what the
   * next question of the same conversation has to be given as `conversation`.
   */
  async ask(text, { conversation = {}, onText = () => {}, token } = {}) {
    const answer = new Answer(onText);
    const message = { messageId: randomUUID(), role: "ROLE_USER", parts: [{ text }], ...conversation };
    let cancelling;
    const listening = token?.onCancellationRequested(() => {
      cancelling = this.#cancelTask(answer);
    });
    try {
      await this.stream("SendStreamingMessage", { message }, (event) => answer.take(event), token);
    } catch (error) {
      if (error.code !== CANCELLED || !token?.isCancellationRequested) throw error;
      await cancelling;
    } finally {
      listening?.dispose();
    }
    return { state: answer.state, taskId: answer.taskId, conversation: answer.conversation() };
  }

  // who does not want the answer any more does not want the work either
  async #cancelTask(answer) {
    // a call that was given up before its task was known has begun nothing that could be named
    answer.state = "TASK_STATE_CANCELED";
    if (!answer.taskId) return;
    // it may have ended meanwhile, which is as well
    const task = await this.request("CancelTask", { id: answer.taskId }).catch(() => undefined);
    answer.state = task?.status.state ?? answer.state;
  }

  /** Ends the program in order; answers under way get its grace period. */
  async close() {
    this.#connection.end();
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), END_MS);
    const reason = await this.#gone;
    clearTimeout(timer);
    return reason;
  }
}

// What the events of one answer come to.
class Answer {
  state = "";
  taskId = "";
  contextId = "";
  #onText;
  #said = "";

  constructor(onText) {
    this.#onText = onText;
  }

  take(event) {
    const { task, message, statusUpdate, artifactUpdate } = event;
    this.taskId = task?.id || statusUpdate?.taskId || artifactUpdate?.taskId || this.taskId;
    const about = task ?? message ?? statusUpdate ?? artifactUpdate;
    this.contextId = about?.contextId || this.contextId;
    this.state = (task ?? statusUpdate)?.status?.state ?? this.state;
    if (message) this.state = "TASK_STATE_COMPLETED";
    const parts = message?.parts ?? artifactUpdate?.artifact?.parts ?? statusUpdate?.status?.message?.parts;
    const text = (parts ?? []).map((part) => part.text ?? "").join("");
    if (!text || (statusUpdate && this.#hasSaid(text))) return;
    this.#said += text;
    this.#onText(text);
  }

  // agents that print what they say ask by the last line of it
  #hasSaid(text) {
    return `\n${this.#said}`.trimEnd().endsWith(`\n${text.trim()}`);
  }

  // a task that asks something back is continued; any other has ended
  conversation() {
    const isOpen = /_(INPUT|AUTH)_REQUIRED$/.test(this.state);
    return { contextId: this.contextId, ...(isOpen && { taskId: this.taskId }) };
  }
}

module.exports = { AgentClient };
