package adoption

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// offered returns pods of a source; each is NAME/UID.
func offered(pods ...string) Source {
	out := Source{Known: true}
	for _, p := range pods {
		name, uid, _ := strings.Cut(p, "/")
		out.Pods = append(out.Pods, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid)},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "app:1"}}},
		})
	}
	return out
}

// TestDisplaced: a pod that loses its name or UID to another one is removed, and the reason names that one. Package migration compares
// the plan with podconfigd's merge.
func TestDisplaced(t *testing.T) {
	in := Input{Static: offered("web/u1", "web/u2", "db/u1"), API: offered("web/u3", "db/u4")}
	for _, p := range append(in.Static.Pods, in.API.Pods...) {
		in.Pods = append(in.Pods, &observed.Pod{
			Namespace: p.Namespace, Name: p.Name, UID: p.UID, Source: "api", Sandboxes: []observed.Sandbox{{ID: "s", Ready: true, IPs: []string{"10.0.0.1"}}},
			Containers: []observed.Container{{ID: "c", Name: "app", SandboxID: "s", State: observed.Running}},
		})
	}
	const winner = "podconfigd serves the static pod default/web with UID u1 under this "
	lost := map[string]string{"web/u2": winner + "name", "web/u3": winner + "name", "db/u1": winner + "UID"}
	for _, p := range Plan(in) {
		want := lost[p.Name+"/"+p.UID]
		if displaced := p.Action == Remove && p.Reason == want && len(p.Stops) == 1; displaced != (want != "") {
			t.Errorf("%+v; want %q", p, want)
		}
	}

	// podexecd doesn't remove an API pod before all API pods can be used: the static pod waits.
	in.API.Held = true
	for _, p := range Plan(in) {
		if p.UID == "u3" && (p.Action != Keep || !strings.HasPrefix(p.Reason, winner+"name: it goes on")) {
			t.Errorf("while the API server's pods are held: %+v", p)
		}
	}
}
