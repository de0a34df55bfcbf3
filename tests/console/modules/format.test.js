import "./page.js";
import assert from "node:assert/strict";
import { test } from "node:test";
import { worded } from "../../../src/pilotis/console/static/strings/index.js";
import { lines, shortened } from "../../../src/pilotis/console/static/ui/diff.js";
import { ago, browser, duration, initials, plain, prose, size } from "../../../src/pilotis/console/static/ui/format.js";

test("sizes and durations have the digits that say something", () => {
  assert.deepEqual([0, 999, 1000, 12_345, 123_456, 5e13].map(size), [
    "0 B",
    "999 B",
    "1 kB",
    "12.3 kB",
    "123 kB",
    "50 TB",
  ]);
  assert.deepEqual([null, 0.25, 9.96, 12.3, 1234].map(duration), ["–", "0.3 ms", "10 ms", "12 ms", "1.2 s"]);
});

test("how long ago is said in the largest unit", () => {
  const before = (seconds) => ago(new Date(Date.now() - seconds * 1000).toISOString());
  assert.deepEqual([10, 125, 7300, -90_000].map(before), ["now", "2 minutes ago", "2 hours ago", "tomorrow"]);
  assert.equal(ago(null), "");
});

test("characters that turn a text around or hide in it are shown", () => {
  assert.equal(plain("a\u202eb\u200bc\u0000"), "a⟨U+202E⟩b⟨U+200B⟩c⟨U+0000⟩");
  assert.equal(plain("tag\u{e0041}"), "tag⟨U+E0041⟩");
  assert.equal(plain("two\r\nlines\tand 👩‍👧"), "two lines and 👩‍👧");
  assert.equal(prose("two\r\nlines"), "two\nlines");
  assert.equal(plain("x".repeat(10), 3), "xxx…");
});

test("a user agent is named in two words", () => {
  const chrome =
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36";
  assert.equal(browser(chrome), "Chrome · Linux");
  assert.equal(browser(`${chrome} Edg/130.0`), "Edge · Linux");
  assert.equal(browser("curl/8.5.0"), "curl");
  assert.equal(initials(" émile"), "É");
  assert.equal(initials(""), "?");
});

test("a name that no text has finds none, not even one of every object", () => {
  assert.equal(worded({ a: "A" }, "a"), "A");
  assert.equal(worded({ a: "A" }, "constructor"), undefined);
  assert.equal(worded({ a: "A" }, null), undefined);
});

test("texts differ by the fewest lines", () => {
  const marks = { same: " ", added: "+", removed: "-" };
  const shown = (before, after) => lines(before, after).map((one) => marks[one.kind] + one.text);
  assert.deepEqual(shown("a\nb\nc\nd", "a\nc\nx\nd"), [" a", "-b", " c", "+x", " d"]);
  assert.deepEqual(shown("", "a"), ["+a"]);
  assert.deepEqual(shown("a", ""), ["-a"]);
  const far = Array.from({ length: 20 }, (_, at) => `${at}`);
  const changed = far.with(10, "x");
  assert.deepEqual(
    shortened(lines(far.join("\n"), changed.join("\n"))).map((one) => one?.text ?? null),
    [null, "7", "8", "9", "10", "x", "11", "12", "13", null],
  );
});
