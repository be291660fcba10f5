// Runs examples/vscode/extension.js with as much of VS Code as it uses, and asks one question after
// another. Prints what its output channel got.
//
//   node extension.cjs STATE_DIR SETTINGS QUESTION...   (SETTINGS: JSON)

const Module = require("node:module");
const { CancellationTokenSource } = Module.createRequire(
  require.resolve("../../../examples/vscode/client.js"),
)("vscode-jsonrpc/node");

const [stateDir, settings, ...questions] = process.argv.slice(2);
const commands = {};
let shown = "";
let errors = [];
let source;

const vscode = {
  ProgressLocation: { Notification: 15 },
  commands: {
    registerCommand: (name, run) => ((commands[name] = run), { dispose() {} }),
  },
  window: {
    createOutputChannel: () => ({
      append(text) {
        shown += text;
        if (text === "2\n") source.cancel(); // somebody clicks on Cancel
      },
      appendLine: (text) => (shown += `${text}\n`),
      show() {},
      dispose() {},
    }),
    showInputBox: async () => questions.shift(),
    showErrorMessage: (text) => errors.push(text),
    withProgress: (options, work) => work({}, (source = new CancellationTokenSource()).token),
  },
  workspace: {
    workspaceFolders: [{ uri: { fsPath: process.cwd() } }],
    getConfiguration: () => ({ get: (name) => JSON.parse(settings)[name] }),
  },
};
const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? vscode : load(name, ...rest));

const extension = require("../../../examples/vscode/extension.js");
const context = { subscriptions: [], storageUri: { fsPath: stateDir } };

(async () => {
  extension.activate(context);
  while (questions.length) await commands["a2a.ask"]();
  await extension.deactivate();
  console.log(JSON.stringify({ commands: Object.keys(commands), shown, errors }));
})();
