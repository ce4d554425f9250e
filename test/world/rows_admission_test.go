package world

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/inside"
)

// admittedRows are pods whose node selectors match the node.
var admittedRows = []row{
	{name: "nodeSelector that matches", spec: `{nodeSelector: {kubernetes.io/hostname: "{{node}}", kubernetes.io/os: linux}}`, check: runs},
	{name: "nodeSelector with the architecture", spec: `{nodeSelector: {kubernetes.io/arch: ` + runtime.GOARCH + `}}`, check: runs},
	{
		name: "node affinity that matches", check: runs, spec: `
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      - matchExpressions: [{key: nothing, operator: Exists}]
      - matchExpressions: [{key: kubernetes.io/os, operator: In, values: [linux, windows]}, {key: gpu, operator: DoesNotExist}]
        matchFields: [{key: metadata.name, operator: In, values: ["{{node}}"]}]`,
	},
	{
		name: "node affinity that is only preferred", check: runs, spec: `
affinity:
  nodeAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
    - {weight: 1, preference: {matchExpressions: [{key: nothing, operator: Exists}]}}`,
	},
	{name: "os linux", spec: `{os: {name: linux}}`, check: runs},
}

// labelRows are pods that select their node by labels of --node-labels.
var labelRows = []row{
	{name: "nodeSelector with a label of the node's", spec: `{nodeSelector: {disk: ssd, example.org/zone: a}}`, check: runs},
	{
		name: "nodeSelector with another value", spec: `{nodeSelector: {disk: ssd, example.org/zone: b}}`,
		status: refused("NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"),
	},
}

// runs is the check of a row that only requires that the container runs.
func runs(*inside.Report) error { return nil }

// refusal is a pod that this node rejects.
type refusal struct{ name, meta, spec, reason, message string }

var refusals = []refusal{
	{
		name: "nodeSelector that doesn't match", spec: `{nodeSelector: {disk: tape}}`,
		reason: "NodeAffinity", message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
	},
	{
		name: "node affinity that doesn't match", spec: `
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: NotIn, values: ["{{node}}"]}]}]`,
		reason: "NodeAffinity", message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
	},
	{
		name: "another architecture", spec: `{nodeSelector: {kubernetes.io/arch: m68k}}`,
		reason: "NodeAffinity", message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
	},
	{
		name: "another operating system", spec: `{os: {name: windows}}`,
		reason: "PodOSNotSupported", message: "Failed to admit pod as the OS field doesn't match node OS",
	},
	{
		name: "the label of another operating system", meta: `{labels: {kubernetes.io/os: windows}}`, spec: `{}`,
		reason: "PodOSSelectorNodeLabelDoesNotMatch", message: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
	},
	{
		name: "more cpu than there is", spec: `{containers: [{name: main, resources: {requests: {cpu: "1000"}}}]}`,
		reason: "UnexpectedAdmissionError", message: "no set of running pods found to reclaim resources: [(res: cpu, q: ",
	},
	{
		name: "more memory than there is", spec: `{containers: [{name: main, resources: {requests: {memory: 1000Ti}}}]}`,
		reason: "UnexpectedAdmissionError", message: "no set of running pods found to reclaim resources: [(res: memory, q: ",
	},
}

// TestAdmission: a pod runs if it is admitted. For a rejected pod, no sandbox, cgroup or directory is created.
func TestAdmission(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		runOn(t, b, admittedRows)
		for _, r := range refusals {
			t.Run(strings.ReplaceAll(r.name, " ", "-"), func(t *testing.T) {
				t.Parallel()
				p := newPod(t, b, r.name)
				p.write(r.meta, r.spec, nil, nil)
				p.awaitRefusal(r.reason, r.message)
			})
		}
	})
}

// awaitRefusal waits until the node rejects the pod, and checks that nothing was created for it.
func (p *pod) awaitRefusal(reason, message string) {
	p.t.Helper()
	refusedPod := p.await("its refusal", refused(reason, message))
	p.awaitEvents(has(reason, message))
	uid := string(refusedPod.UID)
	boxes, err := p.b.CRI.ListPodSandbox(p.ctx, &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"io.kubernetes.pod.uid": uid}},
	})
	check(p.t, err)
	if len(boxes.GetItems()) > 0 {
		p.t.Errorf("it has the sandbox %v", boxes.GetItems()[0])
	}
	if _, err := p.cgroups(); err == nil {
		p.t.Error("it has a cgroup")
	}
	if _, err := os.Stat(p.b.KubeletDir("pods", uid)); !errors.Is(err, os.ErrNotExist) {
		p.t.Errorf("it has a directory (%v)", err)
	}
}

// margin is the minimum time until the next regular attempt to admit a rejected pod, in tests in which the end of
// another pod must trigger an attempt. The pauses grow beyond 30 s.
var margin = min(patience/4, 30*time.Second)

// awaitReadyAfter waits until the pod runs, after makeRoom has removed other pods. It must be admitted before its next
// regular attempt.
func (p *pod) awaitReadyAfter(makeRoom func()) {
	p.t.Helper()
	var due time.Time
	p.awaitAll("a long pause", func() error {
		resp, err := p.b.Exec.GetPod(p.ctx, &podexecv1.GetPodRequest{Ref: &podconfigv1.PodRef{Name: p.name}})
		if err != nil {
			return err
		}
		if due = resp.GetPod().GetRetryTime().AsTime(); time.Until(due) < margin {
			return fmt.Errorf("it will be looked at again at %v", due)
		}
		return nil
	})
	makeRoom()
	p.await("the pod is let in", func(pod *v1.Pod) error {
		if pod.Status.Phase == v1.PodFailed {
			return fmt.Errorf("it is refused: %s", pod.Status.Message)
		}
		return nil
	})
	if time.Now().After(due) {
		p.t.Errorf("nothing woke it: it was looked at again at %v", due)
	}
	p.await("the pod is ready", isReady)
}

func ready(pod *v1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}
