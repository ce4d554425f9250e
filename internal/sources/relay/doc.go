// Package relay reads the pods of another podconfigd, the upstream, and the objects that they refer to.
//
// It owns the subscription to one upstream, and turns what it receives into origins. It passes its full set to the
// function that it was given; podconfigd makes one Source for each configured relay. The upstream may be one of several
// podconfigds, which package client selects. Run and RunObjects share one connection, and so one podconfigd. Each runs
// in its caller's goroutine with a goroutine that reads the stream, and those of package client; all have ended when
// both return. It never defaults or validates a pod, never decides between two pods, and its only write to
// the upstream is ReportApplied once it is in step.
//
// # Sets
//
// Each pod is an origin, named SOURCE NAMESPACE/NAME UID after the upstream's source; its spec and digests are the
// upstream's. It gets the annotation podstream.io/relay-path, which has the podconfigds that it came through. A pod
// that can't be used is a held origin, so that its previous version stays. A set goes out for each revision, or for
// several that arrived while the previous one was being merged. A pod that was removed and created again under one
// UID goes out as two sets, so that it is removed and created again here too.
//
// # Readiness
//
// A source of the upstream that isn't ready is an origin without pods that is held and unready: it keeps this source
// from becoming ready as long as the upstream doesn't know all its pods. This holds through a chain of relays, and
// after a restart too, though the store has the pods. Meanwhile the upstream removes nothing of that source, and
// neither does the relay.
//
// Nothing is passed on before the upstream has accepted a ReportApplied: a caller that may not send it gets redacted
// pods.
//
// # Restarts
//
// Within one process, a broken stream resumes at its cursor. A new process starts with the pods of the source in the
// local store (Config.Stored) and sends them as known pods, so that the upstream only sends the difference. Before
// that is complete only errors are passed on: the merge serves the stored pods as stale. A pod that couldn't be used
// is requested again by each stream, as long as that is so.
//
// # Positions
//
// The positions in the upstream's cursors say how far its pods follow the clusters that they come from (G11). The relay's
// sets have them under its own name; of several sources of the upstream with one cluster, the lower one counts. What synced
// and heartbeats report is the current position, unless the upstream holds the source.
//
// No revision is taken that would take the relay back (stream.Held.Check). The upstream then isn't relayed, and client
// selects another one if there are several. A new process claims the positions of the local store (Config.Positions). They
// have the relay's name, so it asks the upstream which of its sources follow these clusters. A source that the upstream
// holds counts as one that isn't ready.
//
// The relay is no sources.Confirmer: a consumer of this podconfigd that is ahead of the relay is held until the relay's
// current position has caught up. If the cluster's history went back while the consumer was away, that needs an acceptance
// of the source.
//
// # Loops
//
// Two or more podconfigds may be configured to relay each other. Then a pod must not exist only because each of them
// has it from the other. These rules ensure that:
//
//   - An upstream whose path (Synced.path, Heartbeat.path) has the own ID isn't relayed: nothing of it is taken, and
//     the source has an error. Previous pods stay, as with any upstream that can't be read: by the next rule none of
//     them has come through here.
//   - A pod whose relay-path has the own ID isn't taken: after a restart, or while it refuses a loop itself, an
//     upstream has pods that came through here and a path that doesn't show it. A refused pod that was taken before
//     is gone, unless its source at the upstream isn't ready: then it is held until that is. The ID decides, not the
//     node's name, which two podconfigds may share. A podconfigd that loses its ID is another podconfigd from then
//     on.
//   - While it refuses a loop a source has no path of its own to report. So if several podconfigds detect the loop at
//     one time, the first one to try again succeeds, and the others still detect it; each waits for a random time
//     before it tries again.
package relay
