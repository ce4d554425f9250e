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
	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/podconfigd"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// writer is a node with a podconfigd that takes writes, and reads the manifests in manifests/.
type writer struct {
	*node
	// editor is $EDITOR, and stdin the standard input.
	editor, stdin string
}

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

// until waits for a state that comes by itself.
func (w *writer) until(reached func() bool) {
	w.t.Helper()
	for late := time.Now().Add(time.Minute); !reached(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			w.t.Fatalf("the state isn't reached; podctl pods prints %q", w.podctl("pods"))
		}
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
		Getenv: func(name string) string { return map[string]string{"EDITOR": w.editor}[name] },
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

// TestApply: root writes pods with podctl to a podconfigd, changes them, prunes them and removes them.
func TestApply(t *testing.T) {
	w := newWriter(t)
	conf := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\n"
	f := w.file("web.yaml", manifestText("web", "v1")+"---\n"+conf)
	w.want("pod/web created (dry run)\nconfigmap/conf created (dry run)\n", "apply", "-f", f, "--dry-run")
	if got := w.desired("web"); got != "" {
		t.Errorf("after the dry run, the pod has the image %q", got)
	}
	w.want("pod/web created\nconfigmap/conf created\n", "apply", "-f", f)
	w.want("pod/web unchanged\nconfigmap/conf unchanged\n", "apply", "-f", f)
	if got := w.desired("web"); got != "v1" {
		t.Errorf("the pod has the image %q; want v1", got)
	}
	f = w.file("web.yaml", manifestText("web", "v2"))
	w.wantParts([]string{"apply", "-f", f, "--diff", "--dry-run=server"}, "pod default/web-node1 restarts", "-  - image: v1", "+  - image: v2", "pod/web configured (dry run)\n")
	w.want("pod/web configured\nconfigmap/conf pruned\n", "apply", "-f", f, "--prune")
	w.wantParts([]string{"apply", "-f", f, "-o", "json"}, `"action": "MANIFEST_ACTION_UNCHANGED"`, `"revision": `)
	w.want("pod/web pruned\n", "apply", "--prune", "--allow-empty")
	w.want("pod/web created\n", "apply", "-f", f, "--set", "two")
	w.stdin = manifestText("in", "v1")
	w.want("pod/in created\n", "apply", "-f", "-")
	w.want("pod/in deleted\npod/web deleted\n", "delete", "in", "pod/web")
	if pods := w.listDesired(); len(pods) > 0 {
		t.Errorf("left are %v", pods)
	}
}

// TestApplyFails: a write that is refused says why, with a line for each problem, and changes nothing.
func TestApplyFails(t *testing.T) {
	w := newWriter(t)
	w.file("manifests/file.yaml", "# mine\n"+manifestText("file", "v1"))
	w.until(func() bool { return w.desired("file") == "v1" })
	for _, tc := range []struct {
		text, want string
		args       []string
	}{
		{"{\n---\n" + manifestText("../x", "v1"), "podctl: D/f.yaml:1: line 1: ", nil},
		{"{\n---\n" + manifestText("../x", "v1"), "\npodctl: D/f.yaml:3: metadata.name: ", nil},
		{manifestText("new", "v1") + "---\n" + manifestText("file", "v2"),
			"podctl: D/f.yaml:9: pod default/file is taken by the pod of D/manifests/file.yaml:2 (source file); remove it there first\nexit code 1\n", nil},
		{"", "podctl: D/f.yaml:1: it has no document\nexit code 1\n", nil},
		{manifestText("new", "v1"), `set: "No" isn't the name of a set`, []string{"--set", "No"}},
	} {
		f := w.file("f.yaml", tc.text)
		w.wantParts(append([]string{"apply", "-f", f}, tc.args...), tc.want)
	}
	w.want("podctl: stat D/none: no such file or directory\nexit code 1\n", "apply", "-f", w.path("none"))
	w.want("podctl: pod default/file-node1 is from D/manifests/file.yaml:2 (source file); remove it there\nexit code 1\n", "delete", "file")
	w.want("podctl: there is no applied pod default/none\nexit code 1\n", "delete", "none")
	w.want("pod/none not found\n", "delete", "none", "--ignore-not-found")
	if pods := w.listDesired(); len(pods) != 1 || pods[0].Name != "file-node1" {
		t.Errorf("the pods are %v; want the file's only", pods)
	}
}

// TestApplyDirectories: of a directory the manifests are read, with -R also those below it; no hidden ones, and no link to a
// directory is followed.
func TestApplyDirectories(t *testing.T) {
	w := newWriter(t)
	w.file("d/a.yaml", manifestText("a", "v1"))
	w.file("d/b.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"},"spec":{"containers":[{"name":"main","image":"v1"}]}}`)
	w.file("d/c.txt", "no manifest")
	w.file("d/.hidden.yaml", "no manifest")
	w.file("d/.git/x.yaml", "no manifest")
	w.file("d/below/c.yml", manifestText("c", "v1"))
	w.file("elsewhere/d.yaml", manifestText("d", "v1"))
	if err := os.Symlink(w.path("elsewhere"), w.path("d/link")); err != nil {
		t.Fatal(err)
	}
	w.want("pod/a created\npod/b created\n", "apply", "-f", w.path("d"))
	w.want("pod/a unchanged\npod/b unchanged\npod/c created\n", "apply", "-R", "-f", w.path("d"))
	w.want("pod/a deleted\npod/b deleted\npod/c deleted\n", "delete", "-R", "-f", w.path("d"))
	w.mkdir("empty")
	w.want("podctl: D/empty has no .yaml, .yml or .json files\nexit code 1\n", "apply", "-f", w.path("empty"))
	w.want("podctl: D/empty and the directories in it have no .yaml, .yml or .json files\nexit code 1\n", "apply", "-R", "-f", w.path("empty"))
}

// TestDeleteNames: documents are named as kubectl names them.
func TestDeleteNames(t *testing.T) {
	w := newWriter(t)
	all := manifestText("a", "v1") + "---\n" + manifestText("b", "v1") + "---\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: c}\n---\n" +
		"kind: Secret\napiVersion: v1\nmetadata: {name: s, namespace: shop}\n"
	f := w.file("all.yaml", all)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"a", "b"}, "pod/a deleted\npod/b deleted\n"},
		{[]string{"pod", "a", "b"}, "pod/a deleted\npod/b deleted\n"},
		{[]string{"pod/a", "configmap/c"}, "pod/a deleted\nconfigmap/c deleted\n"},
		{[]string{"cm", "c"}, "configmap/c deleted\n"},
		{[]string{"a-node1"}, "pod/a deleted\n"},
		{[]string{"secret/s", "-n", "shop"}, "secret/s deleted\n"},
		{[]string{"-f", f}, "pod/a deleted\npod/b deleted\nconfigmap/c deleted\nsecret/s deleted\n"},
		{[]string{"a", "--dry-run"}, "pod/a deleted (dry run)\n"},
		{[]string{"service/a"}, "podctl: service/a: want pod/NAME, configmap/NAME or secret/NAME\nexit code 1\n"},
		{[]string{"-f", w.file("odd.yaml", "kind: Service\nmetadata: {name: s}\n")}, "podctl: D/odd.yaml: a document of the kind \"Service\" and the name \"s\" is no pod, ConfigMap or Secret\nexit code 1\n"},
	} {
		w.podctl("apply", "-f", f)
		w.want(tc.want, append([]string{"delete"}, tc.args...)...)
	}
}

// waitingPodexecd shows the pods that podconfigd has, in a state that the test sets.
type waitingPodexecd struct {
	podexecv1.UnimplementedPodExecServiceServer
	w *writer
	// states are shown one after the other, the last one for ever.
	mu     sync.Mutex
	states []func(*podexecv1.ObservedPod) *podexecv1.ObservedPod
}

func (f *waitingPodexecd) ListPods(context.Context, *podexecv1.ListPodsRequest) (*podexecv1.ListPodsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	resp := &podexecv1.ListPodsResponse{}
	for _, p := range f.w.listDesired() {
		o := f.states[0](&podexecv1.ObservedPod{Ref: &podconfigv1.PodRef{Uid: string(p.UID), Namespace: p.Namespace, Name: p.Name}, Desired: true})
		if o != nil {
			resp.Pods = append(resp.Pods, o)
		}
	}
	if len(f.states) > 1 {
		f.states = f.states[1:]
	}
	return resp, nil
}

// in returns a state with a status.
func in(st corev1.PodStatus, waitsFor string) func(*podexecv1.ObservedPod) *podexecv1.ObservedPod {
	return func(o *podexecv1.ObservedPod) *podexecv1.ObservedPod {
		text, err := st.Marshal()
		if err != nil {
			panic(err)
		}
		o.Status, o.WaitsFor = &podexecv1.ObservedPod_Protobuf{Protobuf: text}, waitsFor
		return o
	}
}

// TestApplyWait: --wait waits until podexecd shows the pod as it was written, and ready, or has it no more. It ends with an
// error if the pod has failed, or after --timeout.
func TestApplyWait(t *testing.T) {
	w := newWriter(t)
	f := &waitingPodexecd{w: w}
	w.serve("podexecd", func(s *grpc.Server) { podexecv1.RegisterPodExecServiceServer(s, f) })
	unknown := func(*podexecv1.ObservedPod) *podexecv1.ObservedPod { return nil }
	ready := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	pending := corev1.PodStatus{Phase: corev1.PodPending}
	type state = func(*podexecv1.ObservedPod) *podexecv1.ObservedPod
	for i, tc := range []struct {
		states  []state
		timeout string
		want    string
	}{
		{
			[]state{unknown, in(pending, "image v1"), in(ready, "")}, "1m",
			"pod/web created\npodctl: waiting: pod default/web-node1 isn't known to podexecd yet\npodctl: waiting: pod default/web-node1 isn't ready: image v1\n",
		},
		{[]state{in(corev1.PodStatus{Phase: corev1.PodSucceeded}, "")}, "1m", "pod/web configured\n"},
		{
			[]state{in(corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}, "")}, "1m",
			"pod/web configured\npodctl: the manifests are written, and podctl can't wait for the pods: pod default/web-node1 has failed: Evicted\nexit code 1\n",
		},
	} {
		f.mu.Lock()
		f.states = tc.states
		f.mu.Unlock()
		w.want(tc.want, "apply", "-f", w.file("web.yaml", manifestText("web", fmt.Sprint("v", i))), "--wait", "--timeout", tc.timeout)
	}
	f.mu.Lock()
	f.states = []state{in(pending, "")}
	f.mu.Unlock()
	w.wantParts([]string{"apply", "-f", w.file("web.yaml", manifestText("web", "late")), "--wait", "--timeout", "3s"},
		"pod/web configured\n", "podctl waits no longer: it takes longer than 3s (--timeout)", "exit code 1\n")
	// A pod in place of which nothing comes is gone at once here, as the fake shows what is desired.
	w.want("pod/web deleted\n", "delete", "web", "--wait", "--timeout", "1m")
}

// TestApplyWaitForRevision: a pod that goes on with its UID is there when a consumer has reported the revision.
func TestApplyWaitForRevision(t *testing.T) {
	w := newWriter(t)
	f := &waitingPodexecd{w: w, states: []func(*podexecv1.ObservedPod) *podexecv1.ObservedPod{
		in(corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}, ""),
	}}
	w.serve("podexecd", func(s *grpc.Server) { podexecv1.RegisterPodExecServiceServer(s, f) })
	text := w.file("web.yaml", manifestText("web", "v1"))
	w.want("pod/web created\n", "apply", "-f", text, "--wait")
	// Another set changes an annotation only.
	w.wantParts([]string{"apply", "-f", text, "--set", "two", "--wait", "--timeout", "3s"}, "podexecd hasn't applied revision 4 yet", "exit code 1")
	conn, err := (daemon{name: "podconfigd", endpoint: endpoint{path: w.socket("podconfigd")}}).connect("test")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	api := podconfigv1.NewPodConfigServiceClient(conn)
	stream, err := api.WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{Consumer: "podexecd@node1"})
	if err != nil {
		t.Fatal(err)
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.GetSynced() == nil {
			continue
		}
		_, err = api.ReportApplied(t.Context(), &podconfigv1.ReportAppliedRequest{
			Consumer: "podexecd@node1", Cursor: m.GetCursor(), Outcome: podconfigv1.ApplyOutcome_APPLY_OUTCOME_APPLIED,
		})
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	w.want("pod/web unchanged\n", "apply", "-f", text, "--set", "two", "--wait")
}
