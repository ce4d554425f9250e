package podctl

import (
	"strings"
	"testing"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestSourcesAccept: what is accepted is printed, without what could change the terminal; a source of which nothing is
// refused is an error.
func TestSourcesAccept(t *testing.T) {
	for _, command := range []string{"sources", "source"} {
		n := newNode(t)
		n.podconfigd(&fakePodconfigd{accepts: map[string]string{"api": "the source is of cluster \x1b[2Jc2"}})
		if code := n.run(t.Context(), command, "accept", "api"); code != exitOK {
			t.Errorf("exit code %d, stderr:\n%s", code, n.stderr)
		}
		if got, want := n.stdout.String(), `accepted: the source is of cluster \x1b[2Jc2`+"\n"; got != want {
			t.Errorf("stdout is %q; want %q", got, want)
		}
		if code := n.run(t.Context(), command, "accept", "file"); code == exitOK || !strings.Contains(n.stderr.String(), "nothing of source file") {
			t.Errorf("exit code %d, stderr:\n%s", code, n.stderr)
		}
	}
}

// TestConsumersHeld: the state names the held sources.
func TestConsumersHeld(t *testing.T) {
	c := &podconfigv1.Consumer{
		State: podconfigv1.ConsumerState_CONSUMER_STATE_LIVE, HeldSources: []*podconfigv1.HeldSource{{Name: "api"}, {Name: "file"}},
	}
	if got, want := stateText(c), "LIVE, api held, file held"; got != want {
		t.Errorf("the state is %q; want %q", got, want)
	}
}
