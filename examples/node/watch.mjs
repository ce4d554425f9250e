// Watches the pods of a podconfigd and prints a JSON line for each op: node watch.mjs [ENDPOINT]
//
// The shell around holdings.mjs: it subscribes, passes on whole revisions, and subscribes again when the stream
// breaks.

import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';

import { Holdings, UnknownError, decode } from './holdings.mjs';

const DEFAULT_ENDPOINT = 'unix:///run/podstream/podconfigd.sock';
const CONSUMER = 'example-node';
const INCREMENTAL = 'NOTIFICATION_MODE_INCREMENTAL';
const SNAPSHOT = 'NOTIFICATION_MODE_SNAPSHOT';
const HEARTBEAT_SECONDS = 10;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2000;

const { podconfig } = grpc.loadPackageDefinition(
  protoLoader.loadSync('podconfig/v1/podconfig.proto', {
    includeDirs: [fileURLToPath(new URL('../../proto', import.meta.url))],
    keepCase: true,
    longs: String, // a revision has 64 bits, and a cursor must be sent back unchanged
    enums: String,
    defaults: true,
    oneofs: true,
  }),
);

/** Watches until the signal aborts. Fails only if podconfigd calls the request invalid: nothing else is for ever. */
async function watch(client, signal, print) {
  const holdings = new Holdings();
  let mode = INCREMENTAL;
  let longest = FIRST_PAUSE_MS;
  while (!signal.aborted) {
    let error;
    try {
      await stream(client, signal, holdings, mode, (line) => {
        if (line.synced) longest = FIRST_PAUSE_MS;
        print(line);
      });
    } catch (caught) {
      error = caught;
    }
    if (signal.aborted) return;
    if (error instanceof UnknownError) {
      mode = SNAPSHOT;
    } else if (error?.code === grpc.status.UNIMPLEMENTED) {
      mode = INCREMENTAL; // podconfigd is now an older one, without snapshots
    } else if (error && (error.code === grpc.status.INVALID_ARGUMENT || !(error.code in grpc.status))) {
      throw error;
    }
    const delay = longest * (0.5 + Math.random() / 2);
    longest = Math.min(2 * longest, LONGEST_PAUSE_MS);
    console.error(`no stream, trying again in ${Math.round(delay)} ms: ${error?.message ?? 'podconfigd ended it'}`);
    await pause(delay, undefined, { signal }).catch(() => {}); // aborted: the loop handles it
  }
}

/** One stream: returns or throws when it ends. What hasn't got its cursor by then was never applied. */
async function stream(client, signal, holdings, mode, print) {
  holdings.startStream();
  const call = client.WatchPodUpdates({
    consumer: CONSUMER,
    mode,
    format: 'POD_FORMAT_JSON',
    resume_after: holdings.cursor,
    known_pods: holdings.knownPods(),
    heartbeat_interval: { seconds: HEARTBEAT_SECONDS },
  });
  const cancel = () => call.cancel();
  signal.addEventListener('abort', cancel);
  // A hanging podconfigd sends nothing, not even the end of the stream.
  const watchdog = setTimeout(cancel, 3 * HEARTBEAT_SECONDS * 1000);
  try {
    const updates = [];
    for await (const message of call) {
      watchdog.refresh();
      if (message.update) updates.push(decode(message.update));
      const sources = (message.synced ?? message.heartbeat)?.sources ?? null;
      // Without a cursor, more of this revision follows; a heartbeat has the sources all the same.
      const whole = message.cursor ? updates.splice(0) : [];
      for (const { op, pod } of holdings.apply(whole, sources, message.cursor)) {
        const revision = Number(holdings.cursor?.revision ?? 0);
        print({ revision, op, source: pod.source, pod: `${pod.namespace}/${pod.name}`, uid: pod.uid });
      }
      if (message.synced) print({ synced: sources.filter((source) => source.ready).map((source) => source.name) });
    }
  } finally {
    clearTimeout(watchdog);
    signal.removeEventListener('abort', cancel);
    call.cancel();
  }
}

class UsageError extends Error {}

async function main() {
  const [endpoint = DEFAULT_ENDPOINT, ...rest] = process.argv.slice(2);
  if (rest.length > 0 || !endpoint.startsWith('unix:///')) throw new UsageError('want: node watch.mjs [unix:///PATH]');

  const stopping = new AbortController();
  const stop = () => stopping.abort();
  process.once('SIGTERM', stop).once('SIGINT', stop);
  // The reader of standard output has closed it.
  process.stdout.on('error', stop);

  const client = new podconfig.v1.PodConfigService(endpoint, grpc.credentials.createInsecure(), {
    'grpc.initial_reconnect_backoff_ms': FIRST_PAUSE_MS,
    'grpc.max_reconnect_backoff_ms': LONGEST_PAUSE_MS,
  });
  try {
    await watch(client, stopping.signal, (line) => process.stdout.write(`${JSON.stringify(line)}\n`));
  } finally {
    client.close();
  }
}

try {
  await main();
} catch (error) {
  console.error(error.message);
  process.exitCode = error instanceof UsageError ? 2 : 1;
}
