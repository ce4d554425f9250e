package usage

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// auditPolicy makes the API server log the nodes' writes.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ["system:nodes"], verbs: [create, update, patch, delete]}
- {level: None}
`

// auditFlags returns the API server's flags. Its audit log continues after its restarts.
func auditFlags(dir string) ([]string, error) {
	policy := filepath.Join(dir, "audit-policy.yaml")
	if err := control.ReplaceFile(policy, []byte(auditPolicy)); err != nil {
		return nil, err
	}
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + filepath.Join(dir, "audit.log")}, nil
}

// request is a write of a node at the API server.
type request struct {
	at time.Time
	// what is the verb and the resource, for instance "patch pods/status".
	what, namespace, name string
	code                  int
}

// requests returns the node's writes since then, in the order of their answers.
func (n *node) requests(t *testing.T, since time.Time) []request {
	t.Helper()
	var all []request
	for line := range bytes.Lines(rig.Get(os.ReadFile(filepath.Join(n.site.dir, "audit.log")))(t)) {
		var entry struct {
			User           struct{ Username string }
			Verb           string
			ObjectRef      struct{ Resource, Subresource, Namespace, Name string }
			ResponseStatus struct{ Code int }
			// Received is the time at which the server had read it.
			Received time.Time `json:"requestReceivedTimestamp"`
		}
		if json.Unmarshal(line, &entry) != nil { // a killed server may have left an incomplete line
			continue
		}
		if entry.User.Username != "system:node:"+n.Name || entry.Received.Before(since) {
			continue
		}
		r := request{
			at: entry.Received, what: entry.Verb + " " + entry.ObjectRef.Resource, namespace: entry.ObjectRef.Namespace, name: entry.ObjectRef.Name,
			code: entry.ResponseStatus.Code,
		}
		if entry.ObjectRef.Subresource != "" {
			r.what += "/" + entry.ObjectRef.Subresource
		}
		all = append(all, r)
	}
	return all
}

// statusPatches counts, by pod, the node's status patches in the namespace.
func (n *node) statusPatches(t *testing.T, namespace string, since time.Time) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, r := range n.requests(t, since) {
		if r.what == "patch pods/status" && r.namespace == namespace {
			counts[r.name]++
		}
	}
	return counts
}

// percentile returns a percentile of sorted values.
func percentile[T cmp.Ordered](sorted []T, percent int) T {
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}
