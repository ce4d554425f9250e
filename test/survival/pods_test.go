package survival

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/test/devnode"
)

// kind is a kind of pod: a plan, and the commands of its containers.
type kind struct {
	name   string
	policy v1.RestartPolicy
	// grace is in seconds.
	grace      int64
	containers []part
	volumes    supply
}

// part is a container of a kind: its plan, and the end of its command line, after `diary PATH`.
type part struct {
	Container
	command []string
	// probed adds a readiness probe, which succeeds from the start.
	probed bool
}

// simple returns a part with only a fate and a command.
func simple(name string, fate Fate, takes time.Duration, command ...string) part {
	return part{Container: Container{Name: name, Fate: fate, Takes: takes}, command: command}
}

// slowly returns the command of a container that takes this long to end after SIGTERM.
func slowly(takes time.Duration) []string {
	return []string{"on-term", "/life/told", "x", takes.String(), "0"}
}

// kinds are the kinds of pods in a storm.
var kinds = []kind{
	{"server", v1.RestartPolicyAlways, 3, []part{{Container: Container{Name: "main"}, command: []string{"sleep"}, probed: true}}, objects},
	{"slow", v1.RestartPolicyAlways, 6, []part{simple("main", Stays, 2*time.Second, slowly(2*time.Second)...)}, few},
	{"stubborn", v1.RestartPolicyNever, 3, []part{simple("main", Stays, -1, "ignore-term")}, few},
	{"retry", v1.RestartPolicyOnFailure, 3, []part{simple("main", Ends, 0, "seq", "fail-once", "/life/once", "3", ";", "sleep", "300ms")}, few},
	{"job", v1.RestartPolicyNever, 3, []part{simple("main", Ends, 0, "exit", "0", "500ms")}, objects},
	{"crasher", v1.RestartPolicyAlways, 3, []part{simple("main", Crashes, 0, "exit", "1", "300ms")}, few},
	{
		"pair", v1.RestartPolicyOnFailure, 4,
		[]part{simple("main", Stays, time.Second, slowly(time.Second)...), simple("helper", Ends, 0, "exit", "0", "300ms")}, few,
	},
	{"family", v1.RestartPolicyAlways, 4, []part{
		{Container: Container{Name: "first", Fate: Ends, Init: true}, command: []string{"exit", "0"}},
		{Container: Container{Name: "side", Sidecar: true}, command: []string{"sleep"}},
		simple("main", Stays, time.Second, slowly(time.Second)...),
	}, objects},
}

func kindOf(name string) kind {
	for _, k := range kinds {
		if k.name == name {
			return k
		}
	}
	panic("survival: there is no kind " + name)
}

// plan returns the plan of a pod of the kind.
func (k kind) plan(uid, name string) Plan {
	p := Plan{UID: uid, Name: name, Policy: k.policy, Grace: time.Duration(k.grace) * time.Second}
	for _, c := range k.containers {
		p.Containers = append(p.Containers, c.Container)
	}
	return p
}

// manifest returns a pod of the kind, with the objects that it refers to. life is the directory of its diaries.
// An empty image is the one that every node has. label is a value that may change.
func (k kind) manifest(uid, name, life, image, label string) ([]byte, error) {
	pod := v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), Labels: map[string]string{"survival": label}},
		Spec: v1.PodSpec{
			RestartPolicy: k.policy, TerminationGracePeriodSeconds: ptr.To(k.grace),
			Volumes: k.volumes.volumes(name, life),
		},
	}
	for _, part := range k.containers {
		c := v1.Container{
			Name: part.Name, Image: devnode.SampleImage, ImagePullPolicy: v1.PullNever,
			Args:         append([]string{"diary", filepath.Join("/life", part.Name)}, part.command...),
			VolumeMounts: k.volumes.mounts(), EnvFrom: k.volumes.envFrom(name),
		}
		if image != "" {
			c.Image, c.ImagePullPolicy = image, v1.PullAlways
		}
		if part.probed {
			exists := &v1.ExecAction{Command: []string{"/sample", "exists", filepath.Join("/life", part.Name)}}
			c.ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: exists}, PeriodSeconds: 1, TimeoutSeconds: 5, FailureThreshold: 3}
		}
		if part.Sidecar {
			c.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
		}
		if part.Sidecar || part.Init {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		} else {
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
	}
	var text bytes.Buffer
	for _, document := range append(k.volumes.objects(name, label), pod) {
		data, err := json.Marshal(document)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&text, "%s\n---\n", data)
	}
	return text.Bytes(), nil
}
