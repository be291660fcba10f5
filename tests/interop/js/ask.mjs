// One question by the client of examples/vscode. Prints its state, and all that was said.
//
//   node ask.mjs COMMAND ARGUMENT...

import { createRequire } from "node:module";

const require = createRequire(new URL("../../../examples/vscode/client.js", import.meta.url));
const { AgentClient } = require("./client.js");

const [command, ...args] = process.argv.slice(2);
const client = await AgentClient.start(command, args);
let said = "";
const answer = await client.ask("hello", { onText: (piece) => (said += piece) });
console.log(JSON.stringify({ state: answer.state, said }));
await client.close();
