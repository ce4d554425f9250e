package podctl

import (
	"strings"
	"testing"
)

// TestElsewhere: get and describe name the command that shows claims and other objects, as kubectl's users ask for them, and ask no daemon.
func TestElsewhere(t *testing.T) {
	for args, want := range map[string]string{
		"get pvc": "podctl volumes", "get pvc data": "podctl volumes", "get PersistentVolumeClaims": "podctl volumes", "get cm": "podctl objects",
		"describe pvc/data": "podctl volumes", "describe pvc data": "podctl volumes", "describe pod/web persistentvolumeclaim/data": "podctl volumes",
		"describe configmap/app": "podctl objects", "describe node n1": "podctl doctor",
	} {
		n := newNode(t)
		if code := n.run(t.Context(), strings.Fields(args)...); code != exitUsage || !strings.Contains(n.stderr.String(), want) {
			t.Errorf("%s: exit code %d, stderr %q; want %s", args, code, n.stderr, want)
		}
	}
	// A pod may have such a name.
	n := newNode(t)
	if code := n.run(t.Context(), "describe", "pvc"); code != exitFailed {
		t.Errorf("a pod called pvc: exit code %d, stderr %q", code, n.stderr)
	}
}
