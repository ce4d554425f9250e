package world

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestStorage: a pod that exceeds its limit of the node's disk is evicted, with the kubelet's messages.
func TestStorage(t *testing.T) {
	t.Parallel()
	much := strings.Repeat("x", 100<<10)
	runRows(t, latest, []row{
		{
			name: "an emptyDir beyond its size limit",
			spec: `{volumes: [{name: v, emptyDir: {sizeLimit: 64Ki}}], containers: [{name: main, args: [seq, write, /data/f, ` + much +
				`, ;, sleep], volumeMounts: [{name: v, mountPath: /data}]}]}`,
			status: evicted(`Usage of EmptyDir volume "v" exceeds the limit "64Ki". `),
		},
		{
			name: "containers beyond their ephemeral storage",
			spec: `{containers: [{name: main, args: [seq, write, /f, ` + much +
				`, ;, sleep], resources: {limits: {ephemeral-storage: 64Ki}}}]}`,
			status: evicted(`Pod ephemeral local storage usage exceeds the total limit of containers 64Ki. `),
		},
	})
}

// evicted expects the status of a pod that was evicted with that message.
func evicted(message string) func(*v1.Pod) error {
	return func(p *v1.Pod) error {
		if s := p.Status; s.Phase != v1.PodFailed || s.Reason != "Evicted" || s.Message != message {
			return fmt.Errorf("it is %s %s: %q; want it evicted: %q", s.Phase, s.Reason, s.Message, message)
		}
		return nil
	}
}
