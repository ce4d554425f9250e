package podexecd

import (
	"log/slog"
	"strings"
	"testing"
)

// A node's name may be as long as a consumer's, and podexecd puts its own before it.
func TestConsumerNameFits(t *testing.T) {
	long := strings.Repeat("n.", 126) + "n"
	for node, want := range map[string]string{"n1": "podexecd@n1", long: "podexecd@" + long[:244]} {
		opts, err := parse([]string{"--hostname-override=" + node}, t.Output())
		if err != nil {
			t.Fatalf("node %q: %v", node, err)
		}
		if got := opts.stream(slog.New(slog.DiscardHandler)).Consumer; got != want || opts.node != node {
			t.Errorf("on node %q the consumer is %q; want %q", opts.node, got, want)
		}
	}
}
