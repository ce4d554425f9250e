package service_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/service"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// begin reads the stream up to synced, and returns its units and its cursor.
func (s *stream) begin() (units []unit, at *podconfigv1.Cursor) {
	s.t.Helper()
	for {
		u := s.unit()
		if units = append(units, u); u.synced != nil {
			return units, u.cursor
		}
	}
}

// TestG5HiddenChanges: an inspector receives nothing for a change that it can't see, if it follows the stream,
// and if it resumes in a history that has the change or has dropped it. If no inspector was connected when it
// was dropped, it receives a SET. Visible changes are sent as their ops.
func TestG5HiddenChanges(t *testing.T) {
	for _, mode := range []podconfigv1.NotificationMode{incremental, snapshot} {
		n := start(t, options{revisions: 4})
		n.set("api", "x: web(env.P=a) job(phase=Running)")
		look := n.as(inspector)
		s := look.watch(in(mode, nil))
		held, at := s.begin()
		n.set("api", "x: web(env.P=b) job(phase=Running)")
		n.set("api", "x: web(env.P=c) job(phase=Failed)")
		if mode == incremental {
			s.want("RECONCILE api: job")
		}
		// In one revision, web's spec changes invisibly, and its status visibly.
		n.set("api", "x: web(env.P=d,phase=Running) job(phase=Failed)")
		if mode == incremental {
			s.want("RECONCILE api: web")
		}
		n.set("api", "x: web(env.P=d,image=2,phase=Running) job(phase=Failed)")
		s.want(map[podconfigv1.NotificationMode]string{incremental: "UPDATE api: web", snapshot: "SET api: job web"}[mode])

		kept := start(t, options{revisions: 4})
		kept.set("api", "x: web(env.P=a)")
		_, before := kept.as(inspector).watch(in(mode, nil)).begin()
		kept.set("api", "x: web(env.P=b)")
		kept.as(inspector).watch(in(mode, before)).want("synced")
		for i := range 5 {
			kept.set("api", fmt.Sprintf("x: web(env.P=%d)", i))
		}
		kept.as(inspector).watch(in(mode, before)).want("synced")

		gone := start(t, options{revisions: 4})
		gone.set("api", "x: web(env.P=a)")
		first := gone.as(inspector).watch(in(mode, nil))
		_, before = first.begin()
		first.cancel()
		until(t, "the inspector is gone", func() bool { return len(gone.consumers()) == 0 })
		for i := range 5 {
			gone.set("api", fmt.Sprintf("x: web(env.P=%d)", i))
		}
		gone.as(inspector).watch(in(mode, before)).want("SET file: web", "synced")

		// The visible changes are no longer known.
		s.cancel()
		until(t, "the inspector is gone", func() bool { return len(n.consumers()) == 0 })
		late := in(mode, at)
		late.KnownPods = known(held...)
		for i := range 5 {
			n.set("api", fmt.Sprintf("x: web(env.P=%d) job()", i))
		}
		if mode == incremental {
			back := look.watch(late)
			back.want("RECONCILE api: job")
			back.want("synced")
		}
	}
}

// TestPodWithoutContainers: a pod without spec.containers, which a source that isn't validated may have, is
// redacted for an inspector.
func TestPodWithoutContainers(t *testing.T) {
	n := start(t, options{})
	n.hub.Apply(manifest.Set{Source: "api", Origins: []*manifest.Origin{manifest.Received("default/x", &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "default", UID: "u", Annotations: map[string]string{"k": `{"env":"hunter2"}`}},
		Spec:       v1.PodSpec{InitContainers: []v1.Container{{Name: "i", Image: "i", Env: []v1.EnvVar{{Name: "P", Value: "hunter2"}}}}},
	})}})
	for _, format := range allFormats {
		resp := n.as(inspector).list(&podconfigv1.ListPodsRequest{Format: format})
		lacks(t, fmt.Sprintf("ListPods in %v", format), resp, "hunter2")
		if uids(resp.GetPods()) != "u" {
			t.Errorf("%v: an inspector gets %v; want the pod", format, resp)
		}
	}
}

// TestScopeOfPaths: of the podconfigds behind this one, a caller receives those of the sources that it sees,
// and their nodes only within its scope. The IDs stay, because a relay needs them to detect loops.
func TestScopeOfPaths(t *testing.T) {
	hop := func(id, node string) *podconfigv1.RelayHop { return &podconfigv1.RelayHop{Id: id, Node: node} }
	own, of := hop("own", "gateway"), map[string][]*podconfigv1.RelayHop{
		"file": {hop("a", "n1"), hop("b", "n9")}, "api": {hop("c", "n2"), hop("b", "n9")},
	}
	n := start(t, options{service: func(c *service.Config) {
		c.Path = func() []*podconfigv1.RelayHop {
			return []*podconfigv1.RelayHop{own, of["file"][0], of["file"][1], of["api"][0]}
		}
		c.SourcePath = func(source string) []*podconfigv1.RelayHop { return of[source] }
	}})
	n.set("file", "a: f1(node=n1)")
	words := func(path []*podconfigv1.RelayHop) string {
		var out []string
		for _, h := range path {
			out = append(out, h.GetId()+"@"+h.GetNode())
		}
		return strings.Join(out, " ")
	}
	for _, tc := range []struct {
		nodes, sources  []string
		path, ofFile    string
		fileIsInvisible bool
	}{
		{nil, nil, "own@gateway a@n1 b@n9 c@n2", "a@n1 b@n9", false},
		{[]string{"n1"}, nil, "own@gateway a@n1 b@unknown c@unknown", "a@n1 b@unknown", false},
		{nil, []string{"api"}, "own@gateway c@n2 b@n9", "", true},
		{[]string{"n2"}, []string{"api"}, "own@gateway c@n2 b@unknown", "", true},
	} {
		as := n.as(scoped(tc.nodes, tc.sources))
		s := as.watch(reference(nil))
		u := s.unit()
		for u.synced == nil {
			u = s.unit()
		}
		if got := words(u.synced.GetPath()); got != tc.path {
			t.Errorf("nodes %v, sources %v: synced has the path %q; want %q", tc.nodes, tc.sources, got, tc.path)
		}
		file, ok := as.sources()["file"]
		if got := words(file.GetPath()); got != tc.ofFile || ok == tc.fileIsInvisible {
			t.Errorf("nodes %v, sources %v: the source file has the path %q; want %q", tc.nodes, tc.sources, got, tc.ofFile)
		}
	}
}

// TestScopeOfSourceErrors: a source's error may name pods of any node.
func TestScopeOfSourceErrors(t *testing.T) {
	n := start(t, options{})
	n.hub.Apply(manifest.Set{Source: "file", Err: fmt.Errorf("tenant-b/secret-project can't be read")})
	for _, tc := range []struct {
		caller access.Caller
		shown  bool
	}{{scoped(nil, nil), true}, {inspector, true}, {scoped(nil, []string{"file"}), true}, {scoped([]string{"n1"}, nil), false}} {
		got := n.as(tc.caller).sources()["file"].GetLastError()
		if got == "" || strings.Contains(got, "secret-project") != tc.shown {
			t.Errorf("%+v reads the error %q; want it with the pod's name: %v", tc.caller, got, tc.shown)
		}
	}
}

// TestPageTokensRevealNothing: a page token reveals no more than the page, however many pods its caller may not see,
// and one that names a pod out of the caller's scope is invalid.
func TestPageTokensRevealNothing(t *testing.T) {
	n := start(t, options{})
	n.set("file", "a: a(node=n2) b(node=n1) c(node=n2) d(node=n1)")
	n1 := n.as(scoped([]string{"n1"}, nil))
	page := n1.list(&podconfigv1.ListPodsRequest{PageSize: 1})
	data, err := base64.RawURLEncoding.DecodeString(page.GetNextPageToken())
	if want := page.GetInstanceId() + " 1 b"; err != nil || string(data) != want {
		t.Errorf("the token of the first page is %q, %v; want %q", data, err, want)
	}
	if got := uids(n1.list(&podconfigv1.ListPodsRequest{PageToken: page.GetNextPageToken()}).GetPods()); got != "d" {
		t.Errorf("the second page has %q; want d", got)
	}
	for _, uid := range []string{"a", "unknown", "", "b "} {
		token := base64.RawURLEncoding.EncodeToString([]byte(page.GetInstanceId() + " 1 " + uid))
		_, err := n1.api.ListPods(t.Context(), &podconfigv1.ListPodsRequest{PageToken: token})
		wantCode(t, fmt.Sprintf("a token that names the pod %q", uid), err, codes.Aborted)
	}
}

// TestInspectorReadsNoReports: in the reports about a pod, an inspector only sees a reason in CamelCase.
func TestInspectorReadsNoReports(t *testing.T) {
	n := start(t, options{})
	rejected := podconfigv1.ApplyOutcome_APPLY_OUTCOME_REJECTED
	var errs []*podconfigv1.PodError
	for _, reason := range []string{"HostPortConflict", "no port: hunter2"} {
		errs = append(errs, &podconfigv1.PodError{Ref: &podconfigv1.PodRef{Uid: "u"}, Reason: reason, Message: "hunter2"})
	}
	wantCode(t, "the report", n.report("a", rejected, errs...), codes.OK)
	resp, err := n.as(inspector).api.ListConsumers(t.Context(), &podconfigv1.ListConsumersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	lacks(t, "the list of consumers", resp, "hunter2")
	var got []string
	for _, e := range resp.GetConsumers()[0].GetLastReport().GetErrors() {
		got = append(got, e.GetReason()+": "+e.GetMessage())
	}
	if diff := cmp.Diff([]string{"HostPortConflict: (redacted)", "(redacted): (redacted)"}, got); diff != "" {
		t.Errorf("the report that an inspector receives (-want +got):\n%s", diff)
	}
}
