package staticclaim

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/directory"
)

// TestBindingsOfANamespace: a namespace that has used up its bindings keeps its bound claims, gets no more until one ends, and leaves
// those of other namespaces. So does the node.
func TestBindingsOfANamespace(t *testing.T) {
	n := newNode(t)
	b := n.cfg.Bindings
	bind := func(namespace, name string) error {
		_, err := b.bind(Binding{Claim: directory.Claim{Namespace: namespace, Name: name}})
		return err
	}
	fill := func(namespace string, count int) {
		for i := range count {
			c := directory.Claim{Namespace: namespace, Name: fmt.Sprint("c", i)}
			b.bound[c] = Binding{Version: version, Claim: c}
		}
	}
	is := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "podctl volumes rm") ||
			!strings.Contains(err.Error(), b.dir) {
			t.Errorf("%v; want %q, and what to do", err, want)
		}
	}
	fill("greedy", maxOfNamespace-1)
	if err := bind("greedy", "last"); err != nil {
		t.Fatal(err)
	}
	is(bind("greedy", "more"), "512 claims of namespace greedy are bound on this node, and no more of them can be")
	if err := errors.Join(bind("greedy", "last"), bind("default", "data")); err != nil {
		t.Error(err)
	}
	if err := b.Forget(directory.Claim{Namespace: "greedy", Name: "last"}); err != nil {
		t.Fatal(err)
	}
	if err := bind("greedy", "more"); err != nil {
		t.Error(err)
	}
	for i := range maxBindings / maxOfNamespace {
		fill(fmt.Sprint("n", i), maxOfNamespace-1)
	}
	is(bind("new", "data"), fmt.Sprint(len(b.bound), " claims are bound on this node, and no more can be"))
}
