// Package node_test runs the example against a podconfigd that does what each test says.
package node_test

import (
	"math"
	"os"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	set       = podconfigv1.PodOperation_POD_OPERATION_SET
	add       = podconfigv1.PodOperation_POD_OPERATION_ADD
	del       = podconfigv1.PodOperation_POD_OPERATION_DELETE
	remove    = podconfigv1.PodOperation_POD_OPERATION_REMOVE
	update    = podconfigv1.PodOperation_POD_OPERATION_UPDATE
	reconcile = podconfigv1.PodOperation_POD_OPERATION_RECONCILE
	restore   = podconfigv1.PodOperation_POD_OPERATION_RESTORE

	incremental = podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL
	snapshot    = podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT
)

// TestResume: the stream breaks inside a revision. Its first half is dropped, and the next stream resumes after the
// last whole revision, with the pods of that revision (G4, G7).
func TestResume(t *testing.T) {
	w := watch(t, newScript(
		func(s serverStream) error {
			return send(s, errBroken,
				more(op(add, "file", pod("file", "one"))),
				at(7, op(add, "api", pod("api", "two"))),
				synced(7, "file", "api"),
				more(op(remove, "file", reference("file", "one"))),
				more(op(add, "file", pod("file", "three"))),
			)
		},
		func(s serverStream) error {
			return send(s, errBroken,
				more(op(remove, "file", reference("file", "one"))),
				more(op(add, "file", pod("file", "three"))),
				at(8, op(update, "api", version(pod("api", "two"), "s2", "t"))),
				synced(8, "file", "api"),
				at(9, op(reconcile, "api", version(pod("api", "two"), "s2", "t2"))),
				at(10, op(del, "api", deleting(version(pod("api", "two"), "s3", "t2")))),
				at(11, op(remove, "api", reference("api", "two"))),
			)
		},
	))
	w.wantLines(
		`{"revision":7,"op":"ADD","source":"file","pod":"default/one","uid":"one"}`,
		`{"revision":7,"op":"ADD","source":"api","pod":"default/two","uid":"two"}`,
		`{"synced":["file","api"]}`,
		`{"revision":8,"op":"REMOVE","source":"file","pod":"default/one","uid":"one"}`,
		`{"revision":8,"op":"ADD","source":"file","pod":"default/three","uid":"three"}`,
		`{"revision":8,"op":"UPDATE","source":"api","pod":"default/two","uid":"two"}`,
		`{"synced":["file","api"]}`,
		`{"revision":9,"op":"RECONCILE","source":"api","pod":"default/two","uid":"two"}`,
		`{"revision":10,"op":"DELETE","source":"api","pod":"default/two","uid":"two"}`,
		`{"revision":11,"op":"REMOVE","source":"api","pod":"default/two","uid":"two"}`,
	)
	w.wantRequest(incremental, nil)
	w.wantRequest(incremental, cursor(7), known("file", "one"), known("api", "two"))
	w.wantRequest(incremental, cursor(11), known("file", "three"))
	w.end(syscall.SIGTERM)
}

// TestCursorGoesBackAsItCame: a revision has 64 bits, of which a number in JavaScript holds 53. It may also come with
// a heartbeat.
func TestCursorGoesBackAsItCame(t *testing.T) {
	w := watch(t, newScript(
		func(s serverStream) error { return send(s, errBroken, synced(math.MaxUint64-1, "file")) },
		func(s serverStream) error {
			return send(s, errBroken, synced(math.MaxUint64-1, "file"), withCursor(math.MaxUint64, heartbeat("file")))
		},
	))
	w.wantLines(`{"synced":["file"]}`, `{"synced":["file"]}`)
	w.wantRequest(incremental, nil)
	w.wantRequest(incremental, cursor(math.MaxUint64-1))
	w.wantRequest(incremental, cursor(math.MaxUint64))
	w.end(syscall.SIGTERM)
}

// TestAddAndRestore: an ADD of a held pod is an update. RESTORE adds, unless the pod is terminating. An op without
// pods means that a source is ready, and prints no line.
func TestAddAndRestore(t *testing.T) {
	w := watch(t, newScript(func(s serverStream) error {
		return send(s, nil,
			more(op(add, "file", pod("file", "held"))),
			more(op(add, "file", deleting(pod("file", "leaving")))),
			at(1, op(add, "file", ended(pod("file", "ended")))),
			synced(1, "file"),
			at(2, op(add, "file", version(pod("file", "held"), "s2", "t"))),
			at(3, op(restore, "file", pod("file", "leaving"), pod("file", "ended"), pod("file", "held"), pod("file", "new"))),
			at(4, op(add, "file")),
			at(5, op(remove, "file", reference("file", "stranger"), reference("file", "held"))),
		)
	}))
	w.wantLines(
		`{"revision":1,"op":"ADD","source":"file","pod":"default/held","uid":"held"}`,
		`{"revision":1,"op":"ADD","source":"file","pod":"default/leaving","uid":"leaving"}`,
		`{"revision":1,"op":"ADD","source":"file","pod":"default/ended","uid":"ended"}`,
		`{"synced":["file"]}`,
		`{"revision":2,"op":"UPDATE","source":"file","pod":"default/held","uid":"held"}`,
		`{"revision":3,"op":"RESTORE","source":"file","pod":"default/held","uid":"held"}`,
		`{"revision":3,"op":"RESTORE","source":"file","pod":"default/new","uid":"new"}`,
		`{"revision":5,"op":"REMOVE","source":"file","pod":"default/held","uid":"held"}`,
	)
	w.end(syscall.SIGTERM)
}

// TestSet: an unknown op is dropped with its revision, and snapshots are requested. A SET is compared with the held
// pods; a pod that it lacks is removed once its source is ready.
func TestSet(t *testing.T) {
	w := watch(t, newScript(
		func(s serverStream) error {
			return send(s, nil,
				more(op(add, "file", pod("file", "same"), pod("file", "changed"), pod("file", "status"), pod("file", "leaving"))),
				more(op(add, "file", pod("file", "renamed"), pod("file", "moved"), pod("file", "gone"))),
				at(1, op(add, "api", pod("api", "late"), pod("api", "found"))),
				synced(1, "file", "api"),
				more(op(add, "file", pod("file", "never"))),
				at(2, op(99, "file", pod("file", "never"))),
			)
		},
		func(s serverStream) error {
			return send(s, nil,
				more(op(set, "file", pod("file", "same"), version(pod("file", "changed"), "s2", "t"))),
				more(op(set, "file", version(pod("file", "status"), "s", "t2"), deleting(version(pod("file", "leaving"), "s2", "t")))),
				more(op(set, "file", named(pod("file", "renamed"), "other"), pod("api", "moved"), pod("file", "new"))),
				syncedNotReady(5, "file", "api"),
				at(6, op(add, "api", pod("api", "found"))),
			)
		},
	))
	w.wantLines(
		`{"revision":1,"op":"ADD","source":"file","pod":"default/same","uid":"same"}`,
		`{"revision":1,"op":"ADD","source":"file","pod":"default/changed","uid":"changed"}`,
		`{"revision":1,"op":"ADD","source":"file","pod":"default/status","uid":"status"}`,
		`{"revision":1,"op":"ADD","source":"file","pod":"default/leaving","uid":"leaving"}`,
		`{"revision":1,"op":"ADD","source":"file","pod":"default/renamed","uid":"renamed"}`,
		`{"revision":1,"op":"ADD","source":"file","pod":"default/moved","uid":"moved"}`,
		`{"revision":1,"op":"ADD","source":"file","pod":"default/gone","uid":"gone"}`,
		`{"revision":1,"op":"ADD","source":"api","pod":"default/late","uid":"late"}`,
		`{"revision":1,"op":"ADD","source":"api","pod":"default/found","uid":"found"}`,
		`{"synced":["file","api"]}`,

		`{"revision":5,"op":"REMOVE","source":"file","pod":"default/renamed","uid":"renamed"}`,
		`{"revision":5,"op":"REMOVE","source":"file","pod":"default/moved","uid":"moved"}`,
		`{"revision":5,"op":"REMOVE","source":"file","pod":"default/gone","uid":"gone"}`,
		`{"revision":5,"op":"UPDATE","source":"file","pod":"default/changed","uid":"changed"}`,
		`{"revision":5,"op":"RECONCILE","source":"file","pod":"default/status","uid":"status"}`,
		`{"revision":5,"op":"DELETE","source":"file","pod":"default/leaving","uid":"leaving"}`,
		`{"revision":5,"op":"ADD","source":"file","pod":"default/other","uid":"renamed"}`,
		`{"revision":5,"op":"ADD","source":"api","pod":"default/moved","uid":"moved"}`,
		`{"revision":5,"op":"ADD","source":"file","pod":"default/new","uid":"new"}`,
		`{"synced":["file"]}`,

		`{"revision":6,"op":"REMOVE","source":"api","pod":"default/late","uid":"late"}`,
		`{"revision":6,"op":"UPDATE","source":"api","pod":"default/found","uid":"found"}`,
	)
	w.wantRequest(incremental, nil)
	w.wantRequest(snapshot, cursor(1), known("file", "same"), known("file", "changed"), known("file", "status"),
		known("file", "leaving"), known("file", "renamed"), known("file", "moved"), known("file", "gone"), known("api", "late"),
		known("api", "found"))
	w.end(syscall.SIGTERM)
}

// TestReadinessIsOfOneStream: a restarted podconfigd has to read its sources again. The readiness and the absent pods
// of the former stream don't count on a new one.
func TestReadinessIsOfOneStream(t *testing.T) {
	w := watch(t, newScript(
		func(s serverStream) error {
			return send(s, errBroken, at(1, op(add, "api", pod("api", "one"))), synced(1, "file", "api"))
		},
		func(s serverStream) error {
			return send(s, errBroken, at(2, op(set, "file")), syncedNotReady(2, "file", "api"))
		},
		func(s serverStream) error {
			return send(s, nil, synced(2, "file", "api"), at(3, op(reconcile, "api", version(pod("api", "one"), "s", "t2"))))
		},
	))
	w.wantLines(
		`{"revision":1,"op":"ADD","source":"api","pod":"default/one","uid":"one"}`,
		`{"synced":["file","api"]}`,
		`{"synced":["file"]}`,
		`{"synced":["file","api"]}`,
		`{"revision":3,"op":"RECONCILE","source":"api","pod":"default/one","uid":"one"}`,
	)
	w.end(syscall.SIGTERM)
}

// TestSourceGone: absent pods of a source that isn't configured any more stay until all configured ones are ready.
func TestSourceGone(t *testing.T) {
	w := watch(t, newScript(
		func(s serverStream) error {
			return send(s, errBroken, at(1, op(add, "file:old", pod("file:old", "one"))), synced(1, "file:old"))
		},
		func(s serverStream) error {
			return send(s, nil, at(2, op(set, "file")), syncedNotReady(2, "file", "api"), heartbeat("file", "api"))
		},
	))
	w.wantLines(
		`{"revision":1,"op":"ADD","source":"file:old","pod":"default/one","uid":"one"}`,
		`{"synced":["file:old"]}`,
		`{"synced":["file"]}`,
		`{"revision":2,"op":"REMOVE","source":"file:old","pod":"default/one","uid":"one"}`,
	)
	w.end(syscall.SIGTERM)
}

// TestOlderServer: a podconfigd without snapshots gets a request for changes again.
func TestOlderServer(t *testing.T) {
	w := watch(t, newScript(
		func(s serverStream) error { return send(s, nil, at(1, op(99, "file"))) },
		func(serverStream) error { return status.Error(codes.Unimplemented, "no snapshots") },
		func(s serverStream) error { return send(s, nil, synced(1, "file")) },
	))
	w.wantLines(`{"synced":["file"]}`)
	w.wantRequest(incremental, nil)
	w.wantRequest(snapshot, nil)
	w.wantRequest(incremental, nil)
	w.end(syscall.SIGTERM)
}

// TestAway: without a podconfigd the watcher waits, and can be ended.
func TestAway(t *testing.T) {
	s := newScript(func(s serverStream) error { return send(s, nil, synced(1, "file")) })
	w := watch(t, s)
	w.wantLines(`{"synced":["file"]}`)
	w.stopServer()
	w.wantLog("no stream, trying again")
	w.end(os.Interrupt)
}

// TestRefused: after INVALID_ARGUMENT the watcher prints the reason, and ends.
func TestRefused(t *testing.T) {
	w := watch(t, newScript(func(serverStream) error { return status.Error(codes.InvalidArgument, "no such consumer") }))
	w.wantLog("no such consumer")
	w.wantExit(1)
}

func TestWrongArgument(t *testing.T) {
	w := run(t, "tcp://127.0.0.1:1")
	w.wantLog("want: node watch.mjs")
	w.wantExit(2)
}
