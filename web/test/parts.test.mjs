// The parts of the page that need no browser: node --test parts.test.mjs, with TACITA_PARTS set to the folder of
// `node build.mjs --parts`.
import assert from "node:assert/strict";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const part = (name) => import(pathToFileURL(resolve(join(process.env.TACITA_PARTS, `${name}.js`))).href);
const [{ makeRing, Reader, Writer }, { protocolsOf, socketUrl }, words] = await Promise.all(
  ["ring", "session", "words"].map(part),
);

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
