package adoption

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// now is the time of each plan.
var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const (
	podUID  = "6a1e3f0c-0000-4000-8000-000000000001"
	hashUID = "0123456789abcdef0123456789abcdef"
)

// node is a node with one pod of two containers, and what its sources have.
type node struct {
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
	// exits are exit codes, by container ID.
	exits       map[string]int32
	api, static Source
	rule        Rule
}

// pod is the pod at the API server.
func (n *node) pod() *v1.Pod { return n.api.Pods[0] }

// isStatic makes the pod a static one with this UID; uid is what podconfigd makes of its manifest.
func (n *node) isStatic(kubelet, uid string) {
	n.sandboxes[0].Annotations[podmeta.SourceAnnotation] = "file"
	n.sandboxes[0].Labels[podmeta.PodUIDLabel] = kubelet
	for _, c := range n.containers {
		c.Labels[podmeta.PodUIDLabel] = kubelet
	}
	pod := n.pod().DeepCopy()
	pod.UID = types.UID(uid)
	n.static.Pods = append(n.static.Pods, pod)
	// The API server has the mirror pod.
	mirror := n.pod()
	mirror.UID = "6a1e3f0c-0000-4000-8000-00000000000f"
	mirror.Annotations = map[string]string{podmeta.MirrorAnnotation: kubelet}
}

// deadline sets the pod's deadline, and that it started so long before or after now. Its sandbox is as old.
func (n *node) deadline(seconds int64, started time.Duration) {
	n.pod().Spec.ActiveDeadlineSeconds, n.pod().Status.StartTime = &seconds, ptr.To(metav1.NewTime(now.Add(started)))
	n.sandboxes[0].CreatedAt = now.Add(started).UnixNano()
}

// exit ends the container.
func (n *node) exit(i int, code int32) {
	n.containers[i].State, n.exits[n.containers[i].Id] = runtimeapi.ContainerState_CONTAINER_EXITED, code
}

func newNode() *node {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: podUID}, Spec: v1.PodSpec{
		RestartPolicy: v1.RestartPolicyAlways, Containers: []v1.Container{{Name: "app", Image: "app:1"}, {Name: "log", Image: "log:1"}},
	}}
	n := &node{
		sandboxes: []*runtimeapi.PodSandbox{{
			Id: "s0", State: runtimeapi.PodSandboxState_SANDBOX_READY, Labels: podmeta.Labels(pod),
			Metadata:    &runtimeapi.PodSandboxMetadata{Namespace: pod.Namespace, Name: pod.Name, Uid: podUID},
			Annotations: map[string]string{podmeta.SourceAnnotation: "api"},
		}},
		exits: map[string]int32{}, api: Source{Known: true, Pods: []*v1.Pod{pod}}, static: Source{Known: true},
		rule: Rule{Agent: "me", Directories: Directories{Pods: []string{"/pods"}, Logs: "/logs", IsDirectory: func(string) bool { return true }}},
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		n.containers = append(n.containers, &runtimeapi.Container{
			Id: "c" + c.Name, PodSandboxId: "s0", State: runtimeapi.ContainerState_CONTAINER_RUNNING, Labels: podmeta.Labels(pod),
			Metadata:    &runtimeapi.ContainerMetadata{Name: c.Name},
			Annotations: map[string]string{criconfig.ContainerHashAnnotation: criconfig.ContainerHash(c)},
		})
	}
	return n
}

// plan returns the plan of the node's pods and of the sandboxes that are ignored.
func (n *node) plan() []Pod {
	pods, ignored := n.rule.Split(n.sandboxes, n.containers)
	for _, p := range pods {
		for i := range p.Sandboxes {
			if p.Sandboxes[i].Ready {
				p.Sandboxes[i].IPs = []string{"10.0.0.1"}
			}
		}
		for i := range p.Containers {
			p.Containers[i].ExitCode = n.exits[p.Containers[i].ID]
		}
	}
	return append(Plan(Input{Pods: pods, API: n.api, Static: n.static, Now: now}), ignored...)
}

// TestPlan: one fault is planted in each node, and the plan has it. The reason names what decided.
func TestPlan(t *testing.T) {
	const all, app = "app log", "app"
	for name, test := range map[string]struct {
		change func(n *node)
		want   Action
		reason string
		// stops are the running containers that stop.
		stops string
	}{
		"an API pod":    {func(*node) {}, Keep, "hashes of its containers are those of the pod", ""},
		"another image": {func(n *node) { n.pod().Spec.Containers[0].Image = "app:2" }, Restart, "container app: its hash is ", app},
		"an endless hash": {func(n *node) {
			n.containers[0].Annotations[criconfig.ContainerHashAnnotation] = strings.Repeat("a", 1<<20)
		}, Restart, "its hash is " + strings.Repeat("a", 32) + ",", app},
		"two other images":    {func(n *node) { n.pod().Spec.Containers[0].Image, n.pod().Spec.Containers[1].Image = "a", "b" }, Restart, "; container log: its hash is ", all},
		"no hash":             {func(n *node) { n.containers[1].Annotations = nil }, Restart, "container log: its hash is missing", "log"},
		"another UID":         {func(n *node) { n.pod().UID = "other" }, Restart, "another UID, other", all},
		"not at the server":   {func(n *node) { n.api.Pods = nil }, Remove, "no pod of the node", all},
		"another name":        {func(n *node) { n.pod().Name = "other" }, Remove, "no pod of the node", all},
		"another namespace":   {func(n *node) { n.pod().Namespace = "other" }, Remove, "no pod of the node", all},
		"being deleted":       {func(n *node) { n.pod().DeletionTimestamp = ptr.To(metav1.Now()) }, Remove, "it is being deleted", all},
		"failed":              {func(n *node) { n.pod().Status.Phase = v1.PodFailed }, Remove, "phase at the API server is Failed", all},
		"beyond its deadline": {func(n *node) { n.deadline(60, -time.Minute) }, Remove, "longer than its activeDeadlineSeconds, 60", all},
		"beyond it, with a claim": {func(n *node) {
			n.deadline(60, -time.Minute)
			n.pod().Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{CephFS: &v1.CephFSVolumeSource{}}}}
			n.pod().Spec.Containers[1].VolumeMounts = []v1.VolumeMount{{Name: "v"}}
		}, Remove, "longer than its activeDeadlineSeconds", all},
		"within its deadline":       {func(n *node) { n.deadline(60, -59*time.Second) }, Keep, "hashes of its containers", ""},
		"started in the future":     {func(n *node) { n.deadline(60, time.Hour) }, Keep, "hashes of its containers", ""},
		"an endless deadline":       {func(n *node) { n.deadline(1<<62, -time.Hour) }, Keep, "hashes of its containers", ""},
		"beyond it, by its sandbox": {func(n *node) { n.deadline(60, -time.Minute); n.pod().Status.StartTime = nil }, Remove, "activeDeadlineSeconds", all},
		"within it, by its sandbox": {func(n *node) { n.deadline(60, -58*time.Second); n.pod().Status.StartTime = nil }, Keep, "hashes of its containers", ""},
		"static, beyond its deadline": {func(n *node) {
			n.deadline(60, -time.Minute)
			n.pod().Status = v1.PodStatus{}
			n.isStatic(podUID, podUID)
		}, Remove, "activeDeadlineSeconds", all},
		"server not known":   {func(n *node) { n.api = Source{} }, Keep, "if it is still one of the node's pods", ""},
		"a mirror pod alone": {func(n *node) { n.pod().Annotations = map[string]string{podmeta.MirrorAnnotation: "x"} }, Remove, "no pod of the node", all},
		"no source, all known": {func(n *node) { delete(n.sandboxes[0].Annotations, podmeta.SourceAnnotation); n.api.Pods = nil },
			Remove, "no pod of the node", all},
		"no source, and unknown ones": {func(n *node) {
			delete(n.sandboxes[0].Annotations, podmeta.SourceAnnotation)
			n.api.Pods, n.static = nil, Source{}
		}, Keep, "weren't read", ""},

		"another image, and a claim": {func(n *node) {
			n.pod().Spec.Containers[0].Image = "app:2"
			n.pod().Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{CephFS: &v1.CephFSVolumeSource{}}}}
			n.pod().Spec.Containers[1].VolumeMounts = []v1.VolumeMount{{Name: "v"}}
		}, Keep, "doesn't support spec.volumes[0].cephfs, so it starts and stops nothing", ""},
		"host network":          {func(n *node) { n.pod().Spec.HostNetwork = true }, Restart, "it needs a new sandbox", all},
		"one that failed":       {func(n *node) { n.exit(0, 1) }, Keep, "starts app, as the kubelet would", ""},
		"one that is done":      {func(n *node) { n.pod().Spec.RestartPolicy = v1.RestartPolicyOnFailure; n.exit(0, 0) }, Keep, "hashes of its containers", ""},
		"all are done":          {func(n *node) { n.pod().Spec.RestartPolicy = v1.RestartPolicyNever; n.exit(0, 0); n.exit(1, 0) }, Remove, "have ended", ""},
		"a dead sandbox":        {func(n *node) { n.sandboxes[0].State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }, Restart, "it needs a new sandbox", all},
		"an unknown state":      {func(n *node) { n.containers[0].State = runtimeapi.ContainerState_CONTAINER_UNKNOWN }, Restart, "container app: is in an unknown state", ""},
		"this podexecd's":       {func(n *node) { n.mark("me") }, Keep, "hashes of its containers", ""},
		"no longer this node's": {func(n *node) { n.mark("me"); n.api.Pods = nil }, Remove, "no pod of the node", all},

		"rejected by podconfigd":           {func(n *node) { n.api = Source{Known: true, Held: true} }, Keep, "until podconfigd accepts all pods of the node", ""},
		"another UID, and one is rejected": {func(n *node) { n.pod().UID = "other"; n.api.Held = true }, Restart, "another UID, other", all},
		"a static one, and one is rejected": {func(n *node) {
			n.static.Pods, n.api = n.api.Pods, Source{Known: true, Held: true}
			n.static.Pods[0].UID = "o"
		}, Keep, "until podconfigd accepts all pods", ""},

		"static, an API pod of its name": {func(n *node) {
			n.static.Pods = nil
			n.isStatic(podUID, "")
			n.api.Pods = n.static.Pods
			n.api.Pods[0].UID = "o"
			n.static.Pods = nil
		}, Restart, "serves the API pod default/web with UID o under this name", all},
		"static, that and one rejected": {func(n *node) {
			n.isStatic(podUID, "")
			n.api.Pods = n.static.Pods
			n.api.Pods[0].UID = "o"
			n.static = Source{Known: true, Held: true}
		}, Keep, "until podconfigd accepts all manifests", ""},
		"static, hashed by the kubelet":  {func(n *node) { n.isStatic(hashUID, "2ad9b6eded589bb590c6804263d46244") }, Restart, "without metadata.uid in its manifest", all},
		"static, with a UID":             {func(n *node) { n.isStatic(podUID, podUID) }, Keep, "hashes of its containers", ""},
		"static, with another image":     {func(n *node) { n.isStatic(podUID, podUID); n.static.Pods[0].Spec.Containers[0].Image = "app:2" }, Restart, "container app: its hash is", app},
		"static, with a new UID":         {func(n *node) { n.isStatic(podUID, "other") }, Restart, "gives it another UID now, other", all},
		"static, without a manifest":     {func(n *node) { n.isStatic(hashUID, ""); n.static.Pods = nil }, Remove, "that no manifest has", all},
		"static, manifest rejected":      {func(n *node) { n.isStatic(hashUID, ""); n.static = Source{Known: true, Held: true} }, Keep, "until podconfigd accepts all", ""},
		"static, another one rejected":   {func(n *node) { n.isStatic(hashUID, "other"); n.static.Held = true }, Restart, "without metadata.uid", all},
		"static, manifests unknown":      {func(n *node) { n.isStatic(hashUID, ""); n.static = Source{} }, Restart, "looks like the kubelet's own hash", all},
		"static, UID, manifests unknown": {func(n *node) { n.isStatic(podUID, ""); n.static = Source{} }, Keep, "if its manifest sets this UID", ""},
		"of a URL": {func(n *node) {
			n.isStatic(hashUID, "")
			n.static.Pods = nil
			n.sandboxes[0].Annotations[podmeta.SourceAnnotation] = "http"
		}, Restart, "looks like the kubelet's own hash", all},

		"another podexecd's": {func(n *node) { n.mark("you") }, Ignore, podmeta.AgentAnnotation, ""},
		"an empty mark":      {func(n *node) { n.mark(""); n.rule.Agent = "" }, Ignore, podmeta.AgentAnnotation, ""},
		"no directories": {func(n *node) { n.rule.IsDirectory = func(string) bool { return false } },
			Ignore, "no directories of a pod in /pods and /logs", ""},
		"of another client": {func(n *node) {
			n.sandboxes[0].Labels = map[string]string{"app": "x"}
			n.containers[0].Labels, n.containers[1].Labels = nil, nil
		}, Ignore, "no labels of a pod", ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode()
			test.change(n)
			got := n.plan()
			if len(got) != 1 {
				t.Fatalf("the plan is %+v", got)
			}
			if p := got[0]; p.Action != test.want || !strings.Contains(p.Reason, test.reason) || strings.Join(p.Stops, " ") != test.stops {
				t.Errorf("it is %s (stops %q): %s\nwant %s (stops %q) with %q", p.Action, p.Stops, p.Reason, test.want, test.stops, test.reason)
			}
		})
	}
}

// mark marks the sandbox and its containers as an agent's.
func (n *node) mark(agent string) {
	n.sandboxes[0].Annotations[podmeta.AgentAnnotation] = agent
	for _, c := range n.containers {
		c.Annotations[podmeta.AgentAnnotation] = agent
	}
}

// TestPlanOfNothing: a pod of which nothing runs has no plan, nor has an ended sandbox that would be ignored.
func TestPlanOfNothing(t *testing.T) {
	for _, agent := range []string{"me", "you"} {
		n := newNode()
		n.mark(agent)
		n.sandboxes[0].State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
		n.exit(0, 0)
		n.exit(1, 0)
		if got := n.plan(); len(got) != 0 {
			t.Errorf("marked by %s: the plan is %+v", agent, got)
		}
	}
}

// TestPlanIsSorted: by namespace, name and UID.
func TestPlanIsSorted(t *testing.T) {
	var pods []*observed.Pod
	for _, name := range []string{"b/a/1", "a/b/1", "a/a/2", "a/a/1"} {
		parts := strings.Split(name, "/")
		pods = append(pods, &observed.Pod{Namespace: parts[0], Name: parts[1], UID: types.UID(parts[2])})
	}
	var got []string
	for _, p := range Plan(Input{Pods: pods}) {
		got = append(got, p.Namespace+"/"+p.Name+"/"+p.UID)
	}
	if want := []string{"a/a/1", "a/a/2", "a/b/1", "b/a/1"}; !slices.Equal(got, want) {
		t.Errorf("the order is %q; want %q", got, want)
	}
}
