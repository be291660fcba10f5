"use strict";
// The command "A2A: Ask agent": one question, its answer in an output channel as it comes. Starts the
// gateway when it is first needed, and again if it has ended.

const vscode = require("vscode");
const { AgentClient } = require("./client.js");

let channel;
let stateDir;
let starting; // a promise of the client
let conversation;

function activate(context) {
  channel = vscode.window.createOutputChannel("A2A");
  // tasks of one workspace are nothing to another, which may have another agent
  stateDir = (context.storageUri ?? context.globalStorageUri).fsPath;
  context.subscriptions.push(
    channel,
    vscode.commands.registerCommand("a2a.ask", ask),
    vscode.commands.registerCommand("a2a.restart", stop),
  );
}

async function ask() {
  const text = await vscode.window.showInputBox({ prompt: "What do you want from the agent?" });
  if (!text) return;
  channel.show(true);
  channel.appendLine(`> ${text}`);
  const options = {
    location: vscode.ProgressLocation.Notification,
    title: "The agent works",
    cancellable: true,
  };
  try {
    const answer = await vscode.window.withProgress(options, async (progress, token) => {
      const client = await running();
      return client.ask(text, { conversation, token, onText: (piece) => channel.append(piece) });
    });
    conversation = answer.conversation;
    const state = answer.state.replace("TASK_STATE_", "").toLowerCase().replace("_", " ");
    channel.appendLine(state === "completed" ? "" : `\n[${state}]`);
  } catch (error) {
    channel.appendLine(`\n[${error.message}]`);
    vscode.window.showErrorMessage(`A2A: ${error.message}`);
  }
}

function running() {
  starting ??= start().catch((error) => {
    starting = undefined;
    throw error;
  });
  return starting;
}

async function start() {
  const settings = vscode.workspace.getConfiguration("a2a");
  const args = [...settings.get("arguments"), "--state-dir", stateDir];
  const client = await AgentClient.start(settings.get("command"), args, {
    cwd: vscode.workspace.workspaceFolders?.[0]?.uri.fsPath,
    log: (line) => channel.appendLine(`[gateway] ${line}`),
  });
  client.gone.then(() => (starting = undefined));
  return client;
}

async function stop() {
  const client = await starting?.catch(() => {});
  conversation = undefined;
  await client?.close();
}

module.exports = { activate, deactivate: stop };
