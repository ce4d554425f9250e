package doctor

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// versions compares the daemons' versions with podctl's.
func (e *examination) versions(ctx context.Context) []Finding {
	config, configErr := podconfigv1.NewPodConfigServiceClient(e.Podconfigd).GetVersion(ctx, &podconfigv1.GetVersionRequest{})
	exec, execErr := podexecv1.NewPodExecServiceClient(e.Podexecd).GetVersion(ctx, &podexecv1.GetVersionRequest{})
	found := fmt.Sprintf("podctl is %s", e.Version)
	differ, unknown := false, false
	for _, daemon := range []struct {
		name, version string
		err           error
	}{{"podconfigd", config.GetVersion(), configErr}, {"podexecd", exec.GetVersion(), execErr}} {
		switch {
		case status.Code(daemon.err) == codes.Unimplemented:
			found += fmt.Sprintf(", %s is older and doesn't tell its version", daemon.name)
			differ = true
		case daemon.err != nil:
			found += fmt.Sprintf(", %s doesn't answer", daemon.name)
			unknown = true
		default:
			found += fmt.Sprintf(", %s %s", daemon.name, daemon.version)
			differ = differ || daemon.version != e.Version
		}
	}
	switch {
	case differ:
		return []Finding{{"versions", Warning, found, "install one version of all three and restart the daemons; no container restarts"}}
	case unknown:
		return []Finding{{"versions", Skipped, found, ""}}
	}
	return []Finding{{"versions", OK, found, ""}}
}
