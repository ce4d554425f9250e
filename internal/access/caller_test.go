package access

import "testing"

func TestHasNode(t *testing.T) {
	for _, tc := range []struct {
		nodes []string
		want  bool
	}{{nil, true}, {[]string{"n1"}, true}, {[]string{"n0", "n1"}, true}, {[]string{"n2"}, false}} {
		if got := (Caller{Nodes: tc.nodes}).HasNode("n1"); got != tc.want {
			t.Errorf("the scope %q has n1: %v; want %v", tc.nodes, got, tc.want)
		}
	}
}
