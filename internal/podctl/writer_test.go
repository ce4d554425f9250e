package podctl

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/podconfigd"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// writer is a node with a podconfigd that takes writes, and reads the manifests in manifests/.
type writer struct{ *node }

func newWriter(t *testing.T) *writer {
	t.Helper()
	w := &writer{node: newNode(t)}
	w.mkdir("manifests")
	w.launch("--applied")
	return w
}

// launch runs podconfigd until the test ends, or stop is called.
func (w *writer) launch(flags ...string) (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int, 1)
	args := append([]string{
		"--root-dir", w.path("root"), "--listen", "unix://" + w.socket("podconfigd"), "--hostname-override", "node1",
		"--pod-manifest-path", w.path("manifests"),
	}, flags...)
	go func() { code <- podconfigd.Program().Run(ctx, args, w.t.Output(), w.t.Output()) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if got := <-code; got != 0 {
			w.t.Errorf("podconfigd ends with %d", got)
		}
	})
	w.t.Cleanup(stop)
	w.until(func() bool {
		return strings.Contains(w.podctl("sources"), " true ") && !strings.Contains(w.podctl("sources"), " false ")
	})
	return stop
}

// until waits for a state of podconfigd that comes by itself: it is checked after each message of the stream.
func (w *writer) until(reached func() bool) {
	w.t.Helper()
	conn, err := grpc.NewClient("unix://"+w.socket("podconfigd"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 5 * time.Millisecond, MaxDelay: 5 * time.Millisecond}, MinConnectTimeout: 5 * time.Second,
		}))
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	stream, err := podconfigv1.NewPodConfigServiceClient(conn).WatchPodUpdates(ctx, &podconfigv1.WatchPodUpdatesRequest{
		Consumer: "until", Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE, HeartbeatInterval: durationpb.New(time.Second),
	})
	for err == nil && !reached() {
		_, err = stream.Recv()
	}
	if err != nil {
		w.t.Fatalf("the state isn't reached: %v; podctl pods prints %q", err, w.podctl("pods"))
	}
}

func (w *writer) path(name string) string { return filepath.Join(w.dir, name) }

func (w *writer) mkdir(name string) {
	w.t.Helper()
	if err := os.MkdirAll(w.path(name), 0o700); err != nil {
		w.t.Fatal(err)
	}
}

// file writes a file, and returns its path.
func (w *writer) file(name, text string) string {
	w.t.Helper()
	w.mkdir(filepath.Dir(name))
	path := w.path(name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// podctl runs podctl, and returns its output and, if it isn't zero, its exit code. The directory's name is "D" in it.
func (w *writer) podctl(args ...string) string {
	w.t.Helper()
	var out, errors strings.Builder
	code := Run(w.t.Context(), Config{
		Args:  append([]string{"--podconfig-endpoint=unix://" + w.socket("podconfigd"), "--podexec-endpoint=unix://" + w.socket("podexecd")}, args...),
		Stdin: strings.NewReader(w.stdin), Stdout: &out, Stderr: &errors, Clock: noonClock{}, Version: "v1.2.3",
		Getenv: w.getenv,
	})
	text := out.String() + errors.String()
	if code != exitOK {
		text += fmt.Sprintf("exit code %d\n", code)
	}
	return strings.ReplaceAll(text, w.dir, "D")
}

// want runs podctl, and compares all that it prints.
func (w *writer) want(want string, args ...string) {
	w.t.Helper()
	if got := w.podctl(args...); got != want {
		w.t.Errorf("podctl %s prints\n%s\nwant\n%s", strings.ReplaceAll(strings.Join(args, " "), w.dir, "D"), got, want)
	}
}

// wantParts runs podctl, and looks for parts of what it prints.
func (w *writer) wantParts(args []string, parts ...string) {
	w.t.Helper()
	got := w.podctl(args...)
	for _, part := range parts {
		if !strings.Contains(got, part) {
			w.t.Errorf("podctl %s prints\n%s\nwant %q in it", strings.ReplaceAll(strings.Join(args, " "), w.dir, "D"), got, part)
		}
	}
}

func manifestText(name, image string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\nspec:\n  containers:\n  - {name: main, image: %q}\n", name, image)
}

// desired returns the image of the pod that is desired; empty if there is none.
func (w *writer) desired(name string) string {
	w.t.Helper()
	for _, p := range w.listDesired() {
		if p.Name == name+"-node1" {
			return p.Spec.Containers[0].Image
		}
	}
	return ""
}

func (w *writer) listDesired() (out []*corev1.Pod) {
	w.t.Helper()
	t := newTool(Config{Version: "test"})
	if err := t.podconfigd.endpoint.Set("unix://" + w.socket("podconfigd")); err != nil {
		w.t.Fatal(err)
	}
	pods, err := t.listDesired(w.t.Context(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range pods {
		content, err := contentOf(p)
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, content)
	}
	return out
}
