package redact

import (
	"reflect"
	"sync"

	v1 "k8s.io/api/core/v1"
)

// Placeholder stands where a value was. What was empty stays empty, but for the elements of lists and the values of maps.
const Placeholder = "(redacted)"

// maxGrown is the size in bytes, as protobuf, up to which a pod may be larger redacted than it was. It is far from
// manifest.MaxPodSize in every format.
const maxGrown = 128 << 10

// Pod returns a copy of p as an inspector may see it: names, references and structure are kept, so that it stays readable, and
// can be encoded as any pod. It isn't fit to be run. A pod of many short values, which could become too large to be sent with the
// Placeholder in the place of each, has empty texts there instead. Nil gives nil.
func Pod(p *v1.Pod) *v1.Pod {
	if p == nil {
		return nil
	}
	out := marked(p, Placeholder)
	if size := out.Size(); size > maxGrown && size > p.Size() {
		return marked(p, "")
	}
	return out
}

func marked(p *v1.Pod, mark string) *v1.Pod {
	out := p.DeepCopy()
	podPlan().apply(reflect.ValueOf(out).Elem(), mark)
	return out
}

var podPlan = sync.OnceValue(func() *plan {
	root, _ := compile(reflect.TypeFor[v1.Pod](), table)
	return root
})
