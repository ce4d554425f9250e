// Package apiserver reads pods from a Kubernetes API server, and the ConfigMaps and Secrets that they refer to.
//
// It owns one connection to one API server: what of it is for this podconfigd (the pods of one node, of several, or of all), how
// it is kept up to date, and what is said while the server is away. podconfigd makes one Source, named "api". It never writes to
// the API server, never stores what it read, and never judges a pod: mirror pods, terminal pods and pods that are being deleted
// are handed over as they are, without their managedFields.
//
// # Pods
//
// Run has a client-go reflector in a goroutine of its own, which puts what it reads into pods; Run's own goroutine takes the
// changes from there and hands over the full set, the first change at once, and what comes within the next 5 ms, or while a set
// is being made, in one further set. A pod that didn't change keeps its Origin, which is named NAMESPACE/NAME: a pod that was
// made anew under its name is another pod of the same origin. A bookmark of the server is a Set too, with the same Origins: it
// tells that they were current then.
//
// One node's pods are selected by the server (spec.nodeName=NODE, which is what its authorizer lets a node see). For several
// nodes there is one watch of all pods that have a node, and those of other nodes are dropped here.
//
// Initial state comes by a streaming list where the server has it (WatchList), else by a list in pages of 500: a server that
// refuses the stream (400, 422, or 500 where its etcd is too old) is asked for the list at once, and one whose stream ends
// three times before it is complete as well. So is one that begins a stream and then, before it is complete, says nothing for 30 s,
// or takes more than 5 min: that is a Set with an Err, and for the next 10 min lists are asked for only. The first reading is
// consistent, by list as by stream, where the kubelet's takes the server's cache as it is (resourceVersion=0): a replica that lags
// behind would have pods removed that are only missing in its cache. Later ones may come from a cache, and are never older than what
// was read before. After 410 Gone the state is read anew, and what was deleted meanwhile is gone.
//
// # When the server is away
//
// The first request that fails makes a Set with an Err, and the next good reading ends it; a Set follows if the reason changes
// (package reason tells that). Pods are kept meanwhile. Retries begin after 0.8 to 1.6 s and double up to 15 to 30 s; after two
// minutes without one they begin anew. Where the server names a time (Retry-After) no request is made before it, up to a minute.
// More than ten watches at once are begun at one a second.
//
// A connection that has died silently is noticed within 45 s: by HTTP/2 pings (30 s without a frame, then 15 s for the answer;
// HTTP2_READ_IDLE_TIMEOUT_SECONDS and HTTP2_PING_TIMEOUT_SECONDS change that), and by TCP keep-alive (15 s, then 3 probes 10 s
// apart) where there is no HTTP/2. If no new one can be made within 10 s, or 20 s with TLS, that is a Set with an Err. A server
// that keeps the connection and says nothing is asked anew when its watch should have ended (5 to 10 min, and half a minute more),
// and when a list has taken 5 min.
//
// A token file is read each minute, and at once after a 401; client certificates when a connection is made, which they are anew
// after a 401, and every 5 min.
//
// # Objects
//
// RunObjects has a goroutine for each wanted object, which by default has a reflector that selects it by name, as the kubelet's manager does
// (pkg/kubelet/util/manager): the node authorizer grants no more. The first hundred begin at once, further ones at 50 a second. By
// Config.ChangeDetection each object is asked for from time to time instead, as the kubelet would when it syncs the pods that refer to
// it, and at once when Run reads such a pod that is new or has another spec: a first answer and these are the server's latest, the others
// may come from its cache, but for those that say that the object is older than it was, or gone.
//
// One that is immutable isn't watched or asked for once it was read, and stays told as it is. If it is deleted and made anew under its name,
// that is seen when it has ceased to be wanted and is wanted again; the kubelet reads it again no sooner. All callers are called from
// RunObjects' own goroutine.
//
// All goroutines have ended when Run and RunObjects return, but for a request that was just cancelled and for the one in which
// client-go looks after certificate files: that one ends when the Source is garbage. What client-go logs goes to the Source's
// logger, as debug messages.
package apiserver
