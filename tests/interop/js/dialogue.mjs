// A whole dialogue of the JavaScript SDK with a gateway, over one binding.
//
//   node dialogue.mjs BINDING BASE_URL
//
// Prints one line of JSON for each step, in ProtoJSON; the test that runs it asserts. A step that
// throws is told as the name of the error's class. Needs an agent of tests/doubles/dialogue.py.
import { randomUUID } from "node:crypto";
import {
  AgentCard,
  CancelTaskRequest,
  GetExtendedAgentCardRequest,
  GetTaskRequest,
  ListTasksRequest,
  ListTasksResponse,
  Message,
  SendMessageRequest,
  StreamResponse,
  SubscribeToTaskRequest,
  Task,
  TaskPushNotificationConfig,
} from "@a2a-js/sdk";
import {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from "@a2a-js/sdk/client";
import { GrpcTransportFactory } from "@a2a-js/sdk/client/grpc";

const [binding, baseUrl] = process.argv.slice(2);

const card = await new DefaultAgentCardResolver().resolve(baseUrl);
const factory = new ClientFactory({
  transports: [
    new JsonRpcTransportFactory(),
    new RestTransportFactory(),
    new GrpcTransportFactory(),
  ],
  preferredTransports: [binding],
});
const client = await factory.createFromAgentCard(card);

function request(text, fields = {}, configuration = {}) {
  return SendMessageRequest.fromJSON({
    message: {
      messageId: randomUUID(),
      role: "ROLE_USER",
      parts: [{ text, mediaType: "text/plain" }],
      ...fields,
    },
    configuration,
  });
}

// The client answers a send with the Task or the Message itself.
async function send(...args) {
  const result = await client.sendMessage(request(...args));
  return result.status ? { task: Task.toJSON(result) } : { message: Message.toJSON(result) };
}

async function collect(stream) {
  const events = [];
  for await (const event of stream) events.push(StreamResponse.toJSON(event));
  return events;
}

async function get(id, fields = {}) {
  return Task.toJSON(await client.getTask(GetTaskRequest.fromJSON({ id, ...fields })));
}

async function cancel(id) {
  return Task.toJSON(await client.cancelTask(CancelTaskRequest.fromJSON({ id })));
}

async function list(fields) {
  const page = await client.listTasks(ListTasksRequest.fromJSON(fields));
  return ListTasksResponse.toJSON(page);
}

function subscribe(id) {
  return client.resubscribeTask(SubscribeToTaskRequest.fromJSON({ id }));
}

async function tell(step, act) {
  let told;
  try {
    told = { value: await act() };
  } catch (error) {
    told = { error: classes(error), message: error.message };
  }
  console.log(JSON.stringify({ step, ...told }));
  return told.value;
}

// The names of an error's classes, the most special one first: each binding has its own
// subclass of the same error.
function classes(error) {
  const names = [];
  for (let type = error.constructor; type?.name; type = Object.getPrototypeOf(type)) {
    names.push(type.name);
  }
  return names;
}

await tell("card", async () => AgentCard.toJSON(await client.getAgentCard()));
await tell("binding", async () => client.transport.protocolName);

const first = await tell("send", () => send("hello"));
await tell("direct", () => send("direct"));
await tell("stream", () => collect(client.sendMessageStream(request("count 20"))));

const asked = await tell("ask", () => send("ask"));
await tell("answer", () => send("blue", { taskId: asked.task.id }));
await tell("answered", () => get(asked.task.id));
const streamed = await tell("streamed ask", () =>
  collect(client.sendMessageStream(request("ask"))),
);
await tell("streamed answer", () =>
  collect(client.sendMessageStream(request("red", { taskId: streamed[0].task.id }))),
);

await tell("get without history", () => get(asked.task.id, { historyLength: 0 }));
await tell("get with one message", () => get(asked.task.id, { historyLength: 1 }));

const contextId = first.task.contextId;
await tell("send in context", () => send("hello", { contextId }));
await tell("list", () => list({ contextId, includeArtifacts: true }));
const page = await tell("first page", () => list({ contextId, pageSize: 1 }));
await tell("last page", () => list({ contextId, pageSize: 1, pageToken: page.nextPageToken }));

const waiting = await tell("send at once", () => send("wait", {}, { returnImmediately: true }));
await tell("cancel", () => cancel(waiting.task.id));
await tell("cancel again", () => cancel(waiting.task.id));

const gate = randomUUID();
const later = await tell("send for later", () =>
  send(`later ${gate}`, {}, { returnImmediately: true }),
);
await tell("subscribe", async () => {
  const leaver = subscribe(later.task.id);
  await leaver.next();
  await leaver.return();
  const readers = [subscribe(later.task.id), subscribe(later.task.id)];
  const starts = await Promise.all(readers.map((reader) => reader.next()));
  await send(`release ${gate}`);
  const rests = await Promise.all(readers.map(collect));
  return starts.map((start, index) => [StreamResponse.toJSON(start.value), ...rests[index]]);
});

await tell("error: get unknown", () => get("no-such-task"));
await tell("error: send to unknown", () => send("hello", { taskId: "no-such-task" }));
await tell("error: send to finished", () => send("more", { taskId: first.task.id }));
await tell("error: cancel finished", () => cancel(first.task.id));
await tell("error: subscribe to finished", () => collect(subscribe(first.task.id)));
await tell("error: other context", () =>
  send("green", { taskId: streamed[0].task.id, contextId: "another-context" }),
);
await tell("error: part type", () =>
  send("", { parts: [{ text: "x", mediaType: "application/x-nobody-takes-this" }] }),
);
await tell("error: no parts", () => send("", { parts: [] }));
await tell("error: page size", () => list({ pageSize: 101 }));
// The rest goes past the client, which looks at the card's capabilities first and sets the version.
const { transport } = client;
const speaking = (version) => ({ serviceParameters: { "A2A-Version": version } });
await tell("error: push", () =>
  transport.createTaskPushNotificationConfig(
    TaskPushNotificationConfig.fromJSON({
      taskId: first.task.id,
      url: "https://example.com/hook",
    }),
    speaking("1.0"),
  ),
);
await tell("error: extended card", () =>
  transport.getExtendedAgentCard(GetExtendedAgentCardRequest.fromJSON({}), speaking("1.0")),
);
await tell("error: version", () =>
  transport.getTask(GetTaskRequest.fromJSON({ id: first.task.id }), speaking("99.0")),
);
await tell("streamed error", () =>
  collect(client.sendMessageStream(request("hello", { taskId: "no-such-task" }))),
);
