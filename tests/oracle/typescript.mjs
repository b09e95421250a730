// The real TypeScript client uses this server: it creates, runs, confirms, forks, reads and deletes a conversation.
//
//     ANNALS=target/debug/annals CLIENT=FOLDER node tests/oracle/typescript.mjs
//
// CLIENT is a folder with @openhands/typescript-client and ws in its node_modules. The model server is in this script.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { once } from "node:events";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";

const KEY = "a-key-of-the-tests";
const TIMEOUT_MS = 60_000;
const annals = path.resolve(process.env.ANNALS ?? "target/debug/annals");
const from = createRequire(pathToFileURL(path.resolve(process.env.CLIENT, "package.json")));
// The client loads the package ws with `require`, which a module does not have.
globalThis.require = from;
const load = (name) => import(pathToFileURL(from.resolve(name)));
const { RemoteConversation, RemoteWorkspace, Agent } = await load("@openhands/typescript-client");
const { ConversationClient, ServerClient, SettingsClient, BashClient, FileClient } =
  await load("@openhands/typescript-client/clients");

const call = (id, name, input) => ({
  id,
  type: "function",
  function: { name, arguments: JSON.stringify(input) },
});
const script = [
  { tool_calls: [call("c1", "terminal", { command: "echo one > first.txt && cat first.txt" })] },
  { content: "It is written." },
  { tool_calls: [call("c2", "terminal", { command: "echo never > second.txt" })] },
  { content: "Then not." },
  { content: "Aside." },
];
// The answer to a request without tools.
const title = { content: "A title" };

function model() {
  const asked = [];
  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const { tools } = JSON.parse(Buffer.concat(parts));
    const reply = tools ? script[asked.push(tools) - 1] : title;
    const message = { role: "assistant", content: null, ...reply };
    const finish_reason = message.tool_calls ? "tool_calls" : "stop";
    const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
    const answer = { id: `r${asked.length}`, object: "chat.completion", created: 1, model: "m", usage };
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ ...answer, choices: [{ index: 0, message, finish_reason }] }));
  });
  return { asked, server };
}

/** Waits until `holds` returns true. */
async function until(what, holds) {
  const end = Date.now() + TIMEOUT_MS;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`timed out while waiting for: ${what}`);
    await new Promise((done) => setTimeout(done, 10));
  }
}

async function drive(host, folder, models) {
  const work = path.join(folder, "work");
  mkdirSync(work);
  const received = [];
  const errors = [];
  const workspace = new RemoteWorkspace({ host, workingDir: work, apiKey: KEY });
  const base_url = `http://127.0.0.1:${models.server.address().port}/v1`;
  const agent = new Agent({
    kind: "Agent",
    llm: { model: "openai/m", base_url, api_key: "k", usage_id: "agent", num_retries: 0 },
    tools: [{ name: "terminal", params: {} }],
  });
  const talk = new RemoteConversation(agent, workspace, {
    callback: (event) => received.push(event),
    onError: (error) => errors.push(error),
  });
  const server = new ServerClient({ host, apiKey: KEY });
  assert.equal((await server.getServerInfo()).version.split(".")[0], "1");

  await talk.start();
  await talk.startWebSocketClient();
  await until("the socket is open", () => received.length > 0);
  await talk.sendMessage("Write a file.");
  await talk.run();
  const status = () => talk.state.refresh().then(() => talk.state.getExecutionStatus());
  await until("finished", async () => (await status()) === "finished");
  assert.equal(readFileSync(path.join(work, "first.txt"), "utf8"), "one\n");
  assert.equal(await talk.getAgentFinalResponse(), "It is written.");
  await until("the socket has the answer", () =>
    received.some((event) => event.kind === "MessageEvent" && event.source === "agent"));
  assert(received.some((event) => event.kind === "ObservationEvent"));
  const usage = (await talk.conversationStats()).usage_to_metrics.agent;
  assert(usage.accumulated_token_usage.prompt_tokens >= 20);

  await talk.setConfirmationPolicy({ kind: "AlwaysConfirm" });
  await talk.sendMessage("Write another.");
  await talk.run();
  await until("it waits for a confirmation", async () => (await status()) === "waiting_for_confirmation");
  await talk.sendConfirmationResponse(false, "Not today.");
  await until("it no longer waits", async () => (await status()) !== "waiting_for_confirmation");
  await talk.run();
  await until("finished again", async () => (await status()) === "finished");
  assert.throws(() => readFileSync(path.join(work, "second.txt")));
  const rejected = (event) => event.kind === "UserRejectObservation" && event.rejection_reason === "Not today.";
  await until("the socket has the refusal", () => received.some(rejected));

  await talk.setTitle("By the TypeScript client");
  await talk.updateSecrets({ TOKEN: "a-secret" });
  assert.equal(await talk.askAgent("Aside?"), "Aside.");

  const client = new ConversationClient({ host, apiKey: KEY });
  const info = await client.getConversation(talk.id);
  assert.equal(info.title, "By the TypeScript client");
  assert.deepEqual((await client.searchConversations({ limit: 5 })).items.map((one) => one.id), [talk.id]);
  const absent = "00000000-0000-4000-8000-000000000000";
  const [existing, missing] = await client.getConversations([talk.id, absent]);
  assert.deepEqual([existing.id, missing], [talk.id, null]);
  const events = [];
  let page_id;
  do {
    const page = await client.searchEvents(talk.id, { limit: 3, page_id });
    assert(page.items.length <= 3);
    events.push(...page.items);
    page_id = page.next_page_id;
  } while (page_id);
  assert.equal(events.length, await client.getEventCount(talk.id));
  const ids = events.map((event) => event.id);
  assert.equal(new Set(ids).size, ids.length);
  assert.deepEqual((await client.getEvents(talk.id, [ids[1], "never"])).map((event) => event?.id), [ids[1], undefined]);

  const fork = await talk.fork();
  assert.equal(await client.getEventCount(fork.id), events.length);
  const message = events.find((event) => event.kind === "MessageEvent" && event.source === "agent");
  await fork.navigateTo(message.id);
  assert.equal((await client.getConversation(fork.id)).leaf_event_id, message.id);
  const zip = Buffer.from(await (await talk.downloadTrajectory()).arrayBuffer());
  assert.equal(zip.subarray(0, 2).toString(), "PK");

  const done = await workspace.executeCommand("printf hello; exit 3", work);
  assert.deepEqual([done.stdout, done.exit_code], ["hello", 3]);
  await workspace.uploadText("uploaded", path.join(work, "third.txt"));
  assert.equal(await workspace.downloadAsText(path.join(work, "third.txt")), "uploaded");
  assert((await new SettingsClient({ host, apiKey: KEY }).getSettings()).agent_settings);

  await assert.rejects(new ConversationClient({ host, apiKey: "wrong" }).getConversation(talk.id), /401/);
  await talk.close();
  for (const id of [fork.id, talk.id]) await client.deleteConversation(id);
  await assert.rejects(client.getConversation(talk.id), /404/);
  assert.deepEqual(errors, []);
  assert.equal(models.asked.length, script.length);
  console.log(`${events.length} events, ${received.length} received at the socket: the TypeScript client works`);
}

const folder = mkdtempSync(path.join(tmpdir(), "annals-typescript-"));
const models = model();
models.server.listen(0, "127.0.0.1");
await once(models.server, "listening");
const environment = { PATH: process.env.PATH, HOME: folder, TMPDIR: folder };
const server = spawn(annals, ["--db", "a.db", "serve", "--port", "0", "--api-key", KEY], {
  cwd: folder,
  env: environment,
  stdio: ["ignore", "pipe", "inherit"],
});
const ended = once(server, "exit");
try {
  const [line] = await once(server.stdout, "data");
  await drive(/ on (http\S+)/.exec(line)[1], folder, models);
} finally {
  server.kill("SIGTERM");
  const [code] = await ended;
  models.server.close();
  models.server.closeAllConnections();
  rmSync(folder, { recursive: true });
  if (code !== 0) process.exitCode = 1;
}
