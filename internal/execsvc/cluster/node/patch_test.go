package node

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// Of an address that changes, the old one goes: the list is replaced.
func TestPatchReplacesAddresses(t *testing.T) {
	node := func(addresses ...string) *v1.Node {
		n := &v1.Node{}
		n.UID = "u"
		for _, a := range addresses {
			n.Status.Addresses = append(n.Status.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: a})
		}
		return n
	}
	for name, c := range map[string]struct {
		before, after *v1.Node
		want          string
	}{
		"nothing": {node("a"), node("a"), ""},
		"first":   {node(), node("a"), `{"metadata":{"uid":"u"},"status":{"addresses":[{"address":"a","type":"InternalIP"}]}}`},
		"another": {
			node("a", "b"), node("a", "c"), `{"metadata":{"uid":"u"},"status":{"addresses":[{"type":"InternalIP","address":"a"},` +
				`{"type":"InternalIP","address":"c"},{"$patch":"replace"}]}}`,
		},
	} {
		got, err := statusPatch(c.before, c.after)
		if err != nil || strings.ReplaceAll(string(got), `,"$setElementOrder/addresses":[{"type":"InternalIP"}]`, "") != c.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
	}
	spec := node("a")
	spec.Spec.Unschedulable = true
	if got, err := statusPatch(node("a"), spec); got != nil || err != nil {
		t.Errorf("of another spec: %s, %v; want no patch", got, err)
	}
}
