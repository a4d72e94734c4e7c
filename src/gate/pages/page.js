// SPDX-License-Identifier: Apache-2.0
// A cell of Python: runs it, and shows what it says as it says it.
import { address, element, enable, events, refusal, stopwatch, visible } from "./common.js";

const SHOWN_MAX = 4 * 1024 * 1024; // characters; a browser with much more of them is no help

const [cell, code, input, limit, run, stop, status, output, made, files] =
	["cell", "code", "input", "limit", "run", "stop", "status", "output", "made", "files"]
		.map((id) => document.getElementById(id));

let running = null; // the AbortController of a run

// --- output ----------------------------------------------------------------------------------------------------

let shown = 0, last = null, held = {};

function clear() {
	output.replaceChildren();
	files.replaceChildren();
	made.hidden = true;
	status.textContent = "";
	shown = 0;
	last = null;
	held = {};
}

// Behind what is there; both streams in the order in which they came.
function put(kind, text) {
	if (text === "" || shown > SHOWN_MAX)
		return;
	shown += text.length;
	if (last?.className !== kind) {
		last = element("span", { class: kind }, "");
		output.append(last);
	}
	last.append(visible(text));
	if (shown > SHOWN_MAX)
		output.append(element("span", { class: "problem" }, "\nThe rest is not shown."));
}

// A line break may come in two halves.
function put_stream(stream, text) {
	text = (held[stream] ?? "") + text;
	held[stream] = text.endsWith("\r") ? "\r" : "";
	put(stream, held[stream] ? text.slice(0, -1) : text);
}

function put_problem(text) {
	const before = output.textContent;
	output.append(element("span", { class: "problem" }, (before === "" || before.endsWith("\n") ? "" : "\n") + text));
}

function put_files(list) {
	for (const file of list) {
		const name = visible(file.path);
		const link = { href: address("v1/files/" + encodeURIComponent(file.file_id)), download: "" };
		files.append(element("li", {}, file.file_id ? element("a", link, name) : name));
	}
	made.hidden = list.length === 0;
}

// --- a run -----------------------------------------------------------------------------------------------------

function request() {
	const body = { code: code.value };
	if (limit.value !== "")
		body.timeout_ms = Number(limit.value);
	if (input.value !== "")
		body.stdin = input.value;
	return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
		signal: running.signal };
}

// How it ended, in words: what the last event says.
async function follow(answer) {
	for await (const [name, data] of events(answer)) {
		if (name === "output") {
			put_stream(data.stream, data.data);
		} else if (name === "error") {
			put_problem(visible(data.message));
			return "failed";
		} else if (name === "result") {
			Object.keys(held).forEach((stream) => put(stream, held[stream]));
			put_files(data.files);
			return (data.timed_out ? "timed out" : `exit code ${data.exit_code}`) +
				`, ${data.duration_ms} ms in the server`;
		}
	}
	put_problem("The connection ended before the program did.");
	return "lost";
}

async function execute() {
	try {
		const answer = await fetch(address("v1/execute/stream"), request());
		if (answer.ok)
			return await follow(answer);
		put_problem(await refusal(answer));
		return "refused";
	} catch (e) {
		if (e.name === "AbortError")
			return "stopped";
		put_problem(`The connection failed: ${e.message}`);
		return "lost";
	}
}

async function start() {
	if (running)
		return;
	running = new AbortController();
	clear();
	status.textContent = "Running…";
	output.setAttribute("aria-busy", "true");
	enable(run, false);
	enable(stop, true);
	const took = stopwatch();
	const how = await execute();
	status.textContent = `${took()}: ${how}`;
	output.removeAttribute("aria-busy");
	enable(run, true);
	enable(stop, false);
	running = null;
}

// --- keys ------------------------------------------------------------------------------------------------------

// A new line begins below the beginning of the one before, deeper after a colon.
function indent(event) {
	const before = code.value.slice(0, code.selectionStart);
	const line = before.slice(before.lastIndexOf("\n") + 1);
	const space = /^[ \t]*/.exec(line)[0] + (/:\s*(#.*)?$/.test(line) ? "    " : "");
	if (space === "")
		return;
	event.preventDefault();
	// Deprecated, and the only way by which Undo goes on working.
	if (!document.execCommand("insertText", false, "\n" + space))
		code.setRangeText("\n" + space, code.selectionStart, code.selectionEnd, "end");
}

cell.addEventListener("submit", (event) => {
	event.preventDefault();
	start();
});
stop.addEventListener("click", () => running?.abort());
document.addEventListener("keydown", (event) => {
	if (event.isComposing)
		return;
	if (event.key === "Escape") {
		running?.abort();
	} else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
		event.preventDefault();
		start();
	} else if (event.key === "Enter" && event.target === code && !event.shiftKey && !event.altKey) {
		indent(event);
	}
});
