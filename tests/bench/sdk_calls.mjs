// SPDX-License-Identifier: Apache-2.0
//
// Calls of a tool by npm's sdk, one after the other, of a server that it has started.
//
//   node sdk_calls.mjs PROGRAM WORD…
//
// A line {"ms": N} or {"calls": N} on standard input is one measurement; a line answers it: {"ns": […], "wall_ns", "failed", "error"}.
import readline from 'node:readline';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

const [command, ...args] = process.argv.slice(2);
const now = () => process.hrtime.bigint();
const client = new Client({ name: 'glovebox-bench', version: '1' }, { capabilities: {} });
await client.connect(new StdioClientTransport({ command, args, stderr: 'ignore' }));

async function once(done) {
  const start = now();
  try {
    const result = await client.callTool({ name: 'echo', arguments: { message: 'x' } });
    const ns = Number(now() - start);
    const text = result.content?.[0]?.text;
    if (text !== 'Echo: x') throw new Error(`answered ${text}`);
    done.ns.push(ns);
  } catch (e) {
    done.failed += 1;
    done.error ||= String(e);
  }
}

async function measure({ ms, calls }) {
  const done = { ns: [], failed: 0, error: '' };
  const start = now();
  const end = start + BigInt(Math.round((ms ?? 0) * 1e6));
  for (let i = 0; calls === undefined ? now() < end : i < calls; i++) await once(done);
  done.wall_ns = Number(now() - start);
  return done;
}

console.log(JSON.stringify(await measure({ calls: 1 })));
for await (const line of readline.createInterface({ input: process.stdin })) console.log(JSON.stringify(await measure(JSON.parse(line))));
await client.close();
