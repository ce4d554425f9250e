package migration

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/execsvc/decide/adoption"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/simruntime"
	"github.com/podstream/podstream/internal/simruntime/simtest"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

const hashUID = "0123456789abcdef0123456789abcdef"

// manifest is that of a static pod with one container.
func manifestOf(name, uid string) string {
	text := "apiVersion: v1\nkind: Pod\nmetadata:\n  name: " + name + "\n"
	if uid != "" {
		text += "  uid: " + uid + "\n"
	}
	return text + "spec:\n  containers: [{name: app, image: localhost/sample:1}]\n"
}

// node runs a pod of each kind.
func node(t *testing.T) *kubelet {
	t.Helper()
	k := newKubelet(t)
	kept, changed, gone := pod("kept", "6a1e3f0c-1"), pod("changed", "6a1e3f0c-2"), pod("gone", "6a1e3f0c-3")
	for _, p := range []*v1.Pod{kept, changed, gone} {
		k.run(p, "api")
	}
	static, stable := pod("static-node1", hashUID), pod("stable-node1", "6a1e3f0c-4")
	k.run(static, "file")
	k.run(stable, "file")
	k.write("manifests/static.yaml", manifestOf("static", ""))
	k.write("manifests/stable.yaml", manifestOf("stable", "6a1e3f0c-4"))
	k.runWithout(pod("client", "6a1e3f0c-5"), nil)
	k.runWithout(pod("other", "6a1e3f0c-6"), map[string]string{podmeta.AgentAnnotation: "you"})

	now, mirror, elsewhere := changed.DeepCopy(), pod("static-node1", "6a1e3f0c-7"), gone.DeepCopy()
	now.Spec.Containers[0].Image = "localhost/sample:2"
	mirror.Annotations = map[string]string{podmeta.MirrorAnnotation: hashUID}
	elsewhere.Spec.NodeName = "node2"
	k.list(kept, now, mirror, elsewhere)
	return k
}

// TestExamine: the plan of a node with each kind of pod, from a list of kubectl's.
func TestExamine(t *testing.T) {
	k := node(t)
	before := k.server.Calls()
	report := k.examine()
	want := map[string]adoption.Action{
		"kept": adoption.Keep, "changed": adoption.Restart, "gone": adoption.Remove, "static-node1": adoption.Restart, "stable-node1": adoption.Keep,
		"client": adoption.Ignore, "other": adoption.Ignore,
	}
	if got := actions(report); !maps.Equal(got, want) {
		t.Errorf("the actions are %v; want %v", got, want)
	}
	if report.Node != "node1" || report.PodsFrom != "the list of --pods" || report.ManifestsFrom != filepath.Join(k.dir, "manifests") || len(report.Notes) > 0 {
		t.Errorf("the report is %+v", report)
	}
	for method, n := range k.server.Calls() {
		if n != before[method] && !strings.HasPrefix(method, "List") && !strings.HasSuffix(method, "Status") {
			t.Errorf("%s was called", method)
		}
	}
}

// TestSandboxesAlone: without the node's pods and manifests, the report says so, and nothing is planned as removed.
func TestSandboxesAlone(t *testing.T) {
	k := node(t)
	k.cfg.Pods, k.cfg.Kubelet.Config = nil, filepath.Join(k.dir, "missing")
	report := k.examine()
	for name, action := range actions(report) {
		if action == adoption.Remove || name == "kept" && action != adoption.Keep || name == "static-node1" && action != adoption.Restart {
			t.Errorf("%s: %s", name, action)
		}
	}
	notes := strings.Join(report.Notes, "\n")
	for _, want := range []string{"the kubelet's configuration wasn't read", "by their sandboxes alone"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes are %q; want %q", notes, want)
		}
	}
	if report.PodsFrom != "" || report.ManifestsFrom != "" {
		t.Errorf("the report is %+v", report)
	}
	k.cfg.Kubelet.Given = true
	if _, err := Examine(t.Context(), k.cfg); err == nil || !strings.Contains(err.Error(), "the kubelet's configuration") {
		t.Errorf("a given file that is missing: %v", err)
	}
}

// TestRejectedManifests: podconfigd's reasons are in the notes, without text that may be a secret, and its pods go on.
func TestRejectedManifests(t *testing.T) {
	k := node(t)
	k.write("manifests/static.yaml", strings.Replace(manifestOf("static", ""), "name: app", "name: 'hunter2 hunter2'", 1))
	k.write("manifests/stable.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {p: hunter2}\nbogus: hunter2\ntype: {}\n")
	k.write("manifests/etcd.manifest", manifestOf("etcd", ""))
	report := k.examine()
	notes := strings.Join(report.Notes, "\n")
	for _, want := range []string{"static.yaml: spec.containers[0].name: ", "stable.yaml: ", "podconfigd doesn't read " + filepath.Join(k.dir, "manifests/etcd.manifest")} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes are\n%s\nwant %q", notes, want)
		}
	}
	if strings.Contains(notes, "hunter2") {
		t.Errorf("the notes quote a manifest:\n%s", notes)
	}
	if got := actions(report); got["static-node1"] != adoption.Keep || got["stable-node1"] != adoption.Keep {
		t.Errorf("the actions are %v", got)
	}
	k.write("manifests/static.yaml", manifestOf("other", ""))
	k.write("manifests/stable.yaml", manifestOf("another", ""))
	if got := actions(k.examine()); got["static-node1"] != adoption.Remove || got["stable-node1"] != adoption.Remove {
		t.Errorf("without rejections, the actions are %v", got)
	}
}

// TestNoManifests: to the kubelet, a path that doesn't exist has no manifests; podconfigd removes no pod then. It is an error if the user has named it.
func TestNoManifests(t *testing.T) {
	k := node(t)
	if err := os.RemoveAll(filepath.Join(k.dir, "manifests")); err != nil {
		t.Fatal(err)
	}
	if r := k.examine(); len(r.Notes) > 0 || r.ManifestsFrom == "" || actions(r)["static-node1"] != adoption.Keep {
		t.Errorf("the report is %+v", r)
	}
	k.cfg.Manifests = filepath.Join(k.dir, "manifests")
	if _, err := Examine(t.Context(), k.cfg); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("with the path of a flag: %v", err)
	}
	k.write("manifests", manifestOf("stable", "6a1e3f0c-4"))
	if r := k.examine(); actions(r)["stable-node1"] != adoption.Keep {
		t.Errorf("of a single file, the report is %+v", r)
	}
}

// TestAPIServer: the node's pods come from the API server, by the node's kubeconfig.
func TestAPIServer(t *testing.T) {
	k := newKubelet(t)
	kept, gone := pod("kept", "6a1e3f0c-1"), pod("gone", "6a1e3f0c-2")
	k.run(kept, "api")
	k.run(gone, "api")
	elsewhere := gone.DeepCopy()
	elsewhere.Spec.NodeName = "node2"
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	server.Put(kept, elsewhere)
	k.cfg.Kubeconfig, k.cfg.KubeconfigGiven = server.Kubeconfig(apitest.Identity{Token: "token"}), true
	report := k.examine()
	if got, want := actions(report), map[string]adoption.Action{"kept": adoption.Keep, "gone": adoption.Remove}; !maps.Equal(got, want) {
		t.Errorf("the actions are %v; want %v", got, want)
	}
	if !strings.HasPrefix(report.PodsFrom, "the API server at https://") {
		t.Errorf("the pods are from %q", report.PodsFrom)
	}

	server.Answer(func(apitest.Request) *apitest.Reply { return apitest.Fail(http.StatusForbidden, "Forbidden", "no") })
	if _, err := Examine(t.Context(), k.cfg); err == nil || !strings.Contains(err.Error(), "403 Forbidden") {
		t.Errorf("an API server that refuses: %v", err)
	}
	k.cfg.KubeconfigGiven = false
	if report := k.examine(); actions(report)["gone"] != adoption.Keep || len(report.Notes) != 1 || !strings.Contains(report.Notes[0], "403 Forbidden") {
		t.Errorf("the report is %+v; want a note, and no pod removed", report)
	}
}

// TestHostileAPIServer: an answer is bounded in bytes, pages and time, and no redirect is followed.
func TestHostileAPIServer(t *testing.T) {
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"no list":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"kind":"Status"}`)) }, "no PodList"},
		"no JSON":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }, "read its list of pods"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, "302 Found"},
		"empty pages": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"kind":"PodList","metadata":{"continue":"x"}}`))
		}, "continues its list with nothing"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			for block := bytes.Repeat([]byte(" "), 1<<20); ; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}, "larger than 64 MiB"},
		"endless pages": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"kind":"PodList","metadata":{"continue":"x"},"items":[{}]}` + strings.Repeat(" ", 8<<20)))
		}, "larger than 64 MiB"},
		"silent": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(test.answer)
			defer server.Close()
			k := newKubelet(t)
			k.write("kubeconfig", `{"clusters":[{"name":"c","cluster":{"server":"`+server.URL+`"}}],"contexts":[{"name":"x","context":{"cluster":"c"}}],"current-context":"x"}`)
			k.cfg.Kubeconfig, k.cfg.KubeconfigGiven = filepath.Join(k.dir, "kubeconfig"), true
			if name == "silent" {
				k.cfg.Patience = 100 * time.Millisecond
			}
			if _, err := Examine(t.Context(), k.cfg); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v; want %q", err, test.want)
			}
		})
	}
}

// TestPodLists: what kubectl prints is read, and nothing else.
func TestPodLists(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind":"List","items":[{"kind":"Pod","spec":{"nodeName":"node1"}}]}`: "",
		"kind: PodList\nitems:\n- spec: {nodeName: node1}\n":                   "",
		`{"kind":"List","items":[]}`:                                           "",
		`{"kind":"List","items":[{"kind":"Pod","spec":{"nodeName":"node2"}}]}`: "none of the 1 pods is on node node1; --hostname-override",
		`{"kind":"List","items":[{"kind":"Service"}]}`:                         `items[0] is of kind "Service"`,
		`{"kind":"Pod"}`:            `its kind is "Pod"`,
		`{"kind":"List","items":3}`: "it isn't a list of pods",
		"{":                         "it isn't a list of pods",
		"hello":                     "it isn't a list of pods",
		"":                          "it isn't a list of pods",
		"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]": "isn't a list of pods",
	} {
		k := newKubelet(t)
		k.cfg.Pods = []byte(text)
		if _, err := Examine(t.Context(), k.cfg); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v; want %q", text, err, want)
		}
	}
}

// TestRuntimeFails: without the runtime there is no plan; a container that goes meanwhile is none.
func TestRuntimeFails(t *testing.T) {
	k := newKubelet(t)
	k.cfg.RuntimeEndpoint = "tcp://localhost:1"
	if _, err := Examine(t.Context(), k.cfg); err == nil || !strings.Contains(err.Error(), "want unix:///PATH") {
		t.Errorf("a TCP endpoint: %v", err)
	}
	for method, want := range map[string]error{
		"ListPodSandbox": errors.New("broken"), "ListContainers": errors.New("broken"), "PodSandboxStatus": errors.New("broken"),
		"ContainerStatus": status.Error(codes.NotFound, "gone"),
	} {
		failing := simruntime.New(simruntime.Config{Fault: func(_ context.Context, called string, _ any) error {
			if called == method {
				return want
			}
			return nil
		}})
		k := newKubelet(t)
		k.cfg.RuntimeEndpoint = simtest.Serve(t, failing)
		k.server = failing
		p := pod("web", "6a1e3f0c-1")
		id := k.run(p, "api")
		if err := failing.ExitContainer(id, 1); err != nil {
			t.Fatal(err)
		}
		k.list(p)
		_, err := Examine(t.Context(), k.cfg)
		if gone := status.Code(want) == codes.NotFound; (err == nil) != gone || err != nil && !strings.Contains(err.Error(), "broken") {
			t.Errorf("%s fails: %v", method, err)
		}
	}
}

// TestExitCodes: whether a container that has ended starts again is decided by its exit code.
func TestExitCodes(t *testing.T) {
	k := newKubelet(t)
	p := pod("job", "6a1e3f0c-1")
	p.Spec.RestartPolicy = v1.RestartPolicyOnFailure
	id := k.run(p, "api")
	k.list(p)
	if err := k.server.ExitContainer(id, 3); err != nil {
		t.Fatal(err)
	}
	if got := k.examine().Pods; len(got) != 1 || got[0].Action != adoption.Keep || !strings.Contains(got[0].Reason, "starts app") {
		t.Errorf("after exit code 3 the plan is %+v", got)
	}
}
