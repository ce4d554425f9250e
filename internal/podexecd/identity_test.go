package podexecd

import (
	"os"
	"path/filepath"
	"testing"
)

// The ID must outlive everything except its directory: by it, podexecd finds its own pods.
func TestAgentIDStays(t *testing.T) {
	dir := t.TempDir()
	first, err := agentID(dir)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := agentID(dir); again != first || err != nil {
		t.Errorf("the second start has id %q, %v; want %q", again, err, first)
	}
	if other, err := agentID(t.TempDir()); other == first || err != nil {
		t.Errorf("another directory has id %q, %v; want another than %q", other, err, first)
	}
	for _, damage := range []string{"", "junk\n"} {
		if err := os.WriteFile(filepath.Join(dir, "agent-id"), []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		if id, err := agentID(dir); err == nil {
			t.Errorf("a file that holds %q gives id %q; a new id would make strangers of all pods", damage, id)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"extra"}, {"--container-runtime-endpoint=run/x.sock"}, {"--no-such-flag"}, {"--hostname-override=Not A Name"},
	} {
		if _, err := parse(args, t.Output()); err == nil {
			t.Errorf("podexecd takes %v", args)
		}
	}
	opts, err := parse([]string{"--container-runtime-endpoint=unix:///run/x.sock", "--hostname-override=N1"}, t.Output())
	if err != nil || opts.settings.ImageEndpoint != "unix:///run/x.sock" || opts.node != "n1" {
		t.Errorf("options %+v, %v", opts, err)
	}
}
