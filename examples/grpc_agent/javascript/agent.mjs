// An agent in a process of its own: what it does, one function for each word.
//
//   npm ci
//   node agent.mjs 127.0.0.1:9000 ../../../proto/agent.binpb
//
// Rules of the contract: proto/agent.proto.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { serve } from "./contract.mjs";

export const say = (text) => ({ message_id: randomUUID(), role: "ROLE_AGENT", parts: [{ text }] });

// A state of the task. The gateway fills in the ids and the time.
export const status = (state, text) => ({
  status_update: { status: { state: `TASK_STATE_${state}`, message: text ? say(text) : undefined } },
});

// A piece of the turn's one artifact; all but the first are appended to it.
export const chunk = (text, append = false) => ({
  artifact_update: { artifact: { artifact_id: "answer", parts: [{ text }] }, append },
});

async function* echo(request, text) {
  yield chunk(text);
  yield status("COMPLETED");
}

// A direct answer, without a task.
async function* hello(request) {
  yield { message: say(`Hello, ${request.call.caller}!`) };
}

async function* stream(request, text, signal) {
  yield status("WORKING");
  let append = false;
  for (const word of text.split(" ")) {
    yield chunk(`${word} `, append);
    append = true;
    await sleep(10, undefined, { signal });
  }
  yield status("COMPLETED");
}

// The answer starts another turn of the same task, with `request.task`.
async function* ask() {
  yield status("INPUT_REQUIRED", "What is your favourite colour?");
}

// One number a second, until it is cancelled.
async function* count(request, text, signal) {
  yield status("WORKING");
  for (let number = 0; ; number++) {
    yield chunk(`${number}\n`, number > 0);
    await sleep(1000, undefined, { signal });
  }
}

export const commands = { hello, stream, ask, count };

export const agent = {
  // What the turn does: the first word of the message says.
  execute(request, signal) {
    const text = request.request.message.parts.map((part) => part.text ?? "").join("");
    if (request.task) return echo(request, `You answered: ${text}`);
    const [word, ...rest] = text.split(" ");
    const command = Object.hasOwn(commands, word) ? commands[word] : undefined;
    return command ? command(request, rest.join(" "), signal) : echo(request, text);
  },
  cancel() {
    return [status("CANCELED", "Stopped, as you wished.")];
  },
};

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [address = "127.0.0.1:9000", contractFile = "agent.binpb"] = process.argv.slice(2);
  const port = await serve(agent, address, contractFile);
  console.log(`serving at ${address.startsWith("unix:") ? address : port}`);
}
