package differential

import (
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// refusedBases are the base pods that the kubelet always rejects.
var refusedBases = []string{"server"}

// TestBasePods: the kubelet accepts the base pods, so that a rejection comes from the mutation. Only a
// reference to a ConfigMap or Secret may be rejected.
func TestBasePods(t *testing.T) {
	bases, err := basePods()
	if err != nil {
		t.Fatal(err)
	}
	compare := comparer(t)
	for _, b := range bases {
		m := &Mutant{Base: b.name, Tree: b.tree}
		if m.Manifest, err = manifestOf(b.tree); err != nil {
			t.Fatal(err)
		}
		kubelet := Kubelet(m.Manifest)
		if refused := slices.Contains(refusedBases, b.name); (kubelet.Pod == nil) != refused {
			t.Errorf("%s: the kubelet's pod is %v, its error %v", b.name, kubelet.Pod != nil, kubelet.Err)
		}
		for _, d := range compare(m) {
			if explain(m, d) == "" {
				t.Errorf("%s: no rule explains %s", b.name, d)
			}
		}
	}
}

// TestBasePodsHaveEveryField: each field of a pod is in one of the base pods, and so is mutated.
func TestBasePodsHaveEveryField(t *testing.T) {
	bases, err := basePods()
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, b := range bases {
		for _, s := range sitesOf(b.tree, podType) {
			have[s.owner.String()+"."+s.field] = true
		}
	}
	seen := map[reflect.Type]bool{}
	var walk func(t reflect.Type) []string
	walk = func(t reflect.Type) (missing []string) {
		t = bare(t)
		for t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = bare(t.Elem())
		}
		// A status in a manifest is ignored.
		if seen[t] || isLeaf(t) || t == reflect.TypeFor[v1.PodStatus]() {
			return nil
		}
		seen[t] = true
		for _, m := range membersOf(t) {
			if field := t.String() + "." + m.name; !have[field] {
				missing = append(missing, field)
			}
			missing = append(missing, walk(m.typ)...)
		}
		return missing
	}
	for _, field := range walk(podType) {
		t.Errorf("no base pod has %s", field)
	}
}

// TestMutants: the same seed and number make the same mutant, and another number another one.
func TestMutants(t *testing.T) {
	texts := map[string]bool{}
	var mutators []*Mutator
	for range 2 {
		mutator, err := NewMutator(7)
		if err != nil {
			t.Fatal(err)
		}
		mutators = append(mutators, mutator)
	}
	const count = 200
	for number := range uint64(count) {
		var same []string
		for _, mutator := range mutators {
			m, err := mutator.Mutant(number)
			if err != nil {
				t.Fatal(err)
			}
			same = append(same, m.String())
			texts[string(m.Text)] = true
		}
		if same[0] != same[1] {
			t.Fatalf("not the same:\n%s\n%s", same[0], same[1])
		}
	}
	if len(texts) < count/2 {
		t.Errorf("%d mutants have only %d texts", count, len(texts))
	}
}
