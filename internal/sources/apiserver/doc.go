// Package apiserver reads pods from a Kubernetes API server, and the ConfigMaps and Secrets that they refer to.
//
// It owns one connection to one API server: of which cluster that is, which of its pods are for this podconfigd (those of one
// node, of several, or of all), how they are kept up to date, and what is reported while the server can't be read. podconfigd
// makes one Source, named "api". It never writes to the API server, stores nothing but the cluster's lineage, and never judges
// a pod: mirror pods, terminal pods and pods that are being deleted are passed on as they are, without their managedFields.
//
// # Pods
//
// Run has a client-go reflector in a goroutine of its own, which puts what it reads into pods. Run's own goroutine
// takes the changes from there and sends the full set: the first change at once, and those within the next 5 ms, or
// while a set is being made, in one further set. An unchanged pod keeps its Origin, which is named NAMESPACE/NAME: a
// pod that was created again under its name is another pod of the same origin. A bookmark of the server is a Set too,
// with the same Origins: it shows that they were current then.
//
// The server selects one node's pods (spec.nodeName=NODE, which is all that its authorizer allows a node to see). For
// several nodes there is one watch of all pods that have a node, and those of other nodes are dropped here.
//
// Initial state comes by a streaming list where the server supports it (WatchList), else by a list in pages of 500. A
// list is requested at once from a server that refuses the stream (400, 422, or 500 where its etcd is too old), or
// whose stream ends three times before it is complete. So it is when a stream begins and then, before it is complete,
// sends nothing for 30 s, or takes more than 5 min: that is a Set with an Err, and for the next 10 min only lists are
// requested. The first reading is consistent, by list as by stream, where the kubelet's takes the server's cache as
// it is (resourceVersion=0): with a replica that lags behind, pods would be removed that are only missing in its
// cache. Later readings may come from a cache, and are never older than earlier ones. After 410 Gone the state is
// read again, and pods that were deleted meanwhile are gone.
//
// # Failures of the server
//
// The first request that fails makes a Set with an Err, and the next good reading ends it; a Set follows if the
// reason changes (see package reason). Pods are kept meanwhile. Retries begin after 0.8 to 1.6 s and double up to 15
// to 30 s; after two minutes without a retry they begin again. If the server names a time (Retry-After) no request is
// made before it, up to a minute. After ten watches at once, one watch a second is begun.
//
// A dead connection is noticed within 45 s: by HTTP/2 pings (30 s without a frame, then 15 s for the answer;
// HTTP2_READ_IDLE_TIMEOUT_SECONDS and HTTP2_PING_TIMEOUT_SECONDS change that), and by TCP keep-alive (15 s, then 3
// probes 10 s apart) where there is no HTTP/2. If no new one can be made within 10 s, or 20 s with TLS, that is a Set
// with an Err. A server that keeps the connection and sends nothing is requested again when its watch should have
// ended (5 to 10 min, and half a minute more), and when a list has taken 5 min.
//
// A token file is read each minute, and at once after a 401. Client certificates are read when a connection is made,
// which also happens after a 401, and every 5 min.
//
// # Cluster
//
// Another cluster may answer at the server's address, and its answers say nothing about the pods of the first one. So an
// answer is used only after a check of the cluster's UID (package clusteruid) that begins when the answer is there. Lists
// and watches of pods take two checks, one after the other, and lists of objects one. Watches of objects, and their
// readings, do without for a minute after a check, until the next connection is made. Concurrent answers share a check. Each
// probe is one, too: if another cluster answers there, the open watches end, and all is read again, at no version: what a
// watch has added since the check before may be of that cluster.
//
// The UID is the configured one, or the stored one, or else that of the first server, which is stored. Another one is a Set
// with an Err, until an operator removes the file, or until a list has a pod that was known from this source before the
// last good check: then the Service was made again. So is a server that doesn't show its UID, if one is configured, or
// until an operator removes the file. Otherwise it is used without a check, and the UID is stored once it is shown. A file
// that is removed while its own cluster answers is stored again.
//
// The checks detect a change from one cluster to another, and a proxy that sends requests to two clusters in turn. They
// don't detect for certain a proxy that chooses one of two clusters at random for each request.
//
// # Positions
//
// A Set without an Err has a Progress if the server is of Kubernetes 1.35 or later, which promises that resource versions can
// be compared, if it shows its cluster, and if all versions are well formed. A point belongs to the pods of its batch: both are
// taken under one lock. Changed is the version of the last event of a pod of this Source, or that of a list that has a
// difference. Current is that of the last event or bookmark of the watch, or that of a confirmation of all nodes. Versions
// are of a lineage: the UID of the cluster, and the epoch of its history. The lineage of a complete reading is the one that its
// check has shown, and its watch has it, too: after a change of the lineage, all is read again.
//
// An epoch ends when a consistent list, which may be one of no pods, is older than what was read before it: etcd was restored
// from a snapshot. Probes, confirmations and complete readings compare that, as do watches that are resumed, at once: one that
// begins at a version of the future has no events until then. A list that isn't consistent, and older than it had to be, isn't
// used, and all is read again by one that is. Epoch and UID are stored together, with the UIDs of the clusters before, of
// which the change was confirmed.
//
// Confirm makes a confirmation due, for all calls until it begins. A goroutine of Run lists the metadata of the pods of the
// nodes: node by node, or of all nodes if there are more than 32. The list is consistent, in pages of 500, or less if they
// exceed 16 MiB. It is checked as each list of pods. It is complete once the store has each pod as listed, or a later change
// of it, and has no other pods but those that are newer than the list. What it has of a pod that is missing in the store, and
// the version of its deletion, come by the watch. After 10 s without that, or a failure, it is repeated: a list begins at most
// each 250 ms, after failures each 0.5 to 15 s. If the watch is behind three times in a row, all is read again.
//
// # Objects
//
// RunObjects has a goroutine for each wanted object. By default it has a reflector that selects the object by name,
// as the kubelet's manager does (pkg/kubelet/util/manager): the node authorizer grants no more. Depending on
// Config.ChangeDetection each object is polled instead, as the kubelet would when it syncs the pods that refer to it, and at
// once when Run reads such a pod that is new or has another spec. The first reading and these are the server's latest.
// Others may come from its cache, unless they show the object as older than it was, or as gone.
//
// A Source of several nodes that watches has one reflector for the ConfigMaps of a namespace of which two or more are
// wanted, and depending on Config.WatchSecrets for its Secrets. It has their metadata only. A wanted object is read when
// it is wanted, and when a list or an event shows another version of it than the one read last. Each reading is the latest
// version, and of an object there is one at a time. Many ConfigMaps are read by one list of the namespace. For each such
// namespace there are two goroutines, one for each of up to eight readings at once, and one for each failed one that waits.
// If the role doesn't allow that, or the server can't list the namespace, its objects are read one by one. A goroutine
// tries every 10 to 20 minutes, or one to two hours, whether that has changed.
//
// A gate lets 400 requests of objects begin in a second, after the first hundred, and 64 be under way, in rotation
// between namespaces. Watches share connections, which have as many streams as the server allows.
//
// An immutable object isn't watched or polled once it was read. If it is deleted and created again under its name,
// that is noticed when it isn't wanted any more and is wanted again later; the kubelet reads it again no sooner. out
// is called from RunObjects' own goroutine.
//
// All goroutines have ended when Run and RunObjects return, except a request that was just cancelled and the
// goroutine in which client-go watches certificate files: that one ends when the Source is collected as garbage.
// client-go logs to the Source's logger, as debug messages.
package apiserver
