package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// auditPolicy makes the server log podconfigd's requests.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:nodes", "` + fleetGroup + `"]
  resources:
  - resources: [pods, configmaps, secrets]
- level: None
`

// controlPlane is the control plane as the tests use it: its errors end the test.
type controlPlane struct{ *control.Plane }

func startControl(ctx context.Context, dir, etcd string) (*controlPlane, error) {
	policy, log := filepath.Join(dir, "audit.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	p, err := control.Start(ctx, control.Config{Dir: dir, Etcd: etcd, Tools: tools, ServerFlags: []string{
		"--disable-admission-plugins=ServiceAccount", // no controller creates the accounts that it requires
		"--audit-policy-file=" + policy, "--audit-log-path=" + log,
	}})
	if err != nil {
		return nil, err
	}
	return &controlPlane{p}, nil
}

func (c *controlPlane) stop(t *testing.T) {
	t.Helper()
	rig.Must(t, c.Stop())
}

func (c *controlPlane) resume(t *testing.T) {
	t.Helper()
	rig.Must(t, c.Resume(t.Context()))
}

func (c *controlPlane) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	return rig.Get(c.Client(t.Context()))(t)
}

func (c *controlPlane) behind(t *testing.T, change func(client kubernetes.Interface)) {
	t.Helper()
	rig.Must(t, c.Behind(t.Context(), change))
}

// request is a request of a podconfigd, from the server's audit log.
type request struct {
	verb  string
	query url.Values
	code  int
}

// requests returns the user's requests for a resource, in the order of their first answers.
func (c *controlPlane) requests(t *testing.T, user, resource string) []request {
	t.Helper()
	log := rig.Get(os.ReadFile(c.Path("audit.log")))(t)
	seen := map[string]int{}
	var out []request
	lines := bufio.NewScanner(bytes.NewReader(log))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			AuditID, Verb, RequestURI string
			User                      struct{ Username string }
			ObjectRef                 struct{ Resource string }
			ResponseStatus            struct{ Code int }
		}
		rig.Must(t, json.Unmarshal(lines.Bytes(), &e))
		if e.User.Username != user || e.ObjectRef.Resource != resource {
			continue
		}
		uri := rig.Get(url.Parse(e.RequestURI))(t)
		r := request{verb: e.Verb, query: uri.Query(), code: e.ResponseStatus.Code}
		if at, ok := seen[e.AuditID]; ok {
			out[at] = r // a later stage of the same request
			continue
		}
		seen[e.AuditID] = len(out)
		out = append(out, r)
	}
	rig.Must(t, lines.Err())
	return out
}

// startsOver reports whether the request asks for all objects, instead of the changes since a version.
func (r request) startsOver() bool {
	return r.verb == "list" || r.verb == "watch" && r.query.Get("sendInitialEvents") == "true"
}

// countRestarts returns how many of the requests ask for all objects.
func countRestarts(all []request) int {
	n := 0
	for _, r := range all {
		if r.startsOver() {
			n++
		}
	}
	return n
}
