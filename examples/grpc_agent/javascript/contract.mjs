// The gateway's contract for agents, from the one file that holds all of it.

import { readFileSync, rmSync } from "node:fs";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

// A little more than the gateway's limits.message_bytes; gRPC's own limit is 4 MiB.
const LARGEST_MESSAGE = 17 * 2 ** 20;
// For turns to end at SIGTERM; the gateway sends no new ones when it ends as well.
const GRACE_MS = 20_000;

/**
 * Serves `execute(request, signal)`, an async generator of events, and `cancel(request)`, which
 * returns the last words to a cancelled task, at an address (`127.0.0.1:9000`, `unix:/run/agent.sock`).
 */
export async function serve(agent, address, contractFile) {
  const found = loader.loadFileDescriptorSetFromBuffer(readFileSync(contractFile), {
    enums: String,
    longs: Number,
  });
  const server = new grpc.Server({ "grpc.max_receive_message_length": LARGEST_MESSAGE });
  server.addService(found["a2a_gateway.agent.v1.AgentService"], {
    Execute: (call) => run(agent, call),
    Cancel: (call, answer) => answer(null, { events: agent.cancel(call.request) }),
  });
  // process 1 of a container is not ended by a signal that it does not handle
  process.once("SIGTERM", () => {
    server.tryShutdown(() => process.exit(0));
    setTimeout(() => process.exit(0), GRACE_MS);
  });
  // a killed agent leaves its socket behind
  if (address.startsWith("unix:")) rmSync(address.slice("unix:".length), { force: true });
  const credentials = grpc.ServerCredentials.createInsecure();
  return new Promise((resolve, reject) =>
    server.bindAsync(address, credentials, (error, port) => (error ? reject(error) : resolve(port))),
  );
}

async function run(agent, call) {
  const stop = new AbortController();
  call.on("cancelled", () => stop.abort());
  try {
    for await (const event of agent.execute(call.request, stop.signal)) {
      if (stop.signal.aborted) return;
      // false: the gateway is behind; going on would fill the memory
      if (!call.write(event)) await drained(call, stop.signal);
    }
    call.end();
  } catch (error) {
    if (stop.signal.aborted) return;
    console.error(error);
    call.emit("error", { code: grpc.status.UNKNOWN, details: String(error) });
  }
}

function drained(call, signal) {
  return new Promise((resolve) => {
    call.once("drain", resolve);
    signal.addEventListener("abort", resolve, { once: true });
  });
}
