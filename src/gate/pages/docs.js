// SPDX-License-Identifier: Apache-2.0
// The API, from its own description: what can be called, with what, what comes back, and a form to try it.
import { address, element, enable, pieces, stopwatch, visible } from "./common.js";

const DEPTH_MAX = 6; // of objects inside each other
const SHOWN_MAX = 1024 * 1024;

let api = null;

// --- schemas ---------------------------------------------------------------------------------------------------

function resolve(schema) {
	const way = schema?.$ref?.split("/").slice(1) ?? [];
	const found = way.reduce((at, step) => at?.[step], api);
	return schema?.$ref ? { ...found, ...schema, title: way.at(-1) } : schema ?? {};
}

function type_text(schema) {
	const s = resolve(schema);
	const either = (s.anyOf ?? []).map(type_text).join(" or ");
	const words = s.enum?.map((word) => JSON.stringify(word)).join(" or ");
	if (s.type === "array")
		return `list of ${type_text(s.items)}`;
	return words ?? (either || (s.$ref && s.title) || [s.type ?? "anything"].flat().join(" or "));
}

function bounds_text(s) {
	const said = [["minimum", "at least"], ["maximum", "at most"], ["minLength", "length at least"], ["maxLength", "length at most"],
		["minItems", "at least", "items"], ["maxItems", "at most", "items"]]
		.filter(([key]) => key in s).map(([key, words, unit]) => `${words} ${s[key]}${unit ? " " + unit : ""}`);
	if ("default" in s)
		said.push(`default ${JSON.stringify(s.default)}`);
	return said.join(", ");
}

// Members of an object, and of the objects in it, as [name, type, whether required, text].
function members(schema, prefix = "", depth = 0) {
	const s = resolve(schema), found = [];
	const choice = (s.oneOf ?? []).map((one) => one.required?.[0]).filter(Boolean);
	for (const [name, given] of Object.entries(s.properties ?? {})) {
		const member = resolve(given), list = member.type === "array";
		const others = choice.includes(name) ? `exactly one of ${choice.join(", ")}` : "";
		found.push([prefix + name, type_text(given), (s.required ?? []).includes(name),
			[member.description, bounds_text(member), others].filter(Boolean).join("; ")]);
		if (depth < DEPTH_MAX)
			found.push(...members(list ? member.items : member, prefix + name + (list ? "[]." : "."), depth + 1));
	}
	return found;
}

function table(caption, heads, rows) {
	return element("table", {}, element("caption", {}, caption),
		element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head)))),
		element("tbody", {}, ...rows.map(([first, ...rest]) => element("tr", {},
			element("th", { scope: "row" }, element("code", {}, first)), ...rest.map((cell) => element("td", {}, cell))))));
}

// What is there always, and what is not, is worth a word in one direction each.
function members_table(caption, schema, always, sometimes) {
	const rows = members(schema);
	return rows.length === 0 ? "" : table(caption, ["name", "type", "", "what"],
		rows.map(([name, type, required, text]) => [name, type, required ? always : sometimes, text]));
}

// --- a call ----------------------------------------------------------------------------------------------------

function parameters_table(call) {
	const rows = (call.parameters ?? []).map((p) => [p.name, `in the ${p.in}`, p.required ? "required" : "", p.description ?? ""]);
	return rows.length === 0 ? "" : table("Parameters", ["name", "where", "", "what"], rows);
}

function body_tables(call) {
	return Object.entries(call.requestBody?.content ?? {}).map(([media, one]) =>
		members_table(`Body: ${media}`, one.schema, "required", ""));
}

function responses(call) {
	const rows = [], made = [];
	for (const [code, response] of Object.entries(call.responses)) {
		for (const [media, one] of Object.entries(response.content ?? { "": {} })) {
			const schema = resolve(one.schema);
			rows.push([code, schema.properties || schema.anyOf ? type_text(one.schema) : media, response.description]);
			if (code.startsWith("2"))
				made.push(members_table(`${code}: ${media}`, one.schema, "", "not always"),
					...Object.entries(one["x-events"] ?? {})
						.map(([name, event]) => members_table(`Event ${name}`, event, "", "not always")));
		}
	}
	return [...made, table("Answers", ["status", "body", "when"], rows)];
}

// --- trying it -------------------------------------------------------------------------------------------------

function field(form, id, label, input) {
	input.id = id;
	form.append(element("label", { for: id }, label), input);
	return input;
}

function text_input(required) {
	return element("input", { type: "text", autocomplete: "off", spellcheck: "false", ...(required ? { required: "" } : {}) });
}

// Inputs of a call, and a function that makes a request out of what was typed into them.
function inputs(form, path, method, call) {
	const id = (name) => `${call.operationId}-${name}`;
	const params = (call.parameters ?? []).map((p) => [p, field(form, id(p.name), p.name, text_input(p.required))]);
	const content = call.requestBody?.content ?? {}, json = content["application/json"], part = content["multipart/form-data"];
	const raw = call.requestBody && !json && !part;
	const body = json && field(form, id("body"), "Body (JSON)",
		element("textarea", { class: "code", rows: "5", spellcheck: "false", autocomplete: "off" }));
	const file = (part || raw) && field(form, id("file"), "file",
		element("input", { type: "file", ...(call.requestBody.required ? { required: "" } : {}) }));
	if (body)
		body.value = JSON.stringify(json.example ?? {}, null, 2);
	return () => {
		const request = { method, headers: {} };
		const query = new URLSearchParams();
		let way = path.slice(1);
		for (const [p, input] of params) {
			if (p.in === "path")
				way = way.replace(`{${p.name}}`, encodeURIComponent(input.value));
			else if (p.in === "query" && input.value !== "")
				query.set(p.name, input.value);
			else if (input.value !== "")
				request.headers[p.name] = input.value;
		}
		if (query.size > 0)
			way += `?${query}`;
		if (body) {
			request.headers["Content-Type"] = "application/json";
			request.body = body.value;
		} else if (file?.files[0] && raw) {
			request.headers["Content-Type"] = Object.keys(content)[0];
			request.body = file.files[0];
		} else if (file?.files[0]) {
			request.body = new FormData();
			request.body.append("file", file.files[0]);
		}
		return [address(way), request];
	};
}

function is_text(answer) {
	return /^(text\/|application\/json)/.test(answer.headers.get("Content-Type") ?? "");
}

async function show(answer, output) {
	if (!is_text(answer)) {
		output.textContent = `${(await answer.arrayBuffer()).byteLength} bytes`;
		return;
	}
	let text = "";
	for await (const piece of pieces(answer)) {
		if (text.length < SHOWN_MAX)
			output.append(visible(piece));
		text += text.length < SHOWN_MAX ? piece : "";
	}
	if (answer.headers.get("Content-Type").startsWith("application/json") && text.length < SHOWN_MAX)
		output.textContent = visible(JSON.stringify(JSON.parse(text), null, 2));
}

async function send([url, request], status, output, signal) {
	const took = stopwatch();
	output.textContent = "";
	status.textContent = "Sent…";
	try {
		const answer = await fetch(url, { ...request, signal });
		status.textContent = `${answer.status} ${answer.statusText}…`;
		await show(answer, output);
		status.textContent = `${answer.status} ${answer.statusText}, ${took()}`;
	} catch (e) {
		status.textContent = e.name === "AbortError" ? `stopped, ${took()}` : `no answer: ${e.message}`;
	}
}

function trial(path, method, call) {
	const form = element("form", { autocomplete: "off", "aria-label": `Try ${method} ${path}` }, element("h4", {}, "Try it"));
	const make = inputs(form, path, method, call);
	const button = element("button", { type: "submit" }, "Send"), stop = element("button", { type: "button" }, "Stop");
	const status = element("p", { role: "status" });
	const output = element("pre", { class: "code", role: "log", tabindex: "0", "aria-label": "Answer" });
	let running = null;
	enable(stop, false);
	form.append(element("div", { class: "row" }, button, stop, status), output);
	stop.addEventListener("click", () => running?.abort());
	form.addEventListener("submit", async (event) => {
		event.preventDefault();
		if (running)
			return;
		running = new AbortController();
		enable(button, false);
		enable(stop, true);
		await send(make(), status, output, running.signal);
		enable(button, true);
		enable(stop, false);
		running = null;
	});
	form.addEventListener("keydown", (event) => {
		if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.isComposing) {
			event.preventDefault();
			form.requestSubmit();
		}
	});
	return form;
}

// --- the page --------------------------------------------------------------------------------------------------

function call_section(path, method, call) {
	const title = element("h3", {}, element("span", { class: `method ${method}` }, method.toUpperCase()), " ",
		element("code", {}, path));
	return element("details", { id: call.operationId }, element("summary", {}, title, element("span", {}, call.summary)),
		parameters_table(call), ...body_tables(call), ...responses(call), trial(path, method.toUpperCase(), call));
}

function open_named() {
	const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
	if (named?.tagName === "DETAILS") {
		named.open = true;
		named.querySelector("summary").focus();
		named.scrollIntoView();
	}
}

function render() {
	const groups = new Map(), contents = element("ul"), calls = document.getElementById("calls");
	for (const [path, methods] of Object.entries(api.paths))
		for (const [method, call] of Object.entries(methods)) {
			groups.set(call.tags[0], [...groups.get(call.tags[0]) ?? [], call_section(path, method, call)]);
			contents.append(element("li", {}, element("a", { href: `#${call.operationId}` }, `${method.toUpperCase()} ${path}`)));
		}
	for (const [name, sections] of groups)
		calls.append(element("section", { "aria-labelledby": `group-${name}` }, element("h2", { id: `group-${name}` }, name), ...sections));
	document.getElementById("version").textContent = api.info.version;
	document.getElementById("about").textContent = `Glovebox ${api.info.description}. Where tokens are configured, every call but `
		+ "/health and /ready needs one: as bearer token, as password of Basic credentials, or in X-API-KEY.";
	document.getElementById("contents").append(contents);
}

async function load() {
	const status = document.getElementById("status");
	try {
		const answer = await fetch(address("openapi.json"));
		if (!answer.ok)
			throw new Error(`${answer.status} ${answer.statusText}`);
		api = await answer.json();
		render();
		status.remove();
		addEventListener("hashchange", open_named);
		open_named();
	} catch (e) {
		status.textContent = `The description of the API cannot be shown: ${e.message}`;
	}
}

load();
