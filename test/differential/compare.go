package differential

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

// Comparison compares the ops of both sides in one mode, step by step. The zero value is before the first step.
type Comparison struct {
	step                int
	upstream, podstream firstSeen
}

// Step compares the ops of the next step, in their order. The pods of an op are a set. It returns the
// difference (- upstream, + Podstream), or "".
func (c *Comparison) Step(upstream, podstream []Op) (string, error) {
	c.step++
	want, err := c.upstream.normal(c.step, upstream)
	if err != nil {
		return "", err
	}
	got, err := c.podstream.normal(c.step, podstream)
	if err != nil {
		return "", err
	}
	return gocmp.Diff(want, got), nil
}

// normalOp is an Op without the fields that LeftOut rules name.
type normalOp struct {
	Op, Source string
	Pods       []normalPod
}

type normalPod struct {
	UID, Namespace, Name string
	// Content is the JSON of the pod. Nil in a REMOVE (rule removeByReference).
	Content map[string]any
}

// firstSeen has the step at which each value of config.seen was first sent.
type firstSeen map[string]int

func (f *firstSeen) normal(step int, ops []Op) ([]normalOp, error) {
	var out []normalOp
	for _, op := range ops {
		n := normalOp{Op: op.Op, Source: op.Source}
		for _, pod := range sorted(op.Pods) {
			p := normalPod{UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name}
			if op.Op != "REMOVE" {
				var err error
				if p.Content, err = f.content(step, pod); err != nil {
					return nil, fmt.Errorf("pod %s of %s: %w", pod.Name, op, err)
				}
			}
			n.Pods = append(n.Pods, p)
		}
		out = append(out, n)
	}
	return out, nil
}

// content returns the part of a pod that a consumer uses. The rest of the metadata is left out (rule
// wholeObject), and only the step of the first-seen time is kept (rule firstSeenTime).
func (f *firstSeen) content(step int, pod *v1.Pod) (map[string]any, error) {
	annotations := maps.Clone(pod.Annotations)
	if seen, ok := annotations[kubetypes.ConfigFirstSeenAnnotationKey]; ok {
		annotations[kubetypes.ConfigFirstSeenAnnotationKey] = f.stepOf(step, seen)
	}
	text, err := json.Marshal(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Labels: pod.Labels, Annotations: annotations,
			DeletionTimestamp: pod.DeletionTimestamp, DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
		},
		Spec: pod.Spec, Status: pod.Status,
	})
	if err != nil {
		return nil, err
	}
	var content map[string]any
	return content, json.Unmarshal(text, &content)
}

func (f *firstSeen) stepOf(step int, seen string) string {
	if _, err := time.Parse(time.RFC3339Nano, seen); err != nil {
		return err.Error()
	}
	if *f == nil {
		*f = firstSeen{}
	}
	if _, ok := (*f)[seen]; !ok {
		(*f)[seen] = step
	}
	return fmt.Sprint("step ", (*f)[seen])
}

// sorted returns the pods by UID, then name.
func sorted(pods []*v1.Pod) []*v1.Pod {
	return slices.SortedStableFunc(slices.Values(pods), func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}
