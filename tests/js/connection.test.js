// Streams that continue on new connections, and calls that do not reach the server.

import assert from "node:assert/strict";
import test from "node:test";

import { createConnection } from "../../assets/page/controls/connection.js";
import { on } from "../../assets/page/core/events.js";

const LONG = 60000; // milliseconds, also for a busy machine
const TIMES = { retry: 1, patience: LONG, silence: LONG };
const DATA = "http://here/gradio_api/queue/data?session_hash=a";
const JOIN = "http://here/gradio_api/queue/join?";
const message = (kind, rest = {}) => `data: ${JSON.stringify({ msg: kind, ...rest })}\n\n`;
const CLOSE = message("close_stream");
const said = [];
on("notice", (notice) => said.push(notice?.messages[0][0] ?? null));
on("cut", () => said.push("cut"));

// Makes a response with these parts, which then ends, breaks, or stays open until the request is aborted.
function streamOf(parts, end = "ends") {
  const left = parts.map((part) => new TextEncoder().encode(part));
  return (signal) => {
    const pull = (out) => {
      if (left.length) out.enqueue(left.shift());
      else if (end === "ends") out.close();
      else if (end === "breaks") out.error(new Error("cut"));
      else signal.addEventListener("abort", () => out.error(signal.reason));
    };
    return new Response(new ReadableStream({ pull }, { highWaterMark: 0 }), { headers: { "content-type": "text/event-stream" } });
  };
}

// A connection whose requests get these answers in order, the last one again and again; null: no answer.
function connected(...answers) {
  return connectedWith({}, ...answers);
}

function connectedWith(times, ...answers) {
  said.length = 0;
  const asked = [];
  const fetch = async (address, options) => {
    asked.push(address);
    const make = answers.length > 1 ? answers.shift() : answers[0];
    if (!make) throw new TypeError("no network");
    return make(options?.signal);
  };
  return { asked, fetch: createConnection(fetch, { ...TIMES, ...times }).fetch };
}

async function textOf(connection) {
  return (await connection.fetch(new Request(DATA))).text();
}

const afters = (asked) => asked.map((address) => Number(new URL(address).searchParams.get("after")));

for (const end of ["ends", "breaks"]) {
  test(`a stream that ${end} continues after the last whole message`, async () => {
    const connection = connected(
      streamOf([": alive\n\n", message("estimation").slice(0, 12), `${message("estimation").slice(12)}${message("process_starts").slice(0, 9)}`], end),
      streamOf([message("process_starts"), CLOSE]),
    );
    assert.equal(await textOf(connection), message("estimation") + message("process_starts") + CLOSE);
    assert.equal(new Set(connection.asked.map((address) => new URL(address).searchParams.get("stream"))).size, 1);
    assert.deepEqual(said, []);
  });
}

test("the number of received messages is sent with every attempt", async () => {
  const connection = connected(streamOf([message("estimation"), ": alive\n\n"]), streamOf([]), streamOf([CLOSE]));
  await textOf(connection);
  assert.deepEqual(afters(connection.asked), [0, 1, 1]);
});

test("a stream without any sign of life counts as cut", async () => {
  const connection = connectedWith({ silence: 40 }, streamOf([message("estimation")], "stays"), streamOf([CLOSE]));
  assert.equal(await textOf(connection), message("estimation") + CLOSE);
});

test("a server that does not come back is reported, and all calls end", async () => {
  const connection = connectedWith({ patience: 400 }, streamOf([message("estimation")]), null);
  const [, ended, closed] = (await textOf(connection)).split("\n\n");
  const { msg, event_id, success, output } = JSON.parse(ended.slice(6));
  assert.deepEqual({ msg, event_id, success, output }, { msg: "process_completed", event_id: null, success: true, output: { data: [] } });
  assert.equal(`${closed}\n\n`, CLOSE);
  assert.deepEqual(said, ["notice.unreachable", "cut"]);
});

test("a server that does not know the session is reported at once", async () => {
  const connection = connected(streamOf(['data: {"msg": "unexpected_error", "session_not_found": true}\n\n']));
  assert.match(await textOf(connection), /process_completed/);
  assert.deepEqual(said, ["cut"]);
  assert.equal(connection.asked.length, 1);
});

test("a server that comes back in time is no longer reported", async () => {
  const connection = connected(null, () => new Response("no server", { status: 502 }), streamOf([CLOSE]));
  assert.equal(await textOf(connection), CLOSE);
  assert.deepEqual(said, ["notice.unreachable", null]);
});

test("a call that does not reach the server changes nothing and says so", async () => {
  const connection = connected(null);
  const call = await connection.fetch("http://here/gradio_api/run/predict?", { method: "POST", body: "{}" });
  assert.deepEqual(await call.json(), { data: [] });
  assert.deepEqual(said, ["notice.unreachable"]);
});

test("a queued call that does not reach the server ends, whether or not a stream is open", async () => {
  for (const open of [false, true]) {
    const connection = connectedWith({ patience: 400, silence: 400 }, ...(open ? [streamOf([message("estimation")], "stays")] : []), null);
    const early = open ? textOf(connection) : null;
    const { event_id } = await (await connection.fetch(JOIN, { method: "POST", body: "{}" })).json();
    const text = await (early ?? textOf(connection));
    assert.ok(text.includes(`"event_id":"${event_id}"`));
    assert.ok(text.endsWith(CLOSE));
    assert.equal(said[0], "notice.unreachable");
  }
});

test("answers of the server, refusals too, are passed on", async () => {
  for (const status of [200, 422, 503]) {
    const connection = connected(() => Response.json({ event_id: "e" }, { status }));
    const answer = await connection.fetch(JOIN, { method: "POST", body: "{}" });
    assert.equal(answer.status, status);
    assert.deepEqual(await answer.json(), { event_id: "e" });
    assert.deepEqual(said, []);
  }
});

test("requests of other kinds are passed on unchanged", async () => {
  const connection = connected(() => new Response("x"));
  assert.equal(await (await connection.fetch("http://here/theme.css", { method: "GET" })).text(), "x");
  assert.deepEqual(connection.asked, ["http://here/theme.css"]);
});
