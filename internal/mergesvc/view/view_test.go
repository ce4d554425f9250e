package view_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/view"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	unspecified        = podconfigv1.NotificationMode_NOTIFICATION_MODE_UNSPECIFIED
	incremental        = podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL
	snapshot           = podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT
	snapshotAndUpdates = podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT_AND_UPDATES
)

func mustView(t *testing.T, cfg view.Config) *view.View {
	t.Helper()
	v, err := view.New(cfg)
	if err != nil {
		t.Fatalf("New(%+v): %v; want a view", cfg, err)
	}
	return v
}

// pod returns a pod of file in default, on node n1 and with the label tier=a, as changed.
func pod(name string, changes ...func(*revision.Pod)) *revision.Pod {
	p := &revision.Pod{Source: "file", Object: &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(name), Labels: map[string]string{"tier": "a"},
		},
		Spec: v1.PodSpec{NodeName: "n1"},
	}}
	for _, change := range changes {
		change(p)
	}
	return p
}

func of(source string) func(*revision.Pod) { return func(p *revision.Pod) { p.Source = source } }
func on(node string) func(*revision.Pod) {
	return func(p *revision.Pod) { p.Object.Spec.NodeName = node }
}
func in(namespace string) func(*revision.Pod) {
	return func(p *revision.Pod) { p.Object.Namespace = namespace }
}
func tier(value string) func(*revision.Pod) {
	return func(p *revision.Pod) { p.Object.Labels = map[string]string{"tier": value} }
}

// TestMatches: the fields of a filter are ANDed, the entries of one are ORed, and the role's scope applies with
// any filter.
func TestMatches(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  view.Config
		pod  *revision.Pod
		want bool
	}{
		{"everything", view.Config{}, pod("web"), true},
		{"an empty filter", view.Config{Filter: &podconfigv1.PodFilter{}}, pod("web"), true},
		{"its source", view.Config{Filter: &podconfigv1.PodFilter{Sources: []string{"api", "file"}}}, pod("web"), true},
		{"another source", view.Config{Filter: &podconfigv1.PodFilter{Sources: []string{"api"}}}, pod("web"), false},
		{"its node", view.Config{Filter: &podconfigv1.PodFilter{Nodes: []string{"n1"}}}, pod("web"), true},
		{"another node", view.Config{Filter: &podconfigv1.PodFilter{Nodes: []string{"n1"}}}, pod("web", on("n2")), false},
		{"its namespace", view.Config{Filter: &podconfigv1.PodFilter{Namespaces: []string{"x", "kube"}}}, pod("web", in("kube")), true},
		{"another namespace", view.Config{Filter: &podconfigv1.PodFilter{Namespaces: []string{"x"}}}, pod("web", in("kube")), false},
		{"its name", view.Config{Filter: &podconfigv1.PodFilter{Names: []string{"web"}}}, pod("web"), true},
		{"another name", view.Config{Filter: &podconfigv1.PodFilter{Names: []string{"db"}}}, pod("web"), false},
		{"its label", view.Config{Filter: &podconfigv1.PodFilter{LabelSelector: "tier in (a,b)"}}, pod("web"), true},
		{"another label", view.Config{Filter: &podconfigv1.PodFilter{LabelSelector: "tier!=a"}}, pod("web"), false},
		{"no such label", view.Config{Filter: &podconfigv1.PodFilter{LabelSelector: "app"}}, pod("web"), false},
		{"all but one field", view.Config{Filter: &podconfigv1.PodFilter{
			Sources: []string{"file"}, Nodes: []string{"n1"}, Namespaces: []string{"default"}, Names: []string{"web"},
			LabelSelector: "tier=b",
		}}, pod("web"), false},
		{"in the scope", view.Config{Sources: []string{"file"}, Nodes: []string{"n1"}}, pod("web"), true},
		{"a source outside the scope", view.Config{Sources: []string{"file"}}, pod("web", of("api")), false},
		{"a node outside the scope", view.Config{Nodes: []string{"n1"}}, pod("web", on("n2")), false},
		{"a pod without a node is outside, too", view.Config{Nodes: []string{"n1"}}, pod("web", on("")), false},
		{"a filter doesn't widen the scope", view.Config{
			Sources: []string{"file"}, Filter: &podconfigv1.PodFilter{Sources: []string{"file", "api"}},
		}, pod("web", of("api")), false},
		{"a filter beside the scope", view.Config{
			Sources: []string{"file"}, Filter: &podconfigv1.PodFilter{Sources: []string{"api"}},
		}, pod("web"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := mustView(t, tc.cfg)
			if got := v.Matches(tc.pod); got != tc.want {
				t.Errorf("Matches returns %v; want %v", got, tc.want)
			}
			if tc.want && !v.MayMatch(tc.pod.Source, tc.pod.UID(), tc.pod.Object.Namespace, tc.pod.Object.Name) {
				t.Error("MayMatch returns false for a pod that matches; want true")
			}
		})
	}
}

// TestMayMatch: unknown fields of a pod may match.
func TestMayMatch(t *testing.T) {
	v := mustView(t, view.Config{Filter: &podconfigv1.PodFilter{
		Sources: []string{"file"}, Namespaces: []string{"default"}, Names: []string{"web"}, Nodes: []string{"n9"}, LabelSelector: "app",
	}})
	for _, tc := range []struct {
		source, namespace, name string
		want                    bool
	}{
		{"file", "default", "web", true},
		{"file", "", "", true},
		{"file", "default", "db", false},
		{"file", "kube", "web", false},
		{"api", "default", "web", false},
		{"api", "", "", false},
	} {
		if got := v.MayMatch(tc.source, "u", tc.namespace, tc.name); got != tc.want {
			t.Errorf("MayMatch(%q, %q, %q) returns %v; want %v", tc.source, tc.namespace, tc.name, got, tc.want)
		}
	}
}

// TestNewFails: an error names the invalid field.
func TestNewFails(t *testing.T) {
	for _, tc := range []struct {
		cfg  view.Config
		want string
	}{
		{view.Config{Mode: 9}, "mode: 9 isn't known"},
		{view.Config{Mode: -1}, "mode: -1 isn't known"},
		{view.Config{Filter: &podconfigv1.PodFilter{LabelSelector: "a in b"}}, "filter.label_selector: "},
		{view.Config{Filter: &podconfigv1.PodFilter{LabelSelector: "=x"}}, "filter.label_selector: "},
	} {
		v, err := view.New(tc.cfg)
		if err == nil || v != nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("New(%+v) returns %v, %v; want an error that starts with %q", tc.cfg, v, err, tc.want)
		}
	}
}

// TestWhatAViewIs: mode, redaction, and whether it leaves anything out.
func TestWhatAViewIs(t *testing.T) {
	filter := func(f *podconfigv1.PodFilter) view.Config { return view.Config{Filter: f} }
	for _, tc := range []struct {
		cfg                          view.Config
		wantMode                     podconfigv1.NotificationMode
		wantEverything, wantSnapshot bool
		wantFixed                    bool
	}{
		{view.Config{}, incremental, true, false, true},
		{view.Config{Mode: unspecified, Redacted: true}, incremental, true, false, true},
		{filter(&podconfigv1.PodFilter{}), incremental, true, false, true},
		{filter(&podconfigv1.PodFilter{Names: []string{"a"}}), incremental, false, false, true},
		{filter(&podconfigv1.PodFilter{Namespaces: []string{"a"}}), incremental, false, false, true},
		{filter(&podconfigv1.PodFilter{Sources: []string{"a"}}), incremental, false, false, true},
		{filter(&podconfigv1.PodFilter{Nodes: []string{"a"}}), incremental, false, false, false},
		{filter(&podconfigv1.PodFilter{LabelSelector: "a"}), incremental, false, false, false},
		{view.Config{Sources: []string{"a"}}, incremental, false, false, true},
		{view.Config{Nodes: []string{"a"}}, incremental, false, false, false},
		{view.Config{Mode: snapshot}, snapshot, false, true, true},
		{view.Config{Mode: snapshotAndUpdates}, snapshotAndUpdates, false, true, true},
	} {
		v := mustView(t, tc.cfg)
		if v.Mode() != tc.wantMode || v.Everything() != tc.wantEverything || v.Snapshots() != tc.wantSnapshot ||
			v.Fixed() != tc.wantFixed || v.Redacted() != tc.cfg.Redacted {
			t.Errorf("%+v: mode %v, everything %v, snapshots %v, fixed %v, redacted %v; want %v, %v, %v, %v, %v", tc.cfg, v.Mode(),
				v.Everything(), v.Snapshots(), v.Fixed(), v.Redacted(),
				tc.wantMode, tc.wantEverything, tc.wantSnapshot, tc.wantFixed, tc.cfg.Redacted)
		}
	}
}

// TestPods: the matching pods in their order. If all match, it is the same slice, which costs nothing for many
// consumers.
func TestPods(t *testing.T) {
	all := []*revision.Pod{pod("a"), pod("b", tier("b")), pod("c"), pod("d", tier("b"))}
	v := mustView(t, view.Config{Filter: &podconfigv1.PodFilter{LabelSelector: "tier=a"}})
	if diff := cmp.Diff("a c", names(v.Pods(all))); diff != "" {
		t.Errorf("the pods of tier a (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("a b c d", names(all)); diff != "" {
		t.Errorf("all pods, after a view was taken of them (-want +got):\n%s", diff)
	}
	for _, everything := range []view.Config{{}, {Mode: snapshot}, {Nodes: []string{"n1"}}} {
		if got := mustView(t, everything).Pods(all); len(got) != len(all) || &got[0] != &all[0] {
			t.Errorf("the pods that %+v sees are a copy; want the slice itself, as it sees all", everything)
		}
	}
}

func names(pods []*revision.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Object.Name)
	}
	return strings.Join(out, " ")
}

// TestSources: a consumer sees the sources of its scope that its filter selects, and no others.
func TestSources(t *testing.T) {
	all := history.Sources{{Name: "file", ReadyRevision: 3}, {Name: "http"}, {Name: "api"}}
	for _, tc := range []struct {
		cfg  view.Config
		want history.Sources
	}{
		{view.Config{}, all},
		{view.Config{Nodes: []string{"n1"}}, all},
		{view.Config{Sources: []string{"api", "file"}}, history.Sources{all[0], all[2]}},
		{view.Config{Filter: &podconfigv1.PodFilter{Sources: []string{"http"}}}, history.Sources{all[1]}},
		{view.Config{Sources: []string{"file", "api"}, Filter: &podconfigv1.PodFilter{Sources: []string{"http", "api"}}}, all[2:]},
		{view.Config{Sources: []string{"file"}, Filter: &podconfigv1.PodFilter{Sources: []string{"api"}}}, history.Sources{}},
	} {
		v := mustView(t, tc.cfg)
		got := v.Sources(all)
		if diff := cmp.Diff(append(history.Sources{}, tc.want...), append(history.Sources{}, got...)); diff != "" {
			t.Errorf("the sources that %+v sees (-want +got):\n%s", tc.cfg, diff)
		}
		for _, s := range all {
			if want := got.Configured(s.Name); v.Sees(s.Name) != want {
				t.Errorf("%+v sees %s: %v; want %v", tc.cfg, s.Name, v.Sees(s.Name), want)
			}
		}
	}
}

// TestG11MaskByUID: a pod of another source that has the UID of a held pod isn't in the view, whatever its name: a REMOVE of
// that UID would remove the held pod.
func TestG11MaskByUID(t *testing.T) {
	v := mustView(t, view.Config{}).Without(&view.Mask{
		Sources: map[string]bool{"api": true}, UIDs: map[types.UID]bool{"held": true}, Names: map[string]bool{"web_default": true},
	})
	for _, tc := range []struct {
		source, uid, namespace, name string
		want                         bool
	}{
		{"file", "other", "default", "db", true},
		{"file", "held", "default", "db", false},
		{"file", "held", "", "", false},
		{"file", "other", "default", "web", false},
		{"api", "other", "default", "db", false},
	} {
		if got := v.MayMatch(tc.source, types.UID(tc.uid), tc.namespace, tc.name); got != tc.want {
			t.Errorf("MayMatch(%q, %q, %q, %q) returns %v; want %v", tc.source, tc.uid, tc.namespace, tc.name, got, tc.want)
		}
	}
}
