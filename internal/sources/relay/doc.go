// Package relay reads the pods of another podconfigd, the upstream, and the objects that they refer to.
//
// It owns the subscription to one upstream: what came of it, and what that means as origins. It hands its full set to the
// function that it was given; podconfigd makes one Source for each configured relay. Run and RunObjects each run in their
// caller's goroutine with a connection of their own, beside a goroutine that reads the stream and gRPC's; all have ended when
// they return. It never defaults or validates a pod, never decides between two pods, and never writes to the upstream but for the
// word that it is in step.
//
// # What is handed over
//
// Each pod is an origin, named SOURCE NAMESPACE/NAME UID after the upstream's source; its spec and digests are the upstream's. It
// gets the annotation podstream.io/relay-path, which says how it came. A pod that can't be used is an origin that is held, so
// that what it was stays. A set goes out for each revision, or for several that came while the one before was being merged. A pod
// that was removed and made again under one UID goes out as two sets, so that it is removed and made again here too.
//
// # When it is ready
//
// A source of the upstream that isn't ready is an origin without pods that is held and unready: it keeps this source from becoming
// ready as long as the upstream can't say what there is, from end to end of a chain, and after a restart too, though the store has
// the pods. Meanwhile the upstream removes nothing of that source, and neither does the relay.
//
// Nothing is handed over before the upstream has taken the word that it was heard: who may not say that is shown redacted pods.
//
// # Restarts
//
// While this process lives, a broken stream resumes at its cursor. A new process begins with what the local store has of the
// source (Config.Stored) and tells the upstream so, which then sends the difference only. Before that is complete nothing is
// handed over but errors: the merge serves the stored pods as stale. A pod that came broken is asked for again by each stream, as
// long as it is.
//
// # Loops
//
// Two podconfigds, or more, may be told to relay each other. What must not happen then is that a pod lives only because each of
// them has it from the other. These are the rules that see to it:
//
//   - An upstream whose path (Synced.path, Heartbeat.path) has the own id isn't relayed: nothing of it is taken, and the source
//     has an error. What was handed over before stays, as with any upstream that can't be heard: by the next rule none of it has
//     come through here.
//   - A pod whose relay-path has the own id isn't taken: after a restart, or while it refuses a loop itself, an upstream has pods
//     that came through here and a path that doesn't say so. A refused pod that was taken before is gone, unless its source at the
//     upstream isn't ready: then it is held until that is. The id decides, not the node's name, which two podconfigds may share; who
//     loses its id is another podconfigd from then on.
//   - While it refuses a loop a source has no path of its own to tell. So of several that find the loop at one time the first to
//     try again succeeds, and the others find it still; each waits a time of its own choice before it does.
package relay
