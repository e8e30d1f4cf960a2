// The parts of the page that need no browser: node --test parts.test.mjs, with TACITA_PARTS set to the folder
// of `node build.mjs --parts`.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const part = (name) => import(pathToFileURL(resolve(join(process.env.TACITA_PARTS, `${name}.js`))).href);
const names = ["ring", "session", "words", "ways", "files/chunks", "files/upload", "service", "language"];
const [{ makeRing, Reader, Writer }, { protocolsOf, socketUrl }, words, ways, chunks, { send }, service, language] =
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
  for (const task of ["tokens", "span", "words", "next"]) {
    assert.deepEqual(schemesOf(task), ["bumblebee", "thor"]);
  }
  assert.deepEqual(schemesOf("choice"), []);
});

test("the socket is beside the page", () => {
  assert.equal(socketUrl("https://host:8443/x?y", "a b&c"), "wss://host:8443/v1/two-party?model=a+b%26c");
  assert.equal(socketUrl("http://127.0.0.1/", "m"), "ws://127.0.0.1/v1/two-party?model=m");
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

const upload = { model: "m", scheme: "thor", plan: "p", token: "", id: "i", total: 9 };
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

test("a price is told by way, and another once the keys are there", () => {
  const offer = { scheme: "thor", seconds: 12, keys_bytes: 2.1e9, request_bytes: 15e6, keygen_seconds: 12 };
  assert.match(ways.price(offer, false), /2\.10 GB of keys .*14 min at 20 Mbit\/s, 3 min at 100 Mbit\/s/);
  assert.match(ways.price(offer, true), /sends 15\.0 MB and takes the server about 12 s\. Your keys are/);
  assert.match(ways.price({ connected: true, seconds: 3, traffic_bytes: 4e7 }, false), /40\.0 MB each text/);
});

test("a page without a token shows the one that it is offered", async () => {
  globalThis.fetch = async (path, { headers }) => {
    const offered = headers.Authorization ? {} : { "Tacita-Visitor-Token": "tacita_visitor" };
    return Response.json({ signer: "s", models: [] }, { headers: offered });
  };
  assert.equal((await service.models("")).visitor, "tacita_visitor");
  assert.equal((await service.models("mine")).visitor, "");
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
