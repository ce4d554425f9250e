package podconfigd

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/access"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// running is podconfigd with one directory for everything: state, manifests and socket.
type running struct {
	t    *testing.T
	api  podconfigv1.PodConfigServiceClient
	stop func()
}

// launch runs podconfigd as it is shipped until stop is called, or the test ends. It reads the manifests in dir.
func launch(t *testing.T, dir string, stderr io.Writer, args ...string) *running {
	t.Helper()
	return launchWith(t, dir, stderr, append([]string{"--pod-manifest-path", filepath.Join(dir, "manifests")}, args...)...)
}

// launchWith leaves it to the arguments which sources there are.
func launchWith(t *testing.T, dir string, stderr io.Writer, args ...string) *running {
	t.Helper()
	socket := "unix://" + filepath.Join(dir, "s")
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int, 1)
	args = append([]string{
		"--root-dir", filepath.Join(dir, "root"), "--listen", socket, "--hostname-override", "node",
	}, args...)
	go func() { code <- Program().Run(ctx, args, t.Output(), stderr) }()
	r := &running{t: t, api: dial(t, dir)}
	ended := false
	r.stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if got := <-code; got != 0 {
			t.Errorf("podconfigd ends with code %d; want 0", got)
		}
	}
	t.Cleanup(r.stop)
	return r
}

// dial connects to the podconfigd in dir, once it is there, until the test ends.
func dial(t *testing.T, dir string) podconfigv1.PodConfigServiceClient {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+filepath.Join(dir, "s"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)), grpc.WithDefaultServiceConfig(tryAgain),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 5 * time.Millisecond, MaxDelay: 5 * time.Millisecond},
			MinConnectTimeout: 5 * time.Second,
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return podconfigv1.NewPodConfigServiceClient(conn)
}

// tryAgain has a call whose connection breaks before the first answer made again, as every consumer does.
const tryAgain = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.01s", "maxBackoff": "0.1s",
	"backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`

// shortDir is short enough for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Mkdir(filepath.Join(dir, "manifests"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func writeManifest(t *testing.T, dir, name, image string) {
	t.Helper()
	text := "{apiVersion: v1, kind: Pod, metadata: {name: " + name + "}, spec: {containers: [{name: main, image: " + image + "}]}}"
	path := filepath.Join(dir, "manifests", name+".yaml")
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// watch is a stream of references after the cursor, which may be nil.
func (r *running) watch(cursor *podconfigv1.Cursor) podconfigv1.PodConfigService_WatchPodUpdatesClient {
	r.t.Helper()
	s, err := r.api.WatchPodUpdates(r.t.Context(), &podconfigv1.WatchPodUpdatesRequest{
		Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE, ResumeAfter: cursor,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func recv(t *testing.T, s podconfigv1.PodConfigService_WatchPodUpdatesClient) *podconfigv1.WatchPodUpdatesResponse {
	t.Helper()
	m, err := s.Recv()
	if err != nil {
		t.Fatalf("the stream ended with %v; want another message", err)
	}
	return m
}

// untilReady reads up to the message that makes file ready, and returns its cursor and the ops on the way, synced
// left out.
func untilReady(t *testing.T, s podconfigv1.PodConfigService_WatchPodUpdatesClient) (cursor *podconfigv1.Cursor, ops []string) {
	t.Helper()
	ready, synced, whole := false, false, false
	for !ready || !synced || !whole {
		m := recv(t, s)
		whole = !m.GetContinued()
		if m.GetCursor() != nil {
			cursor = m.GetCursor()
		}
		if sources := m.GetSynced().GetSources(); sources != nil {
			synced, ready = true, ready || sources[0].GetReady()
			continue
		}
		if ready = ready || m.GetUpdate().GetSourceReady(); m.GetUpdate() == nil {
			continue
		}
		op := strings.TrimPrefix(m.GetUpdate().GetOp().String(), "POD_OPERATION_")
		for _, p := range m.GetUpdate().GetPods() {
			op += " " + p.GetRef().GetName()
		}
		ops = append(ops, op)
	}
	return cursor, ops
}

// TestG6DaemonRestart: podconfigd is stopped and started again in its root directory: a consumer that resumes gets
// only the changes of its files, under the same instance ID.
func TestG6DaemonRestart(t *testing.T) {
	dir := shortDir(t)
	writeManifest(t, dir, "web", "one")
	writeManifest(t, dir, "db", "one")
	first := launch(t, dir, t.Output())
	s := first.watch(nil)
	cursor, _ := untilReady(t, s)
	first.stop()

	second := launch(t, dir, t.Output())
	again, ops := untilReady(t, second.watch(cursor))
	if got := strings.Join(ops, ", "); got != "ADD" || again.GetInstanceId() != cursor.GetInstanceId() || again.GetRevision() != cursor.GetRevision()+1 {
		t.Errorf("after a restart with the same files came %q, up to %v; want the empty ADD only, one revision after %v", got, again, cursor)
	}
	second.stop()

	if err := os.Remove(filepath.Join(dir, "manifests", "db.yaml")); err != nil {
		t.Fatal(err)
	}
	writeManifest(t, dir, "new", "one")
	third := launch(t, dir, t.Output())
	if _, ops := untilReady(t, third.watch(again)); strings.Join(ops, ", ") != "REMOVE db-node, ADD new-node" {
		t.Errorf("after a restart with other files came %q; want that db is gone and new is new", ops)
	}
}

// TestG6DaemonDamagedStore: podconfigd starts with a damaged store, and logs it.
func TestG6DaemonDamagedStore(t *testing.T) {
	dir := shortDir(t)
	writeManifest(t, dir, "web", "one")
	first := launch(t, dir, t.Output())
	cursor, _ := untilReady(t, first.watch(nil))
	first.stop()
	if err := os.WriteFile(filepath.Join(dir, "root", storeFile), bytes.Repeat([]byte("damage"), 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	second := launch(t, dir, &log)
	again, ops := untilReady(t, second.watch(nil))
	if again.GetInstanceId() == cursor.GetInstanceId() || strings.Join(ops, ", ") != "ADD web-node" {
		t.Errorf("with a damaged store came %q, up to %v; want the pod, under another instance id", ops, again)
	}
	second.stop()
	if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "set aside") {
		t.Errorf("the log doesn't tell of the damage:\n%s", log.String())
	}
}

// TestDaemonDiff: a diff reads manifests as the file source would, with the daemon's node name.
func TestDaemonDiff(t *testing.T) {
	dir := shortDir(t)
	writeManifest(t, dir, "web", "one")
	r := launch(t, dir, t.Output())
	untilReady(t, r.watch(nil))
	path := filepath.Join(dir, "manifests", "web.yaml")
	same, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]int{string(same): 0, strings.Replace(string(same), "one", "two", 1): 2} {
		resp, err := r.api.DiffManifests(t.Context(), &podconfigv1.DiffManifestsRequest{
			Manifests: []*podconfigv1.ManifestInput{{Origin: path, Content: []byte(content)}},
		})
		if err != nil || len(resp.GetUpdates()) != want {
			t.Errorf("DiffManifests of %s: %v, %v; want %d ops", content, resp, err, want)
		}
	}
}

// TestMaxConsumersFlag: --max-consumers is how many streams are served.
func TestMaxConsumersFlag(t *testing.T) {
	dir := shortDir(t)
	r := launch(t, dir, t.Output(), "--max-consumers=1")
	recv(t, r.watch(nil))
	_, err := r.watch(nil).Recv()
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the second of one stream: %v; want ResourceExhausted", err)
	}
	if _, err := parse([]string{"--max-consumers=0"}, t.Output(), nil); err == nil {
		t.Error("--max-consumers=0 is taken; want an error")
	}
}

// TestMinimumRole: each RPC has its minimum role: deployer for those that return only a deployer's own pods to it, consumer for
// those that return unredacted pods, or change what others see.
func TestMinimumRole(t *testing.T) {
	want := map[string]access.Role{
		"WatchPodUpdates": access.Inspector, "ListPods": access.Deployer, "GetPod": access.Deployer, "ListSources": access.Deployer,
		"ApplyManifests": access.Deployer, "DeleteManifests": access.Deployer, "ListManifests": access.Deployer,
		"ListConsumers": access.Inspector, "ReportApplied": access.Consumer, "WatchObjects": access.Consumer, "DiffManifests": access.Consumer,
		"GetVersion": access.Deployer, "AcceptSource": access.Operator, "GetProfile": access.Operator,
	}
	var names []string
	for _, m := range podconfigv1.PodConfigService_ServiceDesc.Methods {
		names = append(names, m.MethodName)
	}
	for _, s := range podconfigv1.PodConfigService_ServiceDesc.Streams {
		names = append(names, s.StreamName)
	}
	for _, name := range names {
		role, ok := want[name]
		if got := minimumRole("/podconfig.v1.PodConfigService/" + name); !ok || got != role {
			t.Errorf("%s takes the role %v; want %v", name, got, role)
		}
	}
}
