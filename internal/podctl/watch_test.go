package podctl

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	opSet     = podconfigv1.PodOperation_POD_OPERATION_SET
	opAdd     = podconfigv1.PodOperation_POD_OPERATION_ADD
	opDelete  = podconfigv1.PodOperation_POD_OPERATION_DELETE
	opRemove  = podconfigv1.PodOperation_POD_OPERATION_REMOVE
	opUpdate  = podconfigv1.PodOperation_POD_OPERATION_UPDATE
	opRestore = podconfigv1.PodOperation_POD_OPERATION_RESTORE
)

type message = podconfigv1.WatchPodUpdatesResponse

// op is a message of one op of the source file; revision 0 means that more of the revision follows.
func op(revision uint64, operation podconfigv1.PodOperation, pods ...*podconfigv1.Pod) *message {
	return sourceOp(revision, operation, "file", true, pods...)
}

func sourceOp(revision uint64, operation podconfigv1.PodOperation, source string, ready bool, pods ...*podconfigv1.Pod) *message {
	return &message{
		Event: &podconfigv1.WatchPodUpdatesResponse_Update{Update: &podconfigv1.PodUpdate{
			Op: operation, Source: source, SourceReady: ready, Pods: pods,
		}},
		Continued: revision == 0, Cursor: cursorAt(revision),
	}
}

func cursorAt(revision uint64) *podconfigv1.Cursor {
	if revision == 0 {
		return nil
	}
	return &podconfigv1.Cursor{InstanceId: "one", Revision: revision, View: "all"}
}

// syncedAt is the end of the initial state, with file ready and api not.
func syncedAt(revision uint64) *message {
	return &message{
		Event:  &podconfigv1.WatchPodUpdatesResponse_Synced{Synced: &podconfigv1.Synced{Sources: fileReady()}},
		Cursor: cursorAt(revision),
	}
}

func fileReady() []*podconfigv1.SourceReadiness {
	return []*podconfigv1.SourceReadiness{{Name: "file", Ready: true}, {Name: "api"}}
}

func heartbeatAt(revision uint64) *message {
	return &message{Event: &podconfigv1.WatchPodUpdatesResponse_Heartbeat{Heartbeat: &podconfigv1.Heartbeat{
		Revision: revision, Sources: fileReady(), StoreState: podconfigv1.StoreState_STORE_STATE_TEMPORARY,
	}}}
}

func jsonPod(t *testing.T, source, namespace, name string) *podconfigv1.Pod {
	t.Helper()
	content, err := structpb.NewStruct(map[string]any{
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": "sample:<dev>"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := podctltest.Ref(source, namespace, name)
	p.Content = &podconfigv1.Pod_Json{Json: content}
	return p
}

// A whole stream in a table: fragments of one op, ops of one revision, a source that becomes ready.
func TestWatchTable(t *testing.T) {
	many := podctltest.Pod("default", "many")
	for _, name := range []string{"log", "proxy", "cron"} {
		many.Spec.Containers = append(many.Spec.Containers, many.Spec.Containers[0])
		many.Spec.Containers[len(many.Spec.Containers)-1].Name = name
	}
	script := []*message{
		op(0, opAdd, podctltest.Desired(t, "file", podctltest.Pod("default", "web-node1"))),
		op(0, opAdd, podctltest.Desired(t, "file", many)),
		sourceOp(0, opRestore, "api", false, jsonPod(t, "api", "kube-system", "proxy")),
		syncedAt(4),
		heartbeatAt(4),
		op(0, opRemove, podctltest.Ref("file", "default", "web-node1")),
		op(5, opAdd, podctltest.Desired(t, "file", podctltest.Pod("default", "web-node2"))),
		op(6, opUpdate, &podconfigv1.Pod{Ref: podctltest.Ref("file", "default", "many").Ref, Source: "file",
			Content: &podconfigv1.Pod_Protobuf{Protobuf: []byte("not a pod")}}),
		sourceOp(7, opAdd, "api", true),
		sourceOp(8, opDelete, "api", true, podctltest.Ref("api", "kube-system", "proxy")),
		sourceOp(9, opAdd, "http", true),
		op(10, opSet),
	}
	for _, output := range []string{"table", "wide"} {
		t.Run(output, func(t *testing.T) {
			n := newNode(t)
			requests := make(chan *podconfigv1.WatchPodUpdatesRequest, 1)
			n.podconfigd(&fakePodconfigd{scripts: [][]*message{script}, requests: requests})
			interrupt := n.start("watch", "-o", output, "--heartbeats", "--heartbeat-interval=2s")
			n.stdout.await(t, "SET ")
			if code := interrupt(); code != exitOK {
				t.Errorf("exit code %d after Ctrl-C", code)
			}
			n.golden("watch."+output, n.stdout.String())
			req := <-requests
			if req.GetConsumer() != "podctl@node1" || req.GetFormat() != podconfigv1.PodFormat_POD_FORMAT_PROTOBUF ||
				req.GetHeartbeatInterval().AsDuration() != 2*time.Second || req.GetResumeAfter() != nil {
				t.Errorf("request: %v", req)
			}
		})
	}
}

func TestWatchDocuments(t *testing.T) {
	script := []*message{
		op(0, opAdd, jsonPod(t, "file", "default", "web-node1")),
		op(0, opAdd, jsonPod(t, "file", "default", "web-node2")),
		syncedAt(4),
		heartbeatAt(4),
		op(0, opRemove, podctltest.Ref("file", "default", "web-node1")),
		sourceOp(5, opAdd, "api", true),
	}
	for _, output := range []string{"json", "yaml"} {
		t.Run(output, func(t *testing.T) {
			n := newNode(t)
			requests := make(chan *podconfigv1.WatchPodUpdatesRequest, 1)
			n.podconfigd(&fakePodconfigd{scripts: [][]*message{script}, requests: requests})
			interrupt := n.start("watch", "-o", output, "--heartbeats")
			// Ops are printed in the order of the stream, the parts of the last one in that of their fields' numbers
			// or names.
			n.stdout.await(t, map[string]string{"json": `"source":"api","pods":[],"sourceReady":true}}` + "\n", "yaml": "source: api\n  sourceReady: true\n"}[output])
			interrupt()
			n.golden("watch."+output, n.stdout.String())
			if got := (<-requests).GetFormat(); got != podconfigv1.PodFormat_POD_FORMAT_JSON {
				t.Errorf("asked for %s", got)
			}
		})
	}
}

func TestWatchFormatFlag(t *testing.T) {
	n := newNode(t)
	requests := make(chan *podconfigv1.WatchPodUpdatesRequest, 1)
	n.podconfigd(&fakePodconfigd{requests: requests})
	n.start("watch", "--format=reference")
	if got := (<-requests).GetFormat(); got != podconfigv1.PodFormat_POD_FORMAT_REFERENCE {
		t.Errorf("asked for %s", got)
	}
}

// Printed ops are not printed again, an incomplete revision is dropped (G4), and the request lists the held pods (G3,
// G7).
func TestWatchReconnects(t *testing.T) {
	n := newNode(t)
	requests := make(chan *podconfigv1.WatchPodUpdatesRequest, 1)
	web := podctltest.Desired(t, "file", podctltest.Pod("default", "web"))
	db := podctltest.Desired(t, "file", podctltest.Pod("default", "db"))
	gone := podctltest.Desired(t, "file", podctltest.Pod("default", "gone"))
	stop := n.podconfigd(&fakePodconfigd{requests: requests, scripts: [][]*message{{
		op(0, opAdd, web, db, gone), syncedAt(4),
		op(5, opRemove, podctltest.Ref("file", "default", "gone")),
		op(0, opUpdate, web), // revision 6 is cut off here
	}}})
	interrupt := n.start("watch")
	<-requests
	n.stdout.await(t, "REMOVE")
	stop()
	n.stderr.await(t, "reconnecting")

	n.podconfigd(&fakePodconfigd{requests: requests, scripts: [][]*message{{
		syncedAt(5), // nothing was missed: not worth a line
		op(6, opUpdate, db),
	}}})
	want := &podconfigv1.WatchPodUpdatesRequest{
		Consumer: "podctl@node1", Mode: podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL,
		Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, ResumeAfter: cursorAt(5), HeartbeatInterval: durationpb.New(10 * time.Second),
		KnownPods: []*podconfigv1.KnownPod{
			{Uid: podctltest.UID("db"), Source: "file", Namespace: "default", Name: "db", SpecDigest: "sha256:spec-db", StatusDigest: "sha256:status-db"},
			{Uid: podctltest.UID("web"), Source: "file", Namespace: "default", Name: "web", SpecDigest: "sha256:spec-web", StatusDigest: "sha256:status-web"},
		},
	}
	if diff := cmp.Diff(want, <-requests, protocmp.Transform()); diff != "" {
		t.Errorf("resumption (-want +got):\n%s", diff)
	}
	n.stdout.await(t, "UPDATE")
	if code := interrupt(); code != exitOK {
		t.Errorf("exit code %d after Ctrl-C", code)
	}
	n.golden("watch-reconnect.table", n.stdout.String())
	lines := strings.Split(strings.TrimSpace(n.stderr.String()), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], "lost podconfigd at unix://"+n.socket("podconfigd")) ||
		!strings.Contains(lines[0], "reconnecting to resume after revision 5") || lines[1] != "podctl: connected to podconfigd again" ||
		lines[2] != "podctl: to resume from here: podctl watch --resume one/6/all" {
		t.Errorf("stderr:\n%s", n.stderr)
	}
}

// A source that isn't ready any more after a reconnection gets a line.
func TestWatchReconnectShowsReadiness(t *testing.T) {
	for _, end := range []error{status.Error(codes.ResourceExhausted, "too many streams"), io.EOF} {
		n := newNode(t)
		unready := syncedAt(4)
		unready.GetSynced().Sources = []*podconfigv1.SourceReadiness{{Name: "file"}, {Name: "api"}}
		n.podconfigd(&fakePodconfigd{scripts: [][]*message{{syncedAt(4)}, {syncedAt(4)}, {unready}}, watchErr: end})
		n.start("watch")
		n.stdout.await(t, "not ready: file, api")
		if got := strings.Count(n.stdout.String(), "SYNCED"); got != 2 {
			t.Errorf("%v: %d SYNCED lines, want 2:\n%s", end, got, n.stdout)
		}
	}
}

// Ctrl-C while podconfigd isn't running.
func TestWatchInterruptedWhileAway(t *testing.T) {
	n := newNode(t)
	stop := n.podconfigd(&fakePodconfigd{scripts: [][]*message{{syncedAt(4)}}})
	interrupt := n.start("watch")
	n.stdout.await(t, "SYNCED")
	stop()
	n.stderr.await(t, "reconnecting")
	if code := interrupt(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if got := n.stderr.String(); strings.Count(got, "\n") != 2 || strings.Count(got, "reconnecting") != 1 {
		t.Errorf("one break makes one line, before that of where to go on, not:\n%s", n.stderr)
	}
}

// After an unknown op, watch subscribes for snapshots.
func TestWatchUnknownOperation(t *testing.T) {
	n := newNode(t)
	requests := make(chan *podconfigv1.WatchPodUpdatesRequest, 2)
	web := podctltest.Desired(t, "file", podctltest.Pod("default", "web"))
	n.podconfigd(&fakePodconfigd{requests: requests, scripts: [][]*message{
		{op(0, opAdd, web), syncedAt(4), op(5, podconfigv1.PodOperation(99), web)},
		{op(5, opSet, web), op(6, podconfigv1.PodOperation(99), web)},
	}})
	// Where even snapshots bring it there is nothing left to try.
	if code := n.run(t.Context(), "watch"); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	<-requests
	again := <-requests
	if again.GetMode() != podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT || again.GetResumeAfter().GetRevision() != 4 {
		t.Errorf("second request: %v", again)
	}
	n.stdout.await(t, "SET ")
	n.golden("watch-unknown.stderr", n.stderr.String())
}

func TestWatchGivesUp(t *testing.T) {
	for _, code := range []codes.Code{codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented} {
		n := newNode(t)
		n.podconfigd(&fakePodconfigd{
			scripts:  [][]*message{{syncedAt(4)}},
			watchErr: status.Error(code, "no more\nof this"),
		})
		if exit := n.run(t.Context(), "watch"); exit != exitFailed {
			t.Errorf("%s: exit code %d", code, exit)
		}
		if got := n.stderr.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `no more\nof this`) {
			t.Errorf("%s: stderr:\n%s", code, got)
		}
	}
}
