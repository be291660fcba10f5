// The example `examples/grpc_agent/javascript` with the words of the agent contract suite.

import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { agent, chunk, say, status } from "../../../examples/grpc_agent/javascript/agent.mjs";
import { serve } from "../../../examples/grpc_agent/javascript/contract.mjs";

async function* echo(request) {
  const { parts, metadata } = request.request.message;
  yield { artifact_update: { artifact: { artifact_id: "echo", parts, metadata } } };
  yield status("COMPLETED");
}

async function* answer(request, words) {
  yield chunk(`You said: ${words.join(" ")}`);
  yield status("COMPLETED");
}

const commands = {
  message: async function* (request, [, ...rest]) {
    yield { message: say(rest.join(" ")) };
  },
  slow: async function* (request, [, count, milliseconds], signal) {
    for (let number = 0; number < Number(count); number++) {
      await sleep(Number(milliseconds), undefined, { signal });
      yield chunk(`chunk ${number} `, number > 0);
    }
    yield status("COMPLETED");
  },
  burst: async function* (request, [, count, size]) {
    for (let number = 0; number < Number(count); number++) {
      yield chunk(`${number} `.padEnd(Number(size), "."), number > 0);
    }
    yield status("COMPLETED");
  },
  ask: async function* () {
    yield status("INPUT_REQUIRED", "Which colour?");
  },
  raise: async function* (request, [, ...rest]) {
    yield chunk("so far so good");
    throw new Error(rest.join(" "));
  },
  tick: async function* (request, [, path, milliseconds], signal) {
    yield status("WORKING");
    for (;;) {
      appendFileSync(path, "tick\n");
      await sleep(Number(milliseconds), undefined, { signal });
    }
  },
  stubborn: async function* (request, [, seconds]) {
    yield status("WORKING");
    // does not look at the signal: the fault that the double stands for
    await sleep(Number(seconds) * 1000);
  },
  die: async function* () {
    yield status("WORKING");
    await sleep(50);
    process.exit(9);
  },
  block: async function* (request, [, seconds]) {
    yield status("WORKING");
    await sleep(50);
    const end = Date.now() + Number(seconds) * 1000;
    while (Date.now() < end);
    yield status("COMPLETED");
  },
};

const double = {
  execute(request, signal) {
    const text = request.request.message.parts.map((part) => part.text ?? "").join("");
    const words = text.split(/\s+/);
    if (request.task) return answer(request, words);
    const command = Object.hasOwn(commands, words[0]) ? commands[words[0]] : echo;
    return command(request, words, signal);
  },
  cancel(request) {
    const isStubborn = request.request?.message?.parts?.[0]?.text?.startsWith("stubborn");
    return isStubborn ? [] : agent.cancel();
  },
};

const port = await serve(double, process.argv[2], process.argv[3]);
console.log(`serving at ${port}`);
