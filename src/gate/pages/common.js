// SPDX-License-Identifier: Apache-2.0
// What the pages share. Whatever comes from a box or from the server reaches them as text, never as markup.

// The address of a path beside this page. Spelled out without name and password, which this page's own address may
// have and fetch() refuses; the browser knows them anyway.
export function address(path) {
	return new URL(path, location.origin + location.pathname).href;
}

// element("a", { href: "…" }, "text", another)
export function element(name, attributes, ...content) {
	const made = document.createElement(name);
	for (const [key, value] of Object.entries(attributes ?? {}))
		made.setAttribute(key, value);
	made.append(...content);
	return made;
}

// Characters that do not show, or that reorder what does, as something that shows: ^[ and <U+202E>.
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f]/g;
const HIDDEN = /[\u0080-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export function visible(text) {
	return text.replace(/\r\n/g, "\n")
		.replace(CONTROLS, (c) => "^" + String.fromCharCode(c.charCodeAt(0) ^ 0x40))
		.replace(HIDDEN, (c) => "<U+" + c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0") + ">");
}

// ["body", "files", 0, "path"] as files[0].path
function place(loc) {
	const steps = loc[0] === "body" ? loc.slice(1) : loc;
	return steps.map((step, i) => typeof step === "number" ? `[${step}]` : (i ? "." : "") + step).join("");
}

function reasons(body) {
	if (Array.isArray(body?.detail))
		return body.detail.map((one) => [place(one.loc ?? []), one.msg].filter(Boolean).join(": "));
	if (body?.error)
		return [body.error.message, body.error.hint].filter(Boolean);
	return body?.detail || body?.message ? [String(body.detail ?? body.message)] : [];
}

// Why the server refused, for a person.
export async function refusal(answer) {
	const text = await answer.text();
	const again = answer.headers.get("Retry-After");
	let lines = [];
	try {
		lines = reasons(JSON.parse(text));
	} catch {
		lines = [text.slice(0, 1000)];
	}
	if (again)
		lines.push(`Try again in ${again} s.`);
	return visible(`${answer.status} ${answer.statusText}\n${lines.join("\n")}`.trim());
}

// The text of an answer as it comes.
export async function* pieces(answer) {
	const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
	for (;;) {
		const { value, done } = await reader.read();
		if (done)
			return;
		yield value;
	}
}

// Server-sent events as [name, data]; what came incomplete is no event.
export async function* events(answer) {
	let rest = "", name = "message", data = [];
	for await (const piece of pieces(answer)) {
		const lines = (rest + piece).split("\n");
		rest = lines.pop();
		for (const line of lines) {
			const colon = line.indexOf(":");
			const value = line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
			if (line.startsWith("event:")) {
				name = value;
			} else if (line.startsWith("data:")) {
				data.push(value);
			} else if (line === "") {
				if (data.length > 0)
					yield [name, JSON.parse(data.join("\n"))];
				name = "message";
				data = [];
			}
		}
	}
}

// How long something takes, from here.
export function stopwatch() {
	const began = performance.now();
	return () => `${Math.round(performance.now() - began)} ms`;
}

// aria-disabled and not disabled: a button that has the focus keeps it.
export function enable(button, on) {
	button.setAttribute("aria-disabled", String(!on));
}
