package world

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/inside"
)

// row is a pod and the expected observations of it. In meta, spec and beside, {{dir}} stands for a directory of the
// node that only this row uses, {{node}} for the node's name, {{pod}} for the pod's name, {{namespace}} for its
// namespace and {{guest}} for the program guest.
//
// Of check, all, node, status, events and refused, those that are set must hold. If status and events aren't set, the
// pod must have no warning events.
type row struct {
	// name is unique among all rows. The pod's name is derived from it.
	name string
	// meta is the YAML of ObjectMeta except name and namespace.
	meta string
	// ownNamespace puts the pod into a separate namespace instead of default, because other rows have objects of the
	// same names.
	ownNamespace bool
	// spec is the YAML of a PodSpec. See pod.write for its defaults.
	spec string
	// beside are further documents of the manifest: ConfigMaps and Secrets.
	beside []string
	// paths are the files that containers without arguments report.
	paths []string
	// prepare sets up what the pod needs on the node.
	prepare func(t *testing.T, p *pod)

	// check gets the report of container main. all gets the reports of all containers with the command inspect, by
	// name.
	check func(r *inside.Report) error
	all   func(found map[string]*inside.Report) error
	// node checks the pod from outside, while the inspecting containers run.
	node func(p *pod, found map[string]*inside.Report) error
	// status and events are called until they return nil. The pod that status gets has only metadata and status.
	status func(p *v1.Pod) error
	events func(events []*podexecv1.PodEvent) error
	// refused is a part of podconfigd's reason for rejecting the manifest, or one of its documents.
	refused string

	// needs is a feature that not every node has. On a node without it, the row's golden is the test of the request to
	// the runtime.
	needs feature
	// without is a feature for whose lack the row is. On a node with the feature, another row tests it.
	without feature
	// golden is the name of a pod in the goldens of package criconfig.
	golden string
}

// runRows runs each row on each of the runtimes, on the shared benches.
func runRows(t *testing.T, runtimes []namedRuntime, rows []row) {
	t.Helper()
	on(t, runtimes, func(t *testing.T, b *bench) { runOn(t, b, rows) })
}

// runRowsWith is runRows on separate benches; flags are podexecd's. {{dir}} can't be used in the flags: use
// onOwnBench.
func runRowsWith(t *testing.T, runtimes []namedRuntime, flags []string, rows []row) {
	t.Helper()
	onOwnBench(t, runtimes, flags, func(t *testing.T, b *bench) { runOn(t, b, rows) })
}

func runOn(t *testing.T, b *bench, rows []row) {
	for i := range rows {
		t.Run(strings.ReplaceAll(rows[i].name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			rows[i].run(t, b)
		})
	}
}

func (r *row) run(t *testing.T, b *bench) {
	if !r.possible(t, b) {
		return
	}
	p := newPod(t, b, r.name)
	if r.ownNamespace {
		p.ownNamespace()
	}
	if r.prepare != nil {
		r.prepare(t, p)
	}
	p.write(r.meta, r.spec, r.beside, r.paths)
	if r.refused != "" {
		p.awaitRefused(r.refused)
		return
	}
	if r.status != nil {
		p.await("the status", func(pod *v1.Pod) error { return r.status(pod) })
	}
	if r.events != nil {
		p.awaitEvents(r.events)
	}
	if r.check == nil && r.all == nil && r.node == nil {
		if r.status == nil && r.events == nil {
			t.Fatal("the row checks nothing")
		}
		return
	}
	found := p.reports()
	if r.check != nil {
		if found["main"] == nil {
			t.Fatal("the pod has no container main that inspects")
		}
		check(t, r.check(found["main"]))
	}
	if r.all != nil {
		check(t, r.all(found))
	}
	if r.node != nil {
		check(t, r.node(p, found))
	}
	if r.status == nil && r.events == nil {
		check(t, unwarned(b.eventsOf(p.name)))
	}
}

// possible reports whether the node is one that the row is for.
func (r *row) possible(t *testing.T, b *bench) bool {
	t.Helper()
	if r.without != "" && detects(t, r.without, b.CRI) {
		t.Logf("this node has %s", r.without)
		return false
	}
	return r.needs == "" || can(t, r.needs, b.CRI, r.golden)
}
