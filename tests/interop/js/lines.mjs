// A dialogue by a client that knows no framing but lines: Node's readline, and JSON. Prints what each
// step gave.
//
//   node lines.mjs COMMAND ARGUMENT...

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

const [command, ...args] = process.argv.slice(2);
const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const tell = (step, value) => console.log(JSON.stringify({ step, value }));
const parameters = { "a2a-service-parameters": { "a2a-version": "1.0" } };
const message = (text) => ({
  message: { messageId: "m", role: "ROLE_USER", parts: [{ text }] },
  ...parameters,
});

const frames = createInterface(child.stdout)[Symbol.asyncIterator]();
const send = (frame) => child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...frame })}\n`);

// frames up to the first that `isLast` says so of
async function until(isLast) {
  const found = [];
  for (;;) {
    const { value, done } = await frames.next();
    if (done) throw new Error(`the output ended after ${JSON.stringify(found)}`);
    const frame = JSON.parse(value);
    found.push(frame);
    if (isLast(frame)) return found;
    if (frame.error) throw new Error(value);
  }
}
const answerTo = (id) => until((frame) => frame.id === id);

// one that never says $/initialize
send({ id: 1, method: "SendMessage", params: message("stream a b") });
tell("request", await answerTo(1));

send({ id: "s", method: "SendStreamingMessage", params: message("stream one two") });
tell("stream", await until((frame) => frame.streamEnd || frame.error));

child.stdin.write("{ no JSON\n");
tell("no JSON", await until((frame) => frame.error));

send({ id: 2, method: "$/initialize", params: { streams: "notifications", ...parameters } });
tell("initialize", await answerTo(2));
send({ id: 3, method: "SendStreamingMessage", params: message("stream one two") });
tell("strict stream", await answerTo(3));

send({ id: 4, method: "SendStreamingMessage", params: message("count 100") });
const begun = await until((frame) => frame.params?.value?.artifactUpdate);
send({ method: "$/cancelRequest", params: { id: 4 } });
const cancelled = (await answerTo(4)).at(-1);
const { id } = begun[0].params.value.task;
send({ id: 5, method: "GetTask", params: { id } });
tell("cancel", { begun, cancelled, task: (await answerTo(5)).at(-1) });

send({ id: 6, method: "SendMessage", params: message("stream and the end") });
child.stdin.end();
tell("last answer", await answerTo(6));
const rest = await frames.next();
const [code] = child.exitCode === null ? await once(child, "exit") : [child.exitCode];
tell("end", { code, rest: rest.done ? null : rest.value });
