package differential

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
	"pgregory.net/rapid"
)

// draft is a random step before the rules are applied: the changes of its source's last set. It has only
// numbers, so that rapid shrinks it well.
type draft struct {
	Source int
	Edits  []edit
}

// edit is one change of a set: the number of the edit, the index of the pod, and the number of the value. All
// wrap around.
type edit struct{ Kind, At, Value int }

// drafts is a random sequence of drafts, in groups: a slice of slices is long enough to reach interesting
// states, and still shrinks well.
var drafts = rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) draft {
	return draft{
		Source: rapid.IntRange(0, len(Sources)-1).Draw(t, "source"),
		Edits: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) edit {
			return edit{
				Kind: rapid.IntRange(0, len(edits)-1).Draw(t, "kind"), At: rapid.IntRange(0, 9).Draw(t, "at"),
				Value: rapid.IntRange(0, 99).Draw(t, "value"),
			}
		}), 0, 6).Draw(t, "edits"),
	}
}), 1, 20), 1, 20)

// sequence is the steps that a random test has sent to both sides.
type sequence struct {
	steps   []Step
	history History
	sets    map[string][]*v1.Pod
	// steppedBack counts, by rule, the edits that were left out.
	steppedBack map[string]int
}

func newSequence() *sequence {
	return &sequence{sets: map[string][]*v1.Pod{}, steppedBack: map[string]int{}}
}

// next returns the draft as a step that no Avoided rule recognises, without the edits that would make a rule
// apply.
func (q *sequence) next(d draft) Step {
	step := Step{Source: Sources[d.Source], Pods: q.sets[Sources[d.Source]]}
	for _, e := range d.Edits {
		edited := Step{Source: step.Source, Pods: e.of(step.Pods)}
		if rules := avoided(&q.history, edited); len(rules) > 0 {
			q.steppedBack[rules[0]]++
			continue
		}
		step = edited
	}
	return step
}

// take adds a step.
func (q *sequence) take(s Step) {
	q.steps = append(q.steps, s)
	q.history.Add(s)
	q.sets[s.Source] = s.Pods
}

func (q *sequence) last() Step { return q.steps[len(q.steps)-1] }

// String returns the steps as text: one line for each step, and one for each pod.
func (q *sequence) String() string {
	var text strings.Builder
	for i, s := range q.steps {
		fmt.Fprintf(&text, "%d: %s\n", i+1, s.Source)
		for _, pod := range s.Pods {
			fmt.Fprintf(&text, "   %s\n", jsonOf(pod))
		}
	}
	return text.String()
}

// avoided returns the names of the Avoided rules that recognise the step.
func avoided(h *History, s Step) []string {
	var out []string
	for _, r := range Rules {
		if r.Handling == Avoided && r.Recognises(h, s) {
			out = append(out, r.Name)
		}
	}
	return out
}

// of returns the set after the edit. The given set and its pods don't change.
func (e edit) of(set []*v1.Pod) []*v1.Pod {
	kind := edits[e.Kind]
	out := slices.Clone(set)
	switch {
	case kind.list != nil:
		return kind.list(out, e.At, e.Value)
	case len(out) == 0:
		return out
	default:
		at := e.At % len(out)
		out[at] = out[at].DeepCopy()
		kind.pod(out[at], e.Value)
		return out
	}
}

// There are few names, so that names and UIDs conflict.
var names = []string{"web", "db", "log", "dns"}

// newPod returns one of a few pods: four names in two namespaces, each with three UIDs.
func newPod(value int) *v1.Pod {
	name, namespace := names[value%4], []string{"default", "shop"}[value/4%2]
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID(fmt.Sprintf("%s-%s-%d", namespace, name, value/8%3))},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "registry.example/" + name + ":1"}}},
	}
}

// edits are the possible changes of a set, or of one pod. Important ones are listed more than once.
var edits = []struct {
	name string
	list func(set []*v1.Pod, at, value int) []*v1.Pod
	pod  func(p *v1.Pod, value int)
}{
	{name: "come", list: come},
	{name: "come", list: come},
	{name: "come", list: come},
	{name: "come mirrored", list: func(set []*v1.Pod, at, value int) []*v1.Pod {
		p := newPod(value)
		p.UID += "-mirror"
		p.Annotations = map[string]string{kubetypes.ConfigMirrorAnnotationKey: "m"}
		return slices.Insert(set, at%(len(set)+1), p)
	}},
	{name: "go", list: func(set []*v1.Pod, at, _ int) []*v1.Pod {
		if len(set) == 0 {
			return set
		}
		return slices.Delete(set, at%len(set), at%len(set)+1)
	}},
	{name: "empty", list: func([]*v1.Pod, int, int) []*v1.Pod { return nil }},
	{name: "swap", list: func(set []*v1.Pod, at, value int) []*v1.Pod {
		if n := len(set); n > 1 {
			set[at%n], set[value%n] = set[value%n], set[at%n]
		}
		return set
	}},
	{name: "double", list: func(set []*v1.Pod, at, value int) []*v1.Pod {
		if len(set) == 0 {
			return set
		}
		twin := set[at%len(set)].DeepCopy()
		if value%3 > 0 {
			twin.UID += types.UID(fmt.Sprintf("-twin%d", value%3))
		}
		return slices.Insert(set, value%(len(set)+1), twin)
	}},
	{name: "new incarnation", pod: func(p *v1.Pod, value int) {
		p.UID = newPod(slices.Index(names, p.Name) + value/4%6*4).UID
	}},
	{name: "rename", pod: func(p *v1.Pod, value int) { p.Name = names[value%4] }},
	{name: "image", pod: func(p *v1.Pod, value int) {
		p.Spec.Containers[0].Image = fmt.Sprintf("registry.example/%s:%d", p.Name, value%3)
	}},
	{name: "command", pod: func(p *v1.Pod, value int) {
		p.Spec.Containers[0].Command = [][]string{nil, {"sleep"}, {"sleep", "9"}}[value%3]
	}},
	{name: "env", pod: func(p *v1.Pod, value int) {
		p.Spec.Containers[0].Env = [][]v1.EnvVar{nil, {{Name: "A"}, {Name: "B"}}, {{Name: "B"}, {Name: "A"}}}[value%3]
	}},
	{name: "cpu", pod: func(p *v1.Pod, value int) {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse([]string{"100m", "1", "1000m", "0.1"}[value%4])}
	}},
	{name: "sidecar", pod: func(p *v1.Pod, value int) {
		p.Spec.InitContainers = [][]v1.Container{nil, {{Name: "init"}}, {{Name: "init", Image: "x"}}}[value%3]
	}},
	{name: "grace", pod: func(p *v1.Pod, value int) { p.Spec.TerminationGracePeriodSeconds = seconds(value) }},
	{name: "labels", pod: func(p *v1.Pod, value int) {
		p.Labels = []map[string]string{nil, {}, {"app": "a"}, {"app": "b"}, {"app": "a", "tier": ""}}[value%5]
	}},
	{name: "annotation", pod: func(p *v1.Pod, value int) { annotate(p, "note", value) }},
	{name: "config.hash", pod: func(p *v1.Pod, value int) { annotate(p, kubetypes.ConfigHashAnnotationKey, value) }},
	{name: "config.source", pod: func(p *v1.Pod, value int) { annotate(p, kubetypes.ConfigSourceAnnotationKey, value) }},
	{name: "config.seen", pod: func(p *v1.Pod, value int) { annotate(p, kubetypes.ConfigFirstSeenAnnotationKey, value) }},
	{name: "config.mirror", pod: func(p *v1.Pod, value int) { annotate(p, kubetypes.ConfigMirrorAnnotationKey, value) }},
	{name: "no annotations", pod: func(p *v1.Pod, value int) { p.Annotations = []map[string]string{nil, {}}[value%2] }},
	{name: "phase", pod: setPhase},
	{name: "phase", pod: setPhase},
	{name: "conditions", pod: func(p *v1.Pod, value int) {
		p.Status.Conditions = [][]v1.PodCondition{nil, {}, {
			{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.Unix(1_700_000_000+int64(value), 0)},
		}}[value%3]
	}},
	{name: "deletionTimestamp", pod: deletionTimestamp},
	{name: "deletionTimestamp", pod: deletionTimestamp},
	{name: "deletionGracePeriodSeconds", pod: func(p *v1.Pod, value int) { p.DeletionGracePeriodSeconds = seconds(value) }},
	{name: "resourceVersion", pod: func(p *v1.Pod, value int) { p.ResourceVersion = fmt.Sprint(value) }},
	{name: "generation", pod: func(p *v1.Pod, value int) { p.Generation = int64(value % 3) }},
	{name: "creationTimestamp", pod: func(p *v1.Pod, value int) { p.CreationTimestamp = metav1.Unix(1_600_000_000+int64(value%3), 0) }},
	{name: "ownerReferences", pod: func(p *v1.Pod, value int) {
		p.OwnerReferences = [][]metav1.OwnerReference{nil, {{Kind: "Node", Name: "n1"}}}[value%2]
	}},
	{name: "finalizers", pod: func(p *v1.Pod, value int) { p.Finalizers = [][]string{nil, {"example.com/wait"}}[value%2] }},
}

func come(set []*v1.Pod, at, value int) []*v1.Pod {
	return slices.Insert(set, at%(len(set)+1), newPod(value))
}

func setPhase(p *v1.Pod, value int) {
	p.Status.Phase = []v1.PodPhase{"", v1.PodPending, v1.PodRunning, v1.PodFailed}[value%4]
}

func deletionTimestamp(p *v1.Pod, value int) {
	p.DeletionTimestamp = nil
	if value%3 > 0 {
		at := metav1.Unix(1_700_000_000+int64(value%3), 0)
		p.DeletionTimestamp = &at
	}
}

func seconds(value int) *int64 {
	if value%4 == 3 {
		return nil
	}
	n := int64(value%4) * 30
	return &n
}

// annotate sets the annotation or, with every third value, removes it.
func annotate(p *v1.Pod, key string, value int) {
	if value%3 == 0 {
		delete(p.Annotations, key)
		return
	}
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, []string{"", "1", "2001-02-03T04:05:06Z"}[value%3])
}
