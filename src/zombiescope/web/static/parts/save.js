// SPDX-License-Identifier: Apache-2.0
// "Save this view": the same page in one file, with every document that it has been given so far.
import { answeredDocuments, isFile } from "./ask.js";
import { say } from "./status.js";

const EMPTY = '<script type="application/json" id="documents">{}</' + "script>";

export async function saveView(pulse, view) {
  if (!pulse || isFile()) { say("This is a saved file already"); return; }
  const documents = { ...Object.fromEntries(answeredDocuments()) };
  documents["/api/v1/page"] = { ...pulse, mode: "file", is_live: false, was_live: pulse.is_live, poll_seconds: null };
  documents["#"] = location.hash || "#/now";
  const shell = await (await fetch("/save.html")).text();
  const text = JSON.stringify(documents).replaceAll("<", "\\u003c");
  if (!shell.includes(EMPTY)) { say("The server gave no file to save into"); return; }
  const file = shell.replace(EMPTY, () => EMPTY.replace("{}", () => text));
  const address = URL.createObjectURL(new Blob([file], { type: "text/html" }));
  const name = `zombiescope-${(pulse.host.name || "node").replace(/[^\w.-]+/g, "_")}-${view}-${new Date((pulse.at || 0) * 1000).toISOString().slice(0, 19).replaceAll(":", "")}Z.html`;
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
  say(`Saved as ${name}`);
}
