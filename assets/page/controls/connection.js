// The connection to the server. When a stream of messages or a call breaks, Gradio's client waits forever, or reloads the page. So its
// requests go through here: a stream that is cut continues on a new connection; if that fails, what waits for it ends, and the page says so.

import { emit } from "../core/events.js";

const TIMES = { retry: 500, patience: 8000, silence: 10000 }; // milliseconds: between two attempts; until a stream is lost; without a sign of life, until it counts as cut
const UNREACHABLE = { kind: "error", messages: [["notice.unreachable", {}]], fraction: null };
const NO_SERVER = [502, 503, 504]; // status codes of proxies whose server does not answer
const KIND = /^data: \{"msg": ?"(\w+)"/;

// Routes the requests of Gradio's client through a connection, and lets the server know that the page is open. A page in a frame without an
// origin may call nothing of the server.
export function keepConnected() {
  const address = `connection/${window.__gradio_session_hash__}`;
  const connected = window.origin !== "null";
  const connection = createConnection(window.fetch.bind(window), TIMES, connected);
  window.fetch = connection.fetch;
  if (!connected) return;
  connection.stay(address);
  window.addEventListener("pagehide", () => navigator.sendBeacon(address));
}

// `plain`: the browser's fetch; `connected`: whether calls are sent at all. Events: "notice" while the server cannot be reached, "cut" when a
// stream is lost.
export function createConnection(plain, { retry, patience, silence } = TIMES, connected = true) {
  let reachable = true;
  let open = null; // the stream that Gradio's client reads
  let count = 0; // of streams and unanswered calls
  const unanswered = []; // ids of calls that Gradio's client waits for and that did not reach the server

  function reached(now) {
    if (now !== reachable) emit("notice", now ? null : UNREACHABLE);
    reachable = now;
  }

  // Reads a stream of messages, comments too, until it ends or is cut, or until `take` returns false.
  async function read(address, take) {
    const end = new AbortController();
    let timer = setTimeout(() => end.abort(), silence);
    try {
      const answer = await plain(address, { signal: end.signal }).catch(() => null);
      reached(Boolean(answer?.ok));
      const reader = answer?.ok ? answer.body.pipeThrough(new TextDecoderStream()).getReader() : null;
      for (let text = "", more = reader !== null; more; ) {
        const { value, done } = await reader.read();
        clearTimeout(timer);
        timer = setTimeout(() => end.abort(), silence);
        const messages = (text + (value ?? "")).split("\n\n");
        text = messages.pop();
        more = !done && messages.every((message) => take(message) !== false);
      }
    } catch {
      // cut
    }
    clearTimeout(timer);
    end.abort();
    await new Promise((ready) => setTimeout(ready, retry));
  }

  async function stay(address) {
    for (;;) await read(address, () => true);
  }

  // The answer to a request for messages: one stream over any number of connections.
  function stream(address) {
    let out = null;
    const body = new ReadableStream({
      start(controller) {
        open = out = controller;
        carry(`${address}&stream=${Date.now()}-${++count}`, out);
      },
      cancel() {
        if (open === out) open = null;
      },
    });
    return new Response(body.pipeThrough(new TextEncoderStream()), { headers: { "content-type": "text/event-stream" } });
  }

  async function carry(address, out) {
    let [received, alive, known] = [0, performance.now(), true];
    const take = (message) => {
      const [, kind] = KIND.exec(message) ?? [];
      known = kind !== "unexpected_error";
      if (open !== out || !known) return false;
      alive = performance.now();
      if (!kind) return true;
      received += 1;
      out.enqueue(`${message}\n\n`);
      if (kind === "close_stream") close(out);
      return true;
    };
    if (unanswered.length) end(out, unanswered.splice(0));
    while (open === out && known && performance.now() - alive < patience) await read(`${address}&after=${received}`, take);
    if (open !== out) return;
    end(out, [null]);
    emit("cut");
  }

  // Ends the calls with these ids for Gradio's client, without results, and closes the stream; null: all calls.
  function end(out, ids) {
    for (const id of ids) out.enqueue(ended(id));
    out.enqueue('data: {"msg":"close_stream"}\n\n');
    close(out);
  }

  function close(out) {
    open = null;
    out.close();
  }

  const ended = (id) => `data: ${JSON.stringify({ msg: "process_completed", event_id: id, success: true, output: { data: [] } })}\n\n`;

  // A call; one that does not reach the server changes nothing on the page, and another message says so.
  async function call(address, options) {
    const answer = connected ? await plain(address, options).catch(() => null) : null;
    const failed = !answer || (NO_SERVER.includes(answer.status) && !answer.headers.get("content-type")?.includes("json"));
    if (!failed) return answer;
    reached(false);
    if (!address.includes("/queue/join")) return Response.json({ data: [] });
    const id = `unanswered-${++count}`;
    emit("notice", UNREACHABLE);
    if (open) open.enqueue(ended(id));
    else unanswered.push(id);
    return Response.json({ event_id: id });
  }

  function route(request, options) {
    const address = String(request.url ?? request);
    if (/\/queue\/data\?/.test(address)) return Promise.resolve(stream(address));
    if (/\/gradio_api\/(queue\/join|run\/)/.test(address)) return call(address, options);
    return plain(request, options);
  }
  return { fetch: route, stay };
}
