// The state of a consumer, and the effect of each revision on it. No I/O: a revision goes in, the ops to act on come
// out. Port this part with care; proto/podconfig/v1/podconfig.proto defines the duties.

/** The ops that this consumer knows. */
const KNOWN_OPS = new Set(['SET', 'ADD', 'DELETE', 'REMOVE', 'UPDATE', 'RECONCILE', 'RESTORE']);

/** Thrown for what a newer podconfigd says and this consumer doesn't understand: ask for snapshots rather than guess. */
export class UnknownError extends Error {}

export class Holdings {
  /** Where the last applied revision ended. Sent back as it came; null before the first. */
  cursor = null;
  /** The held pods, by source and UID. */
  #pods = new Map();
  /** Keys of held pods that a SET didn't have, of sources that weren't known to be ready then. */
  #missing = new Set();
  /** Source → ready, as told on the current stream. */
  #ready = new Map();
  /** The configured sources. Null until the current stream has told. */
  #configured = null;

  /** Forgets what was true of the stream before only: a podconfigd that was restarted knows less than the one before. */
  startStream() {
    this.#missing.clear();
    this.#ready.clear();
    this.#configured = null;
  }

  /** The held pods as the request carries them. */
  knownPods() {
    return [...this.#pods.values()].map((pod) => ({
      uid: pod.uid,
      source: pod.source,
      namespace: pod.namespace,
      name: pod.name,
      spec_digest: pod.specDigest,
      status_digest: pod.statusDigest,
    }));
  }

  /**
   * Applies what came since the last cursor, as a whole, and returns the ops to act upon: [{op, pod}], without SET.
   * @param updates the PodUpdates of one revision or catch-up, as decode returns them
   * @param sources the readiness of all configured sources, where it was told; else null
   * @param cursor the cursor that came with the last message; null if there was none
   */
  apply(updates, sources, cursor) {
    const out = [];
    const ops = updates.filter((update) => update.op !== 'SET');
    const sets = updates.filter((update) => update.op === 'SET');
    for (const update of updates) this.#ready.set(update.source, update.sourceReady);
    if (sources) {
      this.#ready = new Map(sources.map((source) => [source.name, source.ready]));
      this.#configured = new Set(this.#ready.keys());
    }
    for (const pod of ops.flatMap((update) => update.pods)) this.#missing.delete(keyOf(pod));
    // A large SET comes in several messages, which together are the set.
    const set = sets.flatMap((update) => update.pods);
    if (sets.length > 0) this.#compareWith(set, out);
    // Removals come first: they free names for other pods.
    this.#removeCertain(out);
    for (const { op, pods } of ops) {
      for (const pod of pods) this.#applyPod(op, pod, out);
    }
    for (const pod of set) this.#applyFromSet(pod, out);
    if (cursor) this.cursor = cursor;
    return out;
  }

  #applyPod(op, pod, out) {
    const key = keyOf(pod);
    const held = this.#pods.get(key);
    switch (op) {
      case 'REMOVE':
        // A catch-up with filters may remove pods that aren't held; and podconfigd has no name for a pod that it
        // knows only from known_pods.
        if (held) this.#remove(key, out);
        return;
      case 'ADD':
        op = held ? 'UPDATE' : 'ADD';
        break;
      case 'RESTORE':
        // It is known only from a store: it doesn't restart a pod that is terminating.
        if (held && (held.deleting || held.terminal)) return;
        break;
    }
    this.#hold(op, pod, out);
  }

  /** Finds out what a SET doesn't have any more. */
  #compareWith(set, out) {
    const keys = new Set(set.map(keyOf));
    const byUID = new Map(set.map((pod) => [pod.uid, pod]));
    for (const [key, held] of this.#pods) {
      const pod = byUID.get(held.uid);
      if (!pod) {
        this.#missing.add(key); // it goes once its source is ready
      } else if (!keys.has(key) || pod.namespace !== held.namespace || pod.name !== held.name) {
        this.#remove(key, out); // another pod has its UID now
      } else {
        this.#missing.delete(key);
      }
    }
  }

  #applyFromSet(pod, out) {
    const held = this.#pods.get(keyOf(pod));
    if (!held) {
      this.#hold('ADD', pod, out);
    } else if (held.specDigest !== pod.specDigest) {
      this.#hold(pod.deleting ? 'DELETE' : 'UPDATE', pod, out);
    } else if (held.statusDigest !== pod.statusDigest) {
      this.#hold('RECONCILE', pod, out);
    }
  }

  /** Removes what a SET didn't have: of ready sources, and once all are ready of those that aren't configured any more. */
  #removeCertain(out) {
    const allReady = this.#configured && [...this.#configured].every((source) => this.#ready.get(source));
    for (const key of this.#missing) {
      const source = this.#pods.get(key).source;
      if (this.#ready.get(source) || (allReady && !this.#configured.has(source))) this.#remove(key, out);
    }
  }

  #hold(op, pod, out) {
    this.#pods.set(keyOf(pod), pod);
    this.#missing.delete(keyOf(pod));
    out.push({ op, pod });
  }

  #remove(key, out) {
    out.push({ op: 'REMOVE', pod: this.#pods.get(key) });
    this.#pods.delete(key);
    this.#missing.delete(key);
  }
}

/** Turns a podconfig.v1.PodUpdate into what apply takes. Throws UnknownError for an op or a format that isn't known here. */
export function decode(update) {
  // The loader returns an enum value that isn't in the .proto as a number.
  const op = String(update.op).replace('POD_OPERATION_', '');
  if (!KNOWN_OPS.has(op)) throw new UnknownError(`podconfigd sent op ${update.op}, which isn't known here`);
  return {
    op,
    source: update.source,
    sourceReady: update.source_ready,
    pods: update.pods.map((pod) => decodePod(pod, op !== 'REMOVE')),
  };
}

function decodePod(pod, hasContent) {
  if (hasContent && pod.content !== 'json') {
    throw new UnknownError(`pod ${pod.ref.uid} came in a format that wasn't asked for`);
  }
  const object = hasContent ? plainStruct(pod.json) : {};
  return {
    uid: pod.ref.uid,
    namespace: pod.ref.namespace,
    name: pod.ref.name,
    source: pod.source,
    specDigest: pod.spec_digest,
    statusDigest: pod.status_digest,
    deleting: object.metadata?.deletionTimestamp !== undefined,
    terminal: ['Succeeded', 'Failed'].includes(object.status?.phase),
  };
}

const keyOf = (pod) => JSON.stringify([pod.source, pod.uid]);

/** A google.protobuf.Struct as a plain object: the pod as `kubectl get -o json` would show it. */
function plainStruct(struct) {
  return Object.fromEntries(Object.entries(struct.fields).map(([name, value]) => [name, plainValue(value)]));
}

function plainValue(value) {
  switch (value.kind) {
    case 'structValue':
      return plainStruct(value.structValue);
    case 'listValue':
      return value.listValue.values.map(plainValue);
    case 'nullValue':
      return null;
    default:
      return value[value.kind];
  }
}
