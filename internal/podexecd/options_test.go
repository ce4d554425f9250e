package podexecd

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
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

// TestCheckConfig: --check-config prints what would run, thresholds and reservations included, and no password.
func TestCheckConfig(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config.yaml")
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nkubeReserved: {memory: 100Mi}\nfeatureGates: {X: true}\n" +
		"staticPodURL: http://127.0.0.1/\nstaticPodURLHeader: {Authorization: [secret]}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if _, err := parse([]string{"--hostname-override=n1", "--check-config", "--config=" + config}, &out); !errors.Is(err, pflag.ErrHelp) {
		t.Fatal(err)
	}
	for _, want := range []string{"node: n1\n", "\n---\n", "\nkubeReserved:\n  memory: 100Mi\n", "\n  nodefs.available: 10%\n", "warning: feature gate X is unknown",
		"exception: failCgroupV1 is false by default"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\ndoes not contain %q", &out, want)
		}
	}
	if strings.Contains(out.String(), "secret") {
		t.Errorf("%s\ncontains a header's value", &out)
	}
}
