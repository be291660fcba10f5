// A dialogue by vscode-jsonrpc, through the client of examples/vscode. Prints what each step gave.
//
//   node ide.mjs headers|lines COMMAND ARGUMENT...

import { createRequire } from "node:module";
import { lineFraming } from "./line_framing.mjs";

const require = createRequire(new URL("../../../examples/vscode/client.js", import.meta.url));
const { AgentClient } = require("./client.js");
const rpc = require("vscode-jsonrpc/node");

const [framing, command, ...args] = process.argv.slice(2);
const options = framing === "lines" ? { framing: lineFraming(rpc) } : {};
const message = (text, more) => ({
  message: { messageId: "m", role: "ROLE_USER", parts: [{ text }], ...more },
});
const tell = (step, value) => console.log(JSON.stringify({ step, value }));
const failure = (error) => ({ code: error.code, message: error.message, data: error.data });

const log = [];
const client = await AgentClient.start(command, args, { log: (line) => log.push(line), ...options });

tell("request", await client.request("SendMessage", message("stream a b")));
tell("direct", await client.request("SendMessage", message("hello")));

const events = [];
const end = await client.stream("SendStreamingMessage", message("stream one two three"), (event) =>
  events.push(event),
);
tell("stream", { events, end });

// many at once: each has its own events alone
const words = Array.from({ length: 20 }, (_, n) => `w${n}`);
tell(
  "many",
  await Promise.all(
    words.map(async (word) => {
      let text = "";
      await client.ask(`stream ${word} ${word}`, { onText: (piece) => (text += piece) });
      return text;
    }),
  ),
);

// a call that is cancelled ends; its task goes on
const source = new rpc.CancellationTokenSource();
let taskId;
const cancelled = client.stream(
  "SendStreamingMessage",
  message("count 100"),
  (event) => {
    taskId ??= event.task?.id;
    if (event.artifactUpdate) source.cancel();
  },
  source.token,
);
tell("cancelled call", await cancelled.catch(failure));
tell("its task", await client.request("GetTask", { id: taskId }));
tell("cancelled task", await client.request("CancelTask", { id: taskId }));

// for whoever asks, cancelling means both
const second = new rpc.CancellationTokenSource();
const given = await client.ask("count 100", { token: second.token, onText: () => second.cancel() });
tell("cancelled answer", given);
tell("task of the answer", await client.request("GetTask", { id: given.taskId }));

const asked = await client.ask("ask");
let text = "";
const answered = await client.ask("blue", {
  conversation: asked.conversation,
  onText: (piece) => (text += piece),
});
tell("conversation", { asked, answered, text });

tell("error", await client.request("GetTask", { id: "nobody" }).catch(failure));
tell("stream error", await client.stream("SubscribeToTask", { id: "nobody" }, () => {}).catch(failure));
tell("unknown method", await client.request("NoSuchMethod", {}).catch(failure));

tell("end", { reason: await client.close(), log });

const noProgram = await AgentClient.start("./no-such-program", []).catch((error) => error.message);
tell("no program", noProgram);
const wrong = args.map((word) => (word === "demo" ? "no_such_agent:agent" : word));
tell("no agent", await AgentClient.start(command, wrong, options).catch((error) => error.message));
