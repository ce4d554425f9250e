package podctl

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// objectPodconfigd serves to each subscription to objects the next of its scripts, and then ends it, but for the last
// one.
type objectPodconfigd struct {
	podconfigv1.UnimplementedPodConfigServiceServer
	mu       sync.Mutex
	scripts  [][]*podconfigv1.WatchObjectsResponse
	requests []*podconfigv1.WatchObjectsRequest
	refuse   error
}

func (f *objectPodconfigd) WatchObjects(
	req *podconfigv1.WatchObjectsRequest, stream grpc.ServerStreamingServer[podconfigv1.WatchObjectsResponse],
) error {
	if f.refuse != nil {
		return f.refuse
	}
	f.mu.Lock()
	f.requests = append(f.requests, req)
	script := f.scripts[0]
	last := len(f.scripts) == 1
	if !last {
		f.scripts = f.scripts[1:]
	}
	f.mu.Unlock()
	for _, m := range script {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	if last {
		<-stream.Context().Done()
	}
	return nil
}

func (n *node) objects(f *objectPodconfigd) {
	n.t.Helper()
	n.serve("podconfigd", func(s *grpc.Server) { podconfigv1.RegisterPodConfigServiceServer(s, f) })
}

func anObject(kind podconfigv1.ObjectKind, name, digest string, content bool) *podconfigv1.Object {
	o := &podconfigv1.Object{Ref: &podconfigv1.ObjectRef{Kind: kind, Source: "file", Namespace: "default", Name: name}}
	if digest != "" {
		o.Digest = "sha256:" + strings.Repeat(digest, 16)
	}
	if content {
		json, err := structpb.NewStruct(map[string]any{"kind": kindText(kind), "data": map[string]any{"a": "aGk=", "b": "\x1b[2J"}})
		if err != nil {
			panic(err)
		}
		o.Content = &podconfigv1.Object_Json{Json: json}
	}
	return o
}

func saidObjects(op podconfigv1.ObjectOperation, revision uint64, objects ...*podconfigv1.Object) *podconfigv1.WatchObjectsResponse {
	m := &podconfigv1.WatchObjectsResponse{
		Event:     &podconfigv1.WatchObjectsResponse_Update{Update: &podconfigv1.ObjectUpdate{Op: op, Objects: objects}},
		Continued: revision == 0,
	}
	if revision > 0 {
		m.Cursor = &podconfigv1.Cursor{InstanceId: "one", Revision: revision, View: "all"}
	}
	return m
}

func syncedObjects(ready bool) *podconfigv1.WatchObjectsResponse {
	return &podconfigv1.WatchObjectsResponse{
		Event: &podconfigv1.WatchObjectsResponse_Synced{Synced: &podconfigv1.Synced{Sources: []*podconfigv1.SourceReadiness{
			{Name: "file", Ready: true}, {Name: "api", Ready: ready},
		}}},
		Cursor: &podconfigv1.Cursor{InstanceId: "one", Revision: 3, View: "all"},
	}
}

const (
	aConfigMap = podconfigv1.ObjectKind_OBJECT_KIND_CONFIG_MAP
	aSecret    = podconfigv1.ObjectKind_OBJECT_KIND_SECRET
)

func exampleObjects(content bool) []*podconfigv1.WatchObjectsResponse {
	return []*podconfigv1.WatchObjectsResponse{
		saidObjects(podconfigv1.ObjectOperation_OBJECT_OPERATION_SET, 0,
			anObject(aConfigMap, "conf", "a1b2", content), anObject(aSecret, "\x1b[2Jevil", "c3d4", content)),
		saidObjects(podconfigv1.ObjectOperation_OBJECT_OPERATION_MISSING, 0, anObject(aSecret, "pass", "", false)),
		syncedObjects(false),
	}
}

func TestObjects(t *testing.T) {
	for _, output := range []string{"table", "wide", "json", "yaml"} {
		t.Run(output, func(t *testing.T) {
			n := newNode(t)
			content := output == "json" || output == "yaml"
			f := &objectPodconfigd{scripts: [][]*podconfigv1.WatchObjectsResponse{exampleObjects(content)}}
			n.objects(f)
			code := n.run(t.Context(), "objects", "-o", output, "-n", "default")
			if code != exitOK || n.stderr.String() != "podctl: source api isn't ready: there may be more objects\n" {
				t.Errorf("exit code %d, stderr:\n%s", code, n.stderr)
			}
			want := map[bool]podconfigv1.PodFormat{
				true: podconfigv1.PodFormat_POD_FORMAT_JSON, false: podconfigv1.PodFormat_POD_FORMAT_REFERENCE,
			}[content]
			if req := f.requests[0]; req.GetFormat() != want || fmt.Sprint(req.GetFilter().GetNamespaces()) != "[default]" {
				t.Errorf("the request is %v; want the format %v and the namespace", req, want)
			}
			n.golden("objects."+output, n.stdout.String())
		})
	}
}

func TestObjectsNone(t *testing.T) {
	n := newNode(t)
	n.objects(&objectPodconfigd{scripts: [][]*podconfigv1.WatchObjectsResponse{{
		saidObjects(podconfigv1.ObjectOperation_OBJECT_OPERATION_SET, 0), syncedObjects(true),
	}}})
	code := n.run(t.Context(), "objects")
	if want := "podctl: no pod refers to a ConfigMap or Secret that podconfigd knows\n"; code != exitOK || n.stderr.String() != want {
		t.Errorf("exit code %d, stderr:\n%s", code, n.stderr)
	}
}

// TestObjectsWatch: after a break the watch resumes from its cursor and its held objects.
func TestObjectsWatch(t *testing.T) {
	n := newNode(t)
	f := &objectPodconfigd{scripts: [][]*podconfigv1.WatchObjectsResponse{
		append(exampleObjects(false), saidObjects(podconfigv1.ObjectOperation_OBJECT_OPERATION_PUT, 4, anObject(aSecret, "pass", "e5f6", false)),
			saidObjects(podconfigv1.ObjectOperation_OBJECT_OPERATION_REMOVE, 5, anObject(aConfigMap, "conf", "", false)),
			// What isn't complete is dropped.
			saidObjects(podconfigv1.ObjectOperation_OBJECT_OPERATION_REMOVE, 0, anObject(aSecret, "pass", "", false))),
		{saidObjects(podconfigv1.ObjectOperation_OBJECT_OPERATION_MISSING, 6, anObject(aSecret, "pass", "", false)),
			saidObjects(podconfigv1.ObjectOperation_OBJECT_OPERATION_PUT, 7, anObject(aSecret, "the-last", "a7b8", false))},
	}}
	n.objects(f)
	interrupt := n.start("objects", "--watch")
	n.stdout.await(t, "the-last")
	if code := interrupt(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	n.golden("objects-watch.table", n.stdout.String())
	req := f.requests[1]
	if len(f.requests) != 2 || req.GetResumeAfter().GetRevision() != 5 || len(req.GetKnownObjects()) != 2 {
		t.Errorf("the second request is %v; want revision 5 and two known objects", req)
	}
}

// TestObjectsWatchSet: the changes of a SET are printed: an object that it lacks is removed once its source is ready.
func TestObjectsWatchSet(t *testing.T) {
	n := newNode(t)
	heartbeat := &podconfigv1.WatchObjectsResponse{Event: &podconfigv1.WatchObjectsResponse_Heartbeat{Heartbeat: &podconfigv1.Heartbeat{
		Sources: syncedObjects(true).GetSynced().GetSources(),
	}}}
	ofAPI := anObject(aSecret, "of-api", "d4e5", false)
	ofAPI.Ref.Source = "api"
	f := &objectPodconfigd{scripts: [][]*podconfigv1.WatchObjectsResponse{
		append(exampleObjects(false), saidObjects(podconfigv1.ObjectOperation_OBJECT_OPERATION_PUT, 4, ofAPI)),
		{saidObjects(podconfigv1.ObjectOperation_OBJECT_OPERATION_SET, 0, anObject(aConfigMap, "conf", "a1b2", false)),
			saidObjects(podconfigv1.ObjectOperation_OBJECT_OPERATION_MISSING, 0, anObject(aSecret, "pass", "", false)),
			syncedObjects(false), heartbeat,
			saidObjects(podconfigv1.ObjectOperation_OBJECT_OPERATION_PUT, 7, anObject(aSecret, "the-last", "a7b8", false))},
	}}
	n.objects(f)
	interrupt := n.start("objects", "--watch")
	n.stdout.await(t, "the-last")
	if code := interrupt(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	n.golden("objects-watch-set.table", n.stdout.String())
}

// TestObjectsWatchUnknown: after an unknown operation everything is requested again.
func TestObjectsWatchUnknown(t *testing.T) {
	n := newNode(t)
	f := &objectPodconfigd{scripts: [][]*podconfigv1.WatchObjectsResponse{
		append(exampleObjects(false), saidObjects(99, 4, anObject(aSecret, "pass", "e5f6", false))),
		{saidObjects(podconfigv1.ObjectOperation_OBJECT_OPERATION_SET, 0, anObject(aSecret, "pass", "e5f6", false)), syncedObjects(true)},
	}}
	n.objects(f)
	interrupt := n.start("objects", "--watch")
	n.stdout.await(t, "e5f6")
	interrupt()
	if req := f.requests[1]; req.GetResumeAfter() != nil || len(req.GetKnownObjects()) > 0 || !strings.Contains(n.stderr.String(), "unknown operation: 99") {
		t.Errorf("the second request is %v, and stderr\n%s", req, n.stderr)
	}
}

func TestObjectsRefused(t *testing.T) {
	for _, args := range [][]string{{"objects"}, {"objects", "--watch"}} {
		n := newNode(t)
		n.objects(&objectPodconfigd{refuse: status.Error(codes.PermissionDenied, "role inspector may not watch objects")})
		if code := n.run(context.Background(), args...); code != exitFailed || !strings.Contains(n.stderr.String(), "role inspector") {
			t.Errorf("%v: exit code %d, stderr:\n%s", args, code, n.stderr)
		}
	}
}
