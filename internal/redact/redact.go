package redact

import (
	"reflect"
	"sync"

	v1 "k8s.io/api/core/v1"
)

// Placeholder replaces a hidden value. An empty value stays empty, except for the elements of lists and the values of
// maps.
const Placeholder = "(redacted)"

// maxGrown is the bound, in bytes of protobuf, by which redaction may enlarge a pod. It is far below
// manifest.MaxPodSize in every format.
const maxGrown = 128 << 10

func marked(p *v1.Pod, mark string) *v1.Pod {
	out := p.DeepCopy()
	podPlan().apply(reflect.ValueOf(out).Elem(), mark)
	return out
}

var podPlan = sync.OnceValue(func() *plan {
	root, _ := compile(reflect.TypeFor[v1.Pod](), table)
	return root
})
