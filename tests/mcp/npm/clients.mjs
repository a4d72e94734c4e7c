// SPDX-License-Identifier: Apache-2.0
//
// The official clients of MCP, as clients of ours. A line of JSON for each check: {"name", "error": null or text}.
//
//   node clients.mjs v1|v2|v2-modern FOLDER URL TOKEN          over HTTP
//   node clients.mjs v1|v2|v2-modern FOLDER PROGRAM WORD…      over standard input and output
import assert from 'node:assert/strict';
import fs from 'node:fs';

const [which, folder, target, ...rest] = process.argv.slice(2);
const http = target.startsWith('http');
const modern = which === 'v2-modern';

async function open() {
  const info = { name: 'glovebox-tests', version: '1' };
  let client, transport;
  if (which === 'v1') {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    client = new Client(info, { capabilities: {} });
  } else {
    const { Client } = await import('@modelcontextprotocol/client');
    client = new Client(info, { capabilities: {}, versionNegotiation: { mode: modern ? { pin: '2026-07-28' } : 'legacy' } });
  }
  const options = { requestInit: { headers: { Authorization: `Bearer ${rest[0]}` } } };
  const stdio = { command: target, args: rest, stderr: 'inherit', env: process.env };
  if (which === 'v1' && http)
    transport = new (await import('@modelcontextprotocol/sdk/client/streamableHttp.js')).StreamableHTTPClientTransport(new URL(target), options);
  else if (which === 'v1')
    transport = new (await import('@modelcontextprotocol/sdk/client/stdio.js')).StdioClientTransport(stdio);
  else if (http)
    transport = new (await import('@modelcontextprotocol/client')).StreamableHTTPClientTransport(new URL(target), options);
  else
    transport = new (await import('@modelcontextprotocol/client/stdio')).StdioClientTransport(stdio);
  await client.connect(transport);
  return { client, transport };
}

const { client, transport } = await open();
// Without a session a box must be named; with one, and over standard input, the connection has its own.
let box = {};

function call(name, args = {}, options = {}) {
  const params = { name, arguments: { ...args, ...(/_box$|load_file$/.test(name) ? {} : box) } };
  return which === 'v1' ? client.callTool(params, undefined, options) : client.callTool(params, options);
}
const text = (result) => result.content.filter((c) => c.type === 'text').map((c) => c.text).join('');

const checks = {
  async 'says who it is'() {
    assert.equal(client.getServerVersion().name, 'glovebox');
    assert.match(client.getInstructions(), /sealed box/);
  },

  async 'has tools'() {
    const names = (await client.listTools()).tools.map((t) => t.name);
    for (const name of ['execute_ipython_cell', 'run_command', 'list_files', 'read_file', 'write_file', 'reset', 'install_package'])
      assert.ok(names.includes(name), name);
    assert.equal(names.includes('upload_file'), !http);
  },

  async 'keeps variables'() {
    if (modern && http) box = { box: (await call('create_box')).structuredContent.box };
    assert.equal(text(await call('execute_ipython_cell', { code: 'x = 41\nprint("hi")\nx + 1' })), 'hi\n42\n');
    assert.equal(text(await call('execute_ipython_cell', { code: 'x' })), '41\n');
  },

  async 'shows pictures'() {
    const result = await call('execute_ipython_cell', { code: 'from PIL import Image\nImage.new("RGB", (3, 2))' });
    const [image] = result.content.filter((c) => c.type === 'image');
    assert.equal(image.mimeType, 'image/png');
    assert.equal(Buffer.from(image.data, 'base64').subarray(1, 4).toString(), 'PNG');
  },

  async 'tells of exceptions'() {
    const result = await call('execute_ipython_cell', { code: '1/0' });
    assert.equal(result.isError, true);
    assert.match(text(result), /^ZeroDivisionError: division by zero\n/);
    assert.ok(!text(result).includes('\x1b'));
  },

  async 'tells how far it is'() {
    const seen = [];
    const code = 'import time\nfor i in range(4):\n    print(i, flush=True)\n    time.sleep(0.4)';
    await call('execute_ipython_cell', { code }, { onprogress: (p) => seen.push(p.progress) });
    assert.ok(seen.length >= 2, String(seen));
    assert.deepEqual(seen, [...seen].sort((a, b) => a - b));
  },

  async 'can be cancelled'() {
    const stop = new AbortController();
    const begun = call('execute_ipython_cell', { code: 'open("begun", "w").close()\nimport time\ntime.sleep(600)\nx = 0' }, { signal: stop.signal });
    for (;;) {
      const files = (await call('list_files')).structuredContent.entries.map((e) => e.path);
      if (files.includes('begun')) break;
    }
    stop.abort();
    await assert.rejects(begun);
    assert.equal(text(await call('execute_ipython_cell', { code: 'x' })), '41\n');
  },

  async 'runs commands'() {
    const result = await call('run_command', { command: 'echo out; echo err >&2; exit 3' });
    const { stdout, stderr, exit_code: code, status } = result.structuredContent;
    assert.deepEqual([stdout, stderr, code, status], ['out\n', 'err\n', 3, 'error']);
  },

  async 'has files'() {
    await call('write_file', { path: 'd/a b.txt', content: 'héllo' });
    await call('write_file', { path: 'b.bin', content_base64: 'AAH/' });
    assert.equal(text(await call('read_file', { path: 'd/a b.txt' })), 'héllo');
    const { entries } = (await call('list_files', { recursive: true })).structuredContent;
    assert.ok(entries.some((e) => e.path === 'd/a b.txt' && e.type === 'file' && e.size === 6), JSON.stringify(entries));
  },

  async 'takes files in and out'() {
    if (http) return; // the files of a server's machine are nobody's
    assert.deepEqual((await call('upload_file', { relpath: 'in/there', local_path: `${folder}/there` })).content, []);
    assert.equal(text(await call('read_file', { path: 'in/there' })), 'from outside');
    assert.deepEqual((await call('download_file', { relpath: 'in/there', local_path: `${folder}/new/back` })).content, []);
    assert.equal(fs.readFileSync(`${folder}/new/back`, 'utf8'), 'from outside');
    const refused = await call('upload_file', { relpath: 'x', local_path: '/etc/passwd' });
    assert.ok(refused.isError && /allowed/.test(text(refused)), text(refused));
    await call('run_command', { command: 'rm -r in' });
  },

  async 'has resources'() {
    if (modern && http) return; // there is no connection whose box it could be
    const { resources } = await client.listResources();
    const one = resources.find((r) => r.name === 'd/a b.txt');
    assert.match(one.uri, /^glovebox:\/\/[a-z0-9]+\/d\/a%20b\.txt$/);
    assert.equal((await client.readResource({ uri: one.uri })).contents[0].text, 'héllo');
    const bytes = resources.find((r) => r.name === 'b.bin');
    assert.equal((await client.readResource({ uri: bytes.uri })).contents[0].blob, 'AAH/');
    await assert.rejects(client.readResource({ uri: `${one.uri}x` }), /no such resource/);
  },

  async 'completes'() {
    if (modern && http) return;
    const ref = { type: 'ref/resource', uri: (await client.listResourceTemplates()).resourceTemplates[0].uriTemplate };
    const { completion } = await client.complete({ ref, argument: { name: 'path', value: 'd/' } });
    assert.deepEqual(completion.values, ['d/a b.txt']);
  },

  async 'starts anew'() {
    await call('reset');
    assert.match(text(await call('execute_ipython_cell', { code: 'x' })), /^NameError/);
  },

  async 'refuses'() {
    assert.match(text(await call('read_file', { path: '../../etc/shadow' })), /is no path/);
    assert.equal((await call('execute_ipython_cell', { code: 5 })).isError, true);
    await assert.rejects(call('nothing_of_the_kind'), /no tool/);
  },
};

for (const [name, check] of Object.entries(checks)) {
  let error = null;
  try {
    await check();
  } catch (e) {
    error = String(e.stack ?? e);
  }
  console.log(JSON.stringify({ name, error }));
}
if (http && !modern) await transport.terminateSession();
if (box.box) await call('delete_box', box);
await client.close();
