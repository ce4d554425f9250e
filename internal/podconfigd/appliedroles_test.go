package podconfigd

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestRolesThatWrite: by the access file, certificates get the role deployer beside or without another one. Every method of a
// podconfigd is called as each of them: a deployer may call those that write, and those that show what it has applied; no other
// role may write.
func TestRolesThatWrite(t *testing.T) {
	n, log := launchWriters(t, `clients:
- {commonName: deployer, role: deployer, namespaces: [default]}
- {commonName: both, roles: [deployer, inspector], namespaces: [default]}
- {commonName: inspector, role: inspector}
- {commonName: consumer, role: consumer}
- {commonName: operator, role: operator}
`)
	appliedPods(t, n.api)
	calls := map[string]func(podconfigv1.PodConfigServiceClient) error{
		"ApplyManifests": func(c podconfigv1.PodConfigServiceClient) error {
			_, _, err := applyPods(t.Context(), c, "v1")
			return err
		},
		"DeleteManifests": func(c podconfigv1.PodConfigServiceClient) error {
			req := &podconfigv1.DeleteManifestsRequest{Refs: []*podconfigv1.ManifestRef{{Name: "none"}}, IgnoreMissing: true}
			_, err := c.DeleteManifests(t.Context(), req)
			return err
		},
		"ListManifests": func(c podconfigv1.PodConfigServiceClient) error {
			_, err := c.ListManifests(t.Context(), &podconfigv1.ListManifestsRequest{})
			return err
		},
		"ListPods": func(c podconfigv1.PodConfigServiceClient) error {
			_, err := c.ListPods(t.Context(), &podconfigv1.ListPodsRequest{})
			return err
		},
		"GetVersion": func(c podconfigv1.PodConfigServiceClient) error {
			_, err := c.GetVersion(t.Context(), &podconfigv1.GetVersionRequest{})
			return err
		},
		"ListConsumers": func(c podconfigv1.PodConfigServiceClient) error {
			_, err := c.ListConsumers(t.Context(), &podconfigv1.ListConsumersRequest{})
			return err
		},
		"WatchPodUpdates": func(c podconfigv1.PodConfigServiceClient) error {
			stream, err := c.WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"DiffManifests": func(c podconfigv1.PodConfigServiceClient) error {
			_, err := c.DiffManifests(t.Context(), &podconfigv1.DiffManifestsRequest{})
			return err
		},
		"AcceptSource": func(c podconfigv1.PodConfigServiceClient) error {
			_, err := c.AcceptSource(t.Context(), &podconfigv1.AcceptSourceRequest{Source: "file"})
			return err
		},
	}
	for name, may := range map[string]string{
		"deployer":  "ApplyManifests DeleteManifests ListManifests ListPods GetVersion",
		"both":      "ApplyManifests DeleteManifests ListManifests ListPods GetVersion ListConsumers WatchPodUpdates",
		"inspector": "ListPods GetVersion ListConsumers WatchPodUpdates",
		"consumer":  "ListPods GetVersion ListConsumers WatchPodUpdates DiffManifests",
		"operator":  "ListPods GetVersion ListConsumers WatchPodUpdates DiffManifests AcceptSource",
		"stranger":  "",
	} {
		c, end := n.as(name)
		// What one deployer has applied, the other one can't.
		if _, err := n.api.DeleteManifests(t.Context(), &podconfigv1.DeleteManifestsRequest{
			Refs: []*podconfigv1.ManifestRef{{Name: "a"}, {Name: "b"}}, IgnoreMissing: true,
		}); err != nil {
			t.Fatal(err)
		}
		for method, call := range calls {
			err := call(c)
			denied := status.Code(err) == codes.PermissionDenied
			if allowed := strings.Contains(" "+may+" ", " "+method+" "); denied == allowed {
				t.Errorf("%s calls %s: %v; want allowed %v", name, method, err, allowed)
			}
		}
		end()
	}
	for _, name := range []string{"inspector", "consumer", "operator"} {
		if log.Count(`msg="manifest write"`, "decision=refused", "identity="+name, "role="+name, "ApplyManifests") != 1 {
			t.Errorf("the refused write of %s isn't one line of the log", name)
		}
	}
}
