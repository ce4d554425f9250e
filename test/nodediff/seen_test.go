package nodediff

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNodeFields: of a Node, the fields that an agent sets remain, and no times.
func TestNodeFields(t *testing.T) {
	node := &v1.Node{}
	node.Labels = map[string]string{"os": "linux"}
	node.Status.Capacity = v1.ResourceList{v1.ResourceCPU: resource.MustParse("850m")}
	node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now()}}
	got, err := nodeFields(node)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"labels.os": "linux", "capacity.cpu": "850m", "conditions.Ready.status": "True", "conditions.Ready.reason": "KubeletReady",
	} {
		if got[path] != want {
			t.Errorf("%s is %q; want %q", path, got[path], want)
		}
	}
	if _, ok := got["conditions.Ready.lastHeartbeatTime"]; ok {
		t.Error("a time is left")
	}
}

// TestAddEvents: events of one reason are one section, each message once, in the order of their text.
func TestAddEvents(t *testing.T) {
	event := func(message string) v1.Event {
		return v1.Event{
			Reason: "Failed", Type: "Warning", Message: message, InvolvedObject: v1.ObjectReference{Kind: "Pod", Name: "web", APIVersion: "v1", UID: "u"},
			Source: v1.EventSource{Component: "kubelet", Host: "node"}, ReportingController: "kubelet", ReportingInstance: "node",
		}
	}
	seen := Seen{}
	if err := addEvents(seen, []v1.Event{event("b in 7ms"), event("a"), event("b in 12s")}); err != nil {
		t.Fatal(err)
	}
	fields := func(i, message string) Fields {
		return Fields{
			i + ".type": "Warning", i + ".message": message, i + ".namespace": "", i + ".object": "v1 /web u ", i + ".source": "kubelet node",
			i + ".reporter": "kubelet node",
		}
	}
	want := fields("[0]", "a")
	for path, text := range fields("[1]", "b in DURATION") {
		want[path] = text
	}
	if diff := cmp.Diff(Seen{"event Pod/web Failed": want}, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestHas: a want is a section, or a field with its value.
func TestHas(t *testing.T) {
	seen := Seen{"node": {"capacity.pods": "50"}, "event Node/node Starting": {"[0].type": "Normal"}}
	for want, is := range map[string]bool{
		"event Node/node Starting": true, "event Node/node Ended": false, "node capacity.pods=50": true, "node capacity.pods=5": false, "node capacity.cpu=1": false,
	} {
		if seen.has(want) != is {
			t.Errorf("has %q: %v; want %v", want, !is, is)
		}
	}
}

// TestReason: of an agent's output, the error for which it ended is left.
func TestReason(t *testing.T) {
	for _, c := range []struct {
		agent        Agent
		output, want string
	}{
		{Kubelet, "I1124 13:49:33.961172    2510 server.go:150] Version\nE1124 14:05:05.166317    6255 run.go:72] \"command failed\" err=\"x\"\nI1124 end\n",
			`"command failed" err="x"`},
		{Podstream, "time=1 level=INFO msg=a\npodexecd: b\nc\n", "podexecd: b; c"},
		{Podstream, "time=1 level=INFO msg=a\ntime=1 level=ERROR msg=b\n\n", "time=1 level=ERROR msg=b"},
	} {
		if got := reason(c.agent, c.output); got != c.want {
			t.Errorf("the reason in %q is %q; want %q", c.output, got, c.want)
		}
	}
}

// TestConfiguration: a case's fields take the place of the common ones, and podexecd's own those of the case.
func TestConfiguration(t *testing.T) {
	c := &Case{Config: "{cgroupDriver: cgroupfs, podsPerCore: 7, clusterDNS: null}", Own: "podsPerCore: 8"}
	for agent, pods := range map[Agent]float64{Kubelet: 7, Podstream: 8} {
		text, err := c.configuration("/agent", agent)
		if err != nil {
			t.Fatal(err)
		}
		fields, err := parse(string(text), "")
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]any{"cgroupDriver": "cgroupfs", "podsPerCore": pods, "clusterDNS": nil, "staticPodPath": "/agent/manifests"} {
			if fields[name] != want {
				t.Errorf("%s: %s is %v; want %v", agent, name, fields[name], want)
			}
		}
	}
}
