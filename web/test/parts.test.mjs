// The parts of the page that need no browser: node --test parts.test.mjs, with TACITA_PARTS set to the folder
// of `node build.mjs --parts`.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const part = (name) => import(pathToFileURL(resolve(join(process.env.TACITA_PARTS, `${name}.js`))).href);
const files = ["files/chunks", "files/upload", "files/request"];
const names = ["ring", "session", "words", "ways", ...files, "service", "language", "turns"];
const [{ makeRing, Reader, Writer }, { open, protocolsOf, socketUrl }, words, ways, chunks, { send }, { begin }, service, language, { Turns }] =
  await Promise.all(names.map(part));
const { Chunker, makeCount, counted: taken } = chunks;

const counted = (from, length) => Uint8Array.from({ length }, (_, i) => (from + i) % 251);

test("a ring goes round, fills and gives everything in its order", () => {
  const memory = makeRing(16);
  const writer = new Writer(memory);
  const reader = new Reader(memory, () => writer.flush(), 1000);
  let at = 0;
  for (const length of [0, 1, 15, 16, 17, 100, 3]) {
    writer.push(counted(at, length));
    const target = new Uint8Array(length);
    assert.equal(reader.fill(target), 1);
    assert.deepEqual(target, counted(at, length));
    at += length;
  }
});

test("a reader is told of the end, after the last byte", () => {
  const memory = makeRing(4);
  const writer = new Writer(memory);
  const reader = new Reader(memory, () => writer.flush(), 1000);
  writer.push(counted(0, 9));
  writer.close();
  const target = new Uint8Array(9);
  assert.equal(reader.fill(target), 1);
  assert.deepEqual(target, counted(0, 9));
  assert.equal(reader.fill(new Uint8Array(1)), 0);
});

test("a silent writer is given up", () => {
  assert.equal(new Reader(makeRing(4), () => undefined, 5).fill(new Uint8Array(1)), -1);
});

test("rings are powers of two", () => {
  for (const bytes of [0, 1, 3, 12]) assert.throws(() => makeRing(bytes), RangeError);
});

test("a token becomes a subprotocol of few characters", () => {
  assert.deepEqual(protocolsOf(""), []);
  const [first, second] = protocolsOf("a/b+c= ü?>");
  assert.equal(first, "tacita.two-party");
  assert.match(second, /^tacita\.bearer\.[A-Za-z0-9_-]+$/);
  assert.equal(Buffer.from(second.slice(14), "base64url").toString(), "a/b+c= ü?>");
});

test("each kind of model is asked in both ways", () => {
  const schemes = ["arion", "thor", "bumblebee"];
  const offers = schemes.map((scheme) => ({ scheme, connected: scheme === "bumblebee" }));
  const { offersOf } = service;
  const found = offersOf({ name: "m", task: "text", labels: ["a", "b"], offers });
  assert.deepEqual(found.map((offer) => offer.scheme), ["bumblebee", "thor"]);
  const schemesOf = (task) => offersOf({ name: "m", task, labels: [], offers }).map((offer) => offer.scheme);
  for (const task of ["tokens", "span", "words", "next", "choice"]) {
    assert.deepEqual(schemesOf(task), ["bumblebee", "thor"]);
  }
  assert.deepEqual(schemesOf("scores"), []);
});

test("the socket is beside the page", () => {
  assert.equal(socketUrl("https://host:8443/x?y", "a b&c"), "wss://host:8443/v1/two-party?model=a+b%26c");
  assert.equal(socketUrl("http://127.0.0.1/", "m"), "ws://127.0.0.1/v1/two-party?model=m");
});

/** Orders to an engine that writes so many tokens behind each prompt, and what it did. at: what happens as a
 * token of a text is computed. */
function computing(counts, at = () => undefined) {
  const [done, told, written] = [[], [], {}];
  let prompt = "";
  const token = () => {
    written[prompt] = (written[prompt] ?? 0) + 1;
    done.push(`${prompt}${written[prompt]}`);
    at(turns, prompt, written[prompt]);
    return written[prompt] < counts[prompt];
  };
  const engine = {
    greet: () => done.push("greet"),
    write: (text) => ((prompt = text), token()),
    next: token,
    classify: () => {
      throw new Error("a trap");
    },
    enough: () => done.push("enough"),
    end: () => done.push("end"),
  };
  const turns = new Turns(async () => engine, (turn, message) => told.push([turn, message]), () => done.push("close"));
  return { turns, done, told };
}

const text = (turn, prompt) => ({ kind: "write", turn, prompt, wish: { most: 9, thousandths: 0 } });

test("a text that is asked for while another is written waits for its end", async () => {
  const asks = (turns, prompt, token) => {
    if (prompt !== "a" || token !== 2) return;
    void turns.hear({ kind: "enough", turn: 1 });
    void turns.hear(text(2, "b"));
  };
  const { turns, done } = computing({ a: 9, b: 3 }, asks);
  void turns.hear({ kind: "open" });
  await turns.hear(text(1, "a"));
  await turns.hear({ kind: "enough", turn: 1 }); // once more, behind all orders so far
  await turns.hear({ kind: "end" });
  assert.deepEqual(done, ["greet", "a1", "a2", "enough", "b1", "b2", "b3", "end", "close"]);
});

test("an end of the text before ends no other text, and goodbye ends every one", async () => {
  const late = (turns, prompt, token) => {
    if (prompt === "b" && token === 1) void turns.hear({ kind: "enough", turn: 1 });
    if (prompt === "b" && token === 4) void turns.hear({ kind: "end" });
  };
  const { turns, done } = computing({ a: 1, b: 9 }, late);
  for (const order of [{ kind: "open" }, text(1, "a"), text(2, "b")]) await turns.hear(order);
  await turns.hear({ kind: "enough", turn: 2 });
  assert.deepEqual(done, ["greet", "a1", "b1", "b2", "b3", "b4", "enough", "end", "close"]);
});

test("an engine that fails says which text it was", async () => {
  const { turns, told } = computing({});
  await turns.hear({ kind: "open" });
  await turns.hear({ kind: "ask", turn: 7, text: "a", context: "" });
  const [[turn, { kind, again, message }]] = told;
  assert.deepEqual([turn, kind, again], [7, "failed", false]);
  assert.match(message, /a trap/);
});

/** A session whose threads are none: what it was told of, and what a thread says. */
function session() {
  const [threads, told] = [{}, []];
  globalThis.location = { href: "http://host/" };
  globalThis.Worker = class {
    constructor(name) {
      threads[name] = this;
      [this.heard, this.posted, this.running] = [{}, [], true];
    }
    addEventListener(kind, listener) {
      this.heard[kind] = listener;
    }
    postMessage(message) {
      this.posted.push(message);
    }
    terminate() {
      this.running = false;
    }
  };
  const opened = open("m", "", (message) => told.push(message));
  const says = (turn, message) => threads["worker.js"].heard.message({ data: { turn, message } });
  return { opened, told, says, threads };
}

test("late tokens of a text that was stopped are no tokens of the next", () => {
  const { opened, told, says, threads } = session();
  const wish = { most: 9, thousandths: 0 };
  says(0, { kind: "ready" });
  opened.write("a", wish);
  says(1, { kind: "written", text: "a1" });
  opened.enough();
  for (const word of ["a2", "a3"]) says(1, { kind: "written", text: word });
  opened.write("b", wish);
  for (const kind of ["node", "failed", "written"]) says(1, { kind, text: "a4" });
  for (const word of ["b1", "b2"]) says(2, { kind: "written", text: word });
  assert.deepEqual(told.map(({ kind, text }) => text ?? kind), ["ready", "a1", "a2", "b1", "b2"]);
  const orders = threads["worker.js"].posted.map(({ kind, turn }) => [kind, turn]);
  assert.deepEqual(orders, [["open", undefined], ["write", 1], ["enough", 1], ["write", 2]]);
});

test("nothing is told of a session that was stopped", () => {
  const { opened, told, says, threads } = session();
  opened.ask("a", "");
  opened.stop();
  says(1, { kind: "answer" });
  threads["worker.js"].heard.error();
  for (const kind of ["passed", "closed"]) threads["socket.js"].heard.message({ data: { kind } });
  assert.deepEqual([told, threads["worker.js"].running, threads["socket.js"].running], [[], false, false]);
});

test("numbers and steps in words", () => {
  assert.deepEqual([999, 12_345, 12_345_678].map(words.bytes), ["999 bytes", "12 kB", "12.3 MB"]);
  assert.deepEqual([1234, 12_345].map(words.seconds), ["1.2 s", "12 s"]);
  assert.equal(words.step("layer0.feed_forward"), "layer 1: feed forward");
  assert.equal(words.percent(0.9876), "98.8 %");
});

test("keys are cut into pieces, the last of which brings the hash of all", () => {
  const found = [];
  const count = makeCount();
  const chunker = new Chunker(
    count,
    (chunk) => {
      found.push(chunk);
      taken(count);
    },
    10,
  );
  for (const length of [3, 17, 0, 20]) chunker.push(counted(0, length));
  chunker.finish("hash");
  assert.deepEqual(found.map(({ begin, bytes, whole }) => [begin, bytes.length, whole]), [
    [0, 10, null],
    [10, 10, null],
    [20, 10, null],
    [30, 10, "hash"],
  ]);
});

/** A server that answers by this list, one each call; `calls` are those that came. */
function played(answers) {
  const calls = [];
  globalThis.fetch = async (path, { method = "GET", headers = {} }) => {
    calls.push([method, headers["Content-Range"] ?? path]);
    const answer = answers.shift();
    if (answer instanceof Error) throw answer;
    const [status, body] = answer;
    return new Response(JSON.stringify(body), { status });
  };
  return calls;
}

const upload = { model: "m", scheme: "thor", plan: "p", token: "", key: "i", total: 9 };
const piece = { kind: "chunk", begin: 4, bytes: new Uint8Array(5), whole: "hash" };
const sent = (answers) => {
  const calls = played(answers);
  const done = send({ ...upload, signal: new AbortController().signal }, piece, [0, 0]);
  return done.then(() => calls);
};
const stands = (received, complete = false) => [200, { received, complete }];

test("a piece that got lost is sent again, one that came is not", async () => {
  const put = ["PUT", "bytes 4-8/9"];
  const get = ["GET", "/v1/keys/i"];
  const gone = new TypeError("connection");
  assert.deepEqual(await sent([[201, {}]]), [put]);
  assert.deepEqual(await sent([gone, stands(4), [201, {}]]), [put, get, put]);
  assert.deepEqual(await sent([gone, stands(9, true)]), [put, get]);
  assert.deepEqual(await sent([[503, {}], gone, [429, {}], stands(9, true)]), [put, get, put, get]);
});

test("an upload is given up where the server refuses, stays away, or stands elsewhere", async () => {
  const gone = new TypeError("connection");
  await assert.rejects(sent([[403, { detail: "at most 1" }]]), /at most 1/);
  await assert.rejects(sent([gone, gone, gone, gone, gone]), /cannot be reached/);
  await assert.rejects(sent([[409, {}], stands(0)]), /lost a part/);
});

test("a text that is begun again, since the answer was lost, is the same", async ({ mock }) => {
  mock.method(globalThis, "setTimeout", (run) => queueMicrotask(run));
  const [id, keys] = ["ab".repeat(16), []];
  const answers = [new TypeError("connection"), Response.json({ id }), Response.json({ id })];
  globalThis.fetch = async (_, { headers }) => {
    keys.push(headers["Idempotency-Key"]);
    const answer = answers.shift();
    return answer instanceof Error ? Promise.reject(answer) : answer;
  };
  const { signal } = new AbortController();
  const asking = { model: "m", scheme: "thor", token: "", key: "k", text: "", signal };
  assert.deepEqual([await begin(asking), await begin(asking)], [id, id]);
  assert.match(keys[0], /^[!-~]{1,64}$/);
  assert.deepEqual([keys[1] === keys[0], keys[2] === keys[0]], [true, false]);
});

test("a price is told by way, and another once the keys are there", () => {
  const offer = { scheme: "thor", seconds: 12, keys_bytes: 2.1e9, request_bytes: 15e6, keygen_seconds: 12 };
  assert.match(ways.price(offer, false), /2\.10 GB of keys .*14 min at 20 Mbit\/s, 3 min at 100 Mbit\/s/);
  assert.match(ways.price(offer, true), /sends 15\.0 MB and takes the server about 12 s\. Your keys are/);
  assert.match(ways.price({ connected: true, seconds: 3, traffic_bytes: 4e7 }, false), /40\.0 MB each text/);
});

test("rows that the server keeps have a price of their own, which says how much it keeps", () => {
  const offer = { scheme: "thor", seconds: 12, request_bytes: 15e6, kept_bytes: 3e8 };
  const price = ways.price(offer, true, true);
  assert.match(price, /of the prompt too, sends 15\.0 MB .*keeps 300\.0 MB for the text/);
  assert.doesNotMatch(ways.price({ ...offer, kept_bytes: 0 }, true, true), /keeps|of the prompt too/);
});

test("a temperature is for offers that tell more than the likeliest token", () => {
  const alone = (task, offer) => service.choosesAlone({ task }, offer);
  assert.deepEqual([alone("choice", {}), alone("next", {})], [true, false]);
  assert.deepEqual([alone("choice", { task: "next" }), alone("next", { task: "choice" })], [false, true]);
});

test("a page without a token shows the one that it is offered", async () => {
  globalThis.fetch = async (path, { headers }) => {
    const offered = headers.Authorization ? {} : { "Tacita-Visitor-Token": "tacita_visitor" };
    return Response.json({ signer: "s", models: [] }, { headers: offered });
  };
  assert.equal((await service.models("")).visitor, "tacita_visitor");
  assert.equal((await service.models("mine")).visitor, "");
});

/** An element of a document that takes what it is given. */
class Element {
  style = { setProperty: () => undefined };
  append() {}
  replaceChildren() {}
}

test("answers come with all reasons to doubt them, each once", async () => {
  const elements = {};
  const getElementById = (id) => (elements[id] ??= new Element());
  globalThis.document = { getElementById, createElement: () => new Element() };
  globalThis.HTMLElement = globalThis.HTMLTableSectionElement = Element;
  const answer = (logits, ...warnings) => ({ trusted: true, logits, warnings });
  const { showNearest, showWritten } = await part("result");
  const found = [answer([0, 1]), answer([1, 0], "coarse", "spent")];
  assert.equal(showNearest(answer([1, 0], "coarse"), ["far", "near"], found), "near");
  assert.equal(elements.warnings.textContent, "coarse spent");
  assert.equal(showWritten("It is", 2, [], "spent"), "2 tokens");
  assert.equal(elements.warnings.textContent, "spent");
  showWritten("It is", 2, []);
  assert.equal(elements.warnings.textContent, "");
  for (const name of ["document", "HTMLElement", "HTMLTableSectionElement"]) delete globalThis[name];
});

const SOURCE = join(import.meta.dirname, "..", "src");
const sources = readdirSync(SOURCE, { recursive: true }).filter((name) => /\.(ts|html)$/.test(name));
const written = Object.fromEntries(sources.map((name) => [name, readFileSync(join(SOURCE, name), "utf8")]));
const places = (sentence) => [...sentence.matchAll(/\{\w+\}/g)].map(String).sort();

test("every sentence is there in all languages, with the same places to fill in", () => {
  for (const [english, others] of Object.entries(language.WORDS)) {
    assert.equal(others.length, Object.keys(language.LANGUAGES).length - 1);
    for (const other of others) {
      assert.ok(other.trim(), english);
      assert.deepEqual(places(other), places(english), english);
    }
  }
});

test("no field cuts a text in silence", () => assert.doesNotMatch(written["index.html"], /maxlength/));

test("the document says nothing that the table lacks, and the table nothing that is not said", () => {
  const html = written["index.html"].replace(/\s+/g, " ");
  const inside = [...html.matchAll(/data-t(?: [^>]*)?>([^<]*)</g)].map(([, words]) => words.trim());
  const names = [...html.matchAll(/data-t-name="([^"]*)"/g)].map(([, name]) => name);
  assert.ok(inside.length > 20 && names.length > 2);
  for (const each of [...inside, ...names]) assert.ok(language.known(each), each);
  const said = Object.entries(written).filter(([name]) => name !== "language.ts").map(([, text]) => text);
  const all = said.join(" ").replace(/\s+/g, " ");
  const steps = ["attention", "feed forward", "classifier", "pooler"]; // which servers name
  const unused = Object.keys(language.WORDS).filter((each) => !all.includes(each) && !steps.includes(each));
  assert.deepEqual(unused, []);
});

test("the language is that of the address, else the first of the browser's that the page has", () => {
  const { wanted } = language;
  assert.equal(wanted("https://host/?lang=de", ["zh-CN"]), "de");
  assert.equal(wanted("https://host/", ["fr", "zh-TW", "de"]), "zh");
  assert.equal(wanted("https://host/?lang=xx", []), "en");
  language.speak("de");
  assert.equal(language.t("{count} tokens", { count: 3 }), "3 Token");
  language.speak("en");
});
