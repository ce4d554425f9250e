package podexecapi

import (
	"testing"

	"github.com/podstream/podstream/internal/access"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// TestMinimumRole names every method: a new one has to be thought of.
func TestMinimumRole(t *testing.T) {
	want := map[string]access.Role{
		"ListPods": access.Deployer, "GetPod": access.Deployer, "WatchPodStatus": access.Inspector, "WatchEvents": access.Inspector,
		"ReadLogs": access.Consumer, "Exec": access.Operator, "Attach": access.Operator, "PortForward": access.Operator,
		"Copy": access.Operator, "GetVersion": access.Deployer,
		"ListImages": access.Inspector, "PullImage": access.Operator, "PruneImages": access.Operator, "GetStats": access.Inspector,
		"RestartPod": access.Operator, "ListVolumes": access.Inspector, "RemoveVolume": access.Operator,
		"ExportVolume": access.Operator, "ImportVolume": access.Operator,
	}
	desc := podexecv1.PodExecService_ServiceDesc
	check := func(method string) {
		role, ok := want[method]
		if got := MinimumRole("/" + desc.ServiceName + "/" + method); !ok || got != role {
			t.Errorf("%s takes the role %s; want %s (listed: %v)", method, got, role, ok)
		}
	}
	for _, m := range desc.Methods {
		check(m.MethodName)
	}
	for _, s := range desc.Streams {
		check(s.StreamName)
	}
}
