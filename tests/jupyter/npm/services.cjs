// SPDX-License-Identifier: Apache-2.0
// JupyterLab's own client against a server:  node services.cjs URL TOKEN COMM
// COMM is Python that makes a comm target `echo`. Prints one line of JSON per check: {"name", "error"}.
'use strict';

const assert = require('node:assert');
const { KernelAPI, KernelManager, KernelMessage, KernelSpecManager, ServerConnection, SessionAPI, SessionManager } = require('@jupyterlab/services');

const [url, token, comm] = process.argv.slice(2);
// What it says of its connections is of no interest; errors are.
console.debug = console.log = console.warn = () => {};

function settings(more) {
  return ServerConnection.makeSettings({ baseUrl: url, wsUrl: url.replace(/^http/, 'ws'), token, appendToken: true, ...more });
}

const serverSettings = settings();
const kernels = new KernelManager({ serverSettings });
const SECONDS = 30;

function within(promise, what) {
  let timer;
  const late = new Promise((_, no) => {
    timer = setTimeout(() => no(new Error(`waited in vain: ${what}`)), SECONDS * 1000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function until(condition, what) {
  return within(
    (async () => {
      while (!(await condition())) await new Promise(yes => setTimeout(yes, 20));
    })(),
    what
  );
}

// What a cell shows, and its reply.
async function run(kernel, code, more = {}, onStdin) {
  const said = [];
  const future = kernel.requestExecute({ code, ...more });
  future.onIOPub = m => said.push(m);
  if (onStdin) future.onStdin = onStdin;
  const reply = await within(future.done, code.slice(0, 60));
  const text = name => said.filter(m => m.header.msg_type === 'stream' && m.content.name === name).map(m => m.content.text).join('');
  return { said, reply: reply.content, out: text('stdout'), err: text('stderr'), types: said.map(m => m.header.msg_type) };
}

async function withKernel(f) {
  const kernel = await kernels.startNew({ name: 'python3' });
  try {
    // What the client asks by itself: if the kernel ends first, nobody here would hear that it was refused.
    await within(kernel.info, 'info');
    await f(kernel);
  } finally {
    await kernel.shutdown();
  }
}

const checks = {
  async specs() {
    const manager = new KernelSpecManager({ serverSettings });
    await within(manager.ready, 'specs');
    assert.equal(manager.specs.default, 'python3');
    assert.equal(manager.specs.kernelspecs.python3.language, 'python');
    assert.ok(Array.isArray(manager.specs.kernelspecs.python3.argv));
    manager.dispose();
  },

  async info() {
    await withKernel(async kernel => {
      const info = await within(kernel.info, 'info');
      assert.equal(info.language_info.name, 'python');
      assert.equal(info.protocol_version, '5.3');
      await until(() => kernel.status === 'idle' && kernel.connectionStatus === 'connected', 'idle');
      const spec = await kernel.spec;
      assert.equal(spec.name, 'python3');
    });
  },

  async execute() {
    await withKernel(async kernel => {
      const got = await run(kernel, "print('out')\nimport sys\nprint('err', file=sys.stderr)\ndisplay('shown')\n6 * 7");
      assert.equal(got.reply.status, 'ok');
      assert.equal(got.reply.execution_count, 1);
      assert.deepEqual([got.out, got.err], ['out\n', 'err\n']);
      assert.deepEqual([got.types[0], got.types.at(-1)], ['status', 'status']);
      const result = got.said.find(m => m.header.msg_type === 'execute_result');
      assert.equal(result.content.data['text/plain'], '42');
      const bad = await run(kernel, '1/0');
      assert.equal(bad.reply.ename, 'ZeroDivisionError');
    });
  },

  async 'much output'() {
    await withKernel(async kernel => {
      const got = await run(kernel, "for i in range(50000): print(f'{i:099d}')");
      assert.equal(got.out.length, 5000000);
      assert.equal(got.out.slice(-100), '49999'.padStart(99, '0') + '\n');
    });
  },

  async questions() {
    await withKernel(async kernel => {
      await run(kernel, 'asked_for = 5');
      const completed = await within(kernel.requestComplete({ code: 'asked_', cursor_pos: 6 }), 'complete');
      assert.ok(completed.content.matches.includes('asked_for'));
      const inspected = await within(kernel.requestInspect({ code: 'asked_for', cursor_pos: 3, detail_level: 0 }), 'inspect');
      assert.ok(inspected.content.found);
      const whole = await within(kernel.requestIsComplete({ code: 'for i in x:' }), 'is complete');
      assert.equal(whole.content.status, 'incomplete');
      const history = await within(
        kernel.requestHistory({ output: false, raw: true, hist_access_type: 'tail', n: 1 }), 'history');
      assert.equal(history.content.history[0][2], 'asked_for = 5');
      const comms = await within(kernel.requestCommInfo({}), 'comm info');
      assert.deepEqual(comms.content.comms, {});
    });
  },

  async updates() {
    await withKernel(async kernel => {
      const first = kernel.requestExecute({ code: "h = display('one', display_id='x')" }, false);
      const seen = [];
      first.onIOPub = m => {
        if (m.header.msg_type.endsWith('display_data')) seen.push([m.header.msg_type, m.content.data['text/plain']]);
      };
      await within(first.done, 'display');
      await run(kernel, "h.update('two')");
      assert.deepEqual(seen, [['display_data', "'one'"], ['update_display_data', "'two'"]]);
      first.dispose();
    });
  },

  async input() {
    await withKernel(async kernel => {
      const asked = [];
      const got = await run(kernel, "a = input('name? ')\nfrom getpass import getpass\nb = getpass('word? ')\nprint(a, b)", { allow_stdin: true }, m => {
        asked.push([m.content.prompt, m.content.password]);
        kernel.sendInputReply({ status: 'ok', value: 'ä' + asked.length }, m.header);
      });
      assert.deepEqual(asked, [['name? ', false], ['word? ', true]]);
      assert.equal(got.out, 'ä1 ä2\n');
    });
  },

  async interrupt() {
    await withKernel(async kernel => {
      const future = kernel.requestExecute({ code: "print('up', flush=True)\nimport time; time.sleep(1000)" });
      const up = new Promise(yes => {
        future.onIOPub = m => m.header.msg_type === 'stream' && yes();
      });
      await within(up, 'it runs');
      await kernel.interrupt();
      const reply = await within(future.done, 'its end');
      assert.equal(reply.content.ename, 'KeyboardInterrupt');
      assert.equal((await run(kernel, '6 * 7')).reply.status, 'ok');
    });
  },

  async restart() {
    await withKernel(async kernel => {
      await run(kernel, 'x = 1');
      const id = kernel.id;
      const states = [];
      kernel.statusChanged.connect((_, state) => states.push(state));
      await within(kernel.restart(), 'restart');
      const got = await run(kernel, "print('x' in globals())");
      assert.equal(got.out, 'False\n');
      assert.equal(got.reply.execution_count, 1);
      assert.equal(kernel.id, id);
      assert.ok(!states.includes('autorestarting'), `nobody died: ${states}`);
      await until(() => kernel.status === 'idle', 'idle');
    });
  },

  async 'restart while it is busy'() {
    await withKernel(async kernel => {
      const future = kernel.requestExecute({ code: "print('up', flush=True)\nimport time; time.sleep(1000)" });
      const up = new Promise(yes => {
        future.onIOPub = m => m.header.msg_type === 'stream' && yes();
      });
      future.done.catch(() => {});
      await within(up, 'it runs');
      await within(kernel.restart(), 'restart');
      assert.equal((await run(kernel, 'print(1)')).out, '1\n');
    });
  },

  async death() {
    await withKernel(async kernel => {
      const states = [];
      kernel.statusChanged.connect((_, state) => states.push(state));
      const future = kernel.requestExecute({ code: 'import os; os._exit(1)' });
      future.done.catch(() => {});
      await until(() => states.includes('autorestarting'), 'it is told to have died');
      await until(() => kernel.connectionStatus === 'connected' && kernel.status === 'idle', 'it is there again');
      assert.equal((await run(kernel, 'print(6 * 7)')).out, '42\n');
    });
  },

  async comms() {
    await withKernel(async kernel => {
      const made = await run(kernel, comm);
      assert.equal(made.reply.status, 'ok', JSON.stringify(made.reply));
      const back = [];
      const one = kernel.createComm('echo', 'c1');
      one.onMsg = m => back.push(m);
      const bytes = new Uint8Array([0, 1, 254, 255]);
      await within(one.open({ hello: 1 }, { m: 1 }, [bytes.buffer]).done, 'open');
      await within(one.send({ n: 2 }, {}, [bytes.buffer, new ArrayBuffer(0), new Uint8Array(100000).fill(7).buffer]).done, 'send');
      await until(() => back.length === 2, 'both echoes');
      assert.deepEqual(back[0].content.data, { opened: { hello: 1 } });
      assert.deepEqual(back[1].content.data, { echo: { n: 2 } });
      assert.deepEqual(back[1].buffers.map(b => b.byteLength), [4, 0, 100000]);
      const first = back[1].buffers[0];
      assert.deepEqual([...new Uint8Array(first.buffer ?? first, first.byteOffset ?? 0, first.byteLength)], [0, 1, 254, 255]);
      await within(one.close().done, 'close');
      // One that the kernel opens.
      const opened = new Promise(yes => kernel.registerCommTarget('there', (c, m) => yes([c, m])));
      await run(kernel, "theirs = comm.create_comm(target_name='there', data={'a': 1})");
      const [theirs, m] = await within(opened, 'a comm of the kernel');
      assert.deepEqual(m.content.data, { a: 1 });
      const told = new Promise(yes => (theirs.onMsg = yes));
      await run(kernel, "theirs.send({'b': 2}, buffers=[b'abc'])");
      const last = await within(told, 'its message');
      assert.deepEqual([last.content.data, last.buffers.length], [{ b: 2 }, 1]);
    });
  },

  async 'two connections'() {
    await withKernel(async kernel => {
      const other = kernels.connectTo({ model: kernel.model, clientId: 'the-other-one' });
      await within(other.info, 'info');
      const heard = [];
      other.iopubMessage.connect((_, m) => heard.push(m));
      await run(kernel, "print('to both')");
      await until(() => heard.some(m => m.header.msg_type === 'stream' && m.content.text === 'to both\n'), 'the other hears it');
      assert.equal((await run(other, 'print(2)')).out, '2\n');
      other.dispose();
    });
  },

  async reconnect() {
    await withKernel(async kernel => {
      const future = kernel.requestExecute({
        code: "print('up', flush=True)\nimport time\nfor i in range(100):\n    print(i, flush=True)\n    time.sleep(0.01)"
      });
      let text = '';
      const up = new Promise(yes => {
        future.onIOPub = m => {
          if (m.header.msg_type === 'stream') text += m.content.text;
          yes();
        };
      });
      await within(up, 'it runs');
      await within(kernel.reconnect(), 'reconnect');
      const reply = await within(future.done, 'the end of what ran meanwhile');
      assert.equal(reply.content.status, 'ok');
      assert.equal(text.split('\n').at(-2), '99');
    });
  },

  async list() {
    await withKernel(async kernel => {
      const models = await KernelAPI.listRunning(serverSettings);
      assert.ok(models.some(m => m.id === kernel.id && m.execution_state));
      await kernels.refreshRunning();
      assert.ok([...kernels.running()].some(m => m.id === kernel.id));
      assert.equal((await kernels.findById(kernel.id)).id, kernel.id);
    });
  },

  async shutdown() {
    const kernel = await kernels.startNew({ name: 'python3' });
    await within(kernel.info, 'info');
    const id = kernel.id;
    await kernel.shutdown();
    assert.equal(await KernelAPI.getKernelModel(id, serverSettings), undefined);
  },

  async 'no such kernel'() {
    assert.equal(await KernelAPI.getKernelModel('00000000-0000-4000-8000-000000000000', serverSettings), undefined);
    await assert.rejects(kernels.startNew({ name: 'cobol' }));
  },

  async 'wrong token'() {
    if (!token) return;
    await assert.rejects(KernelAPI.listRunning(settings({ token: 'wrong-token-0123456789' })), e => e.response.status === 401);
  },

  async sessions() {
    const manager = new SessionManager({ serverSettings, kernelManager: kernels });
    await within(manager.ready, 'sessions');
    const session = await manager.startNew({ path: 'a.ipynb', name: 'a.ipynb', type: 'notebook', kernel: { name: 'python3' } });
    assert.equal(session.path, 'a.ipynb');
    assert.equal((await run(session.kernel, 'print(6 * 7)')).out, '42\n');
    await session.setPath('b.ipynb');
    await session.setName('b');
    assert.deepEqual([session.path, session.name], ['b.ipynb', 'b']);
    const models = await SessionAPI.listRunning(serverSettings);
    assert.deepEqual(models.map(m => m.path), ['b.ipynb']);
    const before = session.kernel.id;
    await session.changeKernel({ name: 'python3' });
    assert.notEqual(session.kernel.id, before);
    assert.equal((await run(session.kernel, 'print(7)')).out, '7\n');
    assert.equal((await manager.findByPath('b.ipynb')).id, session.id);
    await session.shutdown();
    await manager.refreshRunning();
    assert.equal([...manager.running()].length, 0);
    manager.dispose();
  }
};

(async () => {
  assert.ok(KernelMessage);
  await within(kernels.ready, 'the list of kernels');
  for (const [name, check] of Object.entries(checks)) {
    let error = null;
    try {
      await check();
    } catch (e) {
      error = String(e.stack ?? e);
    }
    process.stdout.write(JSON.stringify({ name, error }) + '\n');
  }
  process.exit(0);
})();
