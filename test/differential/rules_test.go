package differential

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

// example is a case of a rule.
type example struct {
	rule string
	// steps end with the step that shows the rule.
	steps []Step
	// show returns the part of each op of the last step that is compared. Nil means the whole op.
	show func(Op) string
	// upstream and podstream are each side's ops for the last step, in incremental mode.
	upstream, podstream string
}

var examples = []example{
	{
		rule:      "uidInTwoSources",
		steps:     []Step{set("api", pod("web", "u1")), set("file", pod("other", "u1"))},
		upstream:  "ADD file: other/u1",
		podstream: "REMOVE api: web/u1; ADD file: other/u1",
	},
	{
		rule:      "nameInTwoSources",
		steps:     []Step{set("http", pod("web", "u1")), set("api", pod("web", "u2"))},
		upstream:  "ADD api: web/u2",
		podstream: "ADD api:",
	},
	{
		rule:      "uidTwiceInSet",
		steps:     []Step{set("file", pod("web", "u1"), pod("db", "u1"))},
		upstream:  "ADD file: db/u1 web/u1",
		podstream: "ADD file: web/u1",
	},
	{
		rule:      "mirrorBesideItsName",
		steps:     []Step{set("api", pod("web", "u1"), pod("web", "u2", mirror("m")))},
		upstream:  "ADD api: web/u1",
		podstream: "ADD api: web/u1 web/u2",
	},
	{
		rule:      "renamedUnderUID",
		steps:     []Step{set("file", pod("web", "u1")), set("file", pod("www", "u1", label("a")))},
		upstream:  "UPDATE file: web/u1",
		podstream: "REMOVE file: web/u1; ADD file: www/u1",
	},
	{
		rule:      "renamedUnderUID",
		steps:     []Step{set("file", pod("web", "u1")), set("file", pod("www", "u1"))},
		upstream:  "silence",
		podstream: "REMOVE file: web/u1; ADD file: www/u1",
	},
	{
		rule:      "changedMirror",
		steps:     []Step{set("api", pod("web", "u1", mirror("m1"))), set("api", pod("web", "u1", mirror("m2"), label("a")))},
		show:      annotation(kubetypes.ConfigMirrorAnnotationKey),
		upstream:  "UPDATE m1",
		podstream: "UPDATE m2",
	},
	{
		rule:      "changedMirror",
		steps:     []Step{set("api", pod("web", "u1")), set("api", pod("web", "u1", mirror("m"), phase("Running")))},
		show:      annotation(kubetypes.ConfigMirrorAnnotationKey),
		upstream:  "RECONCILE ",
		podstream: "RECONCILE m",
	},
	{
		rule:      "writtenDifferently",
		steps:     []Step{set("api", pod("web", "u1", cpu("1"))), set("api", pod("web", "u1", cpu("1000m")))},
		upstream:  "UPDATE api: web/u1",
		podstream: "silence",
	},
	{
		rule: "writtenDifferently",
		steps: []Step{
			set("api", pod("web", "u1")), set("api", pod("web", "u1", func(p *v1.Pod) { p.Labels = map[string]string{} })),
		},
		upstream:  "UPDATE api: web/u1",
		podstream: "silence",
	},
	{
		rule:      "wholeObject",
		steps:     []Step{set("api", pod("web", "u1", version("1"))), set("api", pod("web", "u1", version("2"), label("a")))},
		show:      func(op Op) string { return op.Op + " resourceVersion " + op.Pods[0].ResourceVersion },
		upstream:  "UPDATE resourceVersion 1",
		podstream: "UPDATE resourceVersion 2",
	},
	{
		rule:  "firstSeenTime",
		steps: []Step{set("file", pod("web", "u1"), pod("db", "u2"))},
		show: func(op Op) string {
			times := map[string]bool{}
			for _, p := range op.Pods {
				times[p.Annotations[kubetypes.ConfigFirstSeenAnnotationKey]] = true
			}
			return fmt.Sprintf("%s, times: %d", op, len(times))
		},
		upstream:  "ADD file: web/u1 db/u2, times: 2",
		podstream: "ADD file: web/u1 db/u2, times: 1",
	},
	{
		rule:      "removeByReference",
		steps:     []Step{set("file", pod("web", "u1")), set("file")},
		show:      func(op Op) string { return fmt.Sprintf("%s, containers: %d", op, len(op.Pods[0].Spec.Containers)) },
		upstream:  "REMOVE file: web/u1, containers: 1",
		podstream: "REMOVE file: web/u1, containers: 0",
	},
}

// TestRules shows each rule's difference. If a side changes, the rule must be changed too.
func TestRules(t *testing.T) {
	for _, r := range Rules {
		if !slices.ContainsFunc(examples, func(e example) bool { return e.rule == r.Name }) {
			t.Errorf("rule %s has no example", r.Name)
		}
	}
	for _, e := range examples {
		t.Run(e.rule, func(t *testing.T) { e.test(t) })
	}
}

func (e example) test(t *testing.T) {
	at := slices.IndexFunc(Rules, func(r Rule) bool { return r.Name == e.rule })
	if at < 0 {
		t.Fatal("there is no such rule")
	}
	rule := Rules[at]
	both, err := start(t)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := both.close(); err != nil {
			t.Error(err)
		}
	})
	history := &History{}
	for i, step := range e.steps {
		last := i == len(e.steps)-1
		if got := rule.Recognises(history, step); last && !got {
			t.Errorf("the rule doesn't recognise step %d", i+1)
		}
		var wantAvoided []string
		if last && rule.Handling == Avoided {
			wantAvoided = []string{rule.Name}
		}
		if got := avoided(history, step); !slices.Equal(got, wantAvoided) {
			t.Errorf("step %d is a case of %v; want %v", i+1, got, wantAvoided)
		}
		history.Add(step)
		upstream, podstream, err := both.set(step)
		if err != nil {
			t.Fatal(err)
		}
		diff, err := both.comparisons[0].Step(upstream[0], podstream[0])
		if err != nil {
			t.Fatal(err)
		}
		if (diff != "") != (wantAvoided != nil) {
			t.Errorf("step %d: the comparison returns %q", i+1, diff)
		}
		if !last {
			continue
		}
		if got := e.shown(upstream[0]); got != e.upstream {
			t.Errorf("upstream sends %q; want %q", got, e.upstream)
		}
		if got := e.shown(podstream[0]); got != e.podstream {
			t.Errorf("Podstream sends %q; want %q", got, e.podstream)
		}
	}
}

func (e example) shown(ops []Op) string {
	if e.show == nil {
		return Text(ops)
	}
	var out []string
	for _, op := range ops {
		out = append(out, e.show(op))
	}
	return strings.Join(out, "; ")
}

func set(source string, pods ...*v1.Pod) Step { return Step{Source: source, Pods: pods} }

func pod(name, uid string, changes ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(uid)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "registry.example/web:1"}}},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func label(value string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Labels = map[string]string{"label": value} }
}

func mirror(value string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Annotations = map[string]string{kubetypes.ConfigMirrorAnnotationKey: value} }
}

func phase(value v1.PodPhase) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Status.Phase = value }
}

func cpu(amount string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(amount)}
	}
}

func version(value string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.ResourceVersion = value }
}

func deleted(p *v1.Pod) {
	at, grace := metav1.Unix(1_700_000_000, 0), int64(30)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
}

// annotation returns a function that shows the annotation of the op's first pod.
func annotation(key string) func(Op) string {
	return func(op Op) string { return op.Op + " " + op.Pods[0].Annotations[key] }
}
