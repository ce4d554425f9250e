package podexecapi

import (
	"context"

	"github.com/podstream/podstream/internal/access"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// MinimumRole returns the least role that may call a method: deployers see the pods that they have applied, inspectors see
// statuses, consumers read containers' output, operators act.
func MinimumRole(fullMethod string) access.Role {
	switch fullMethod {
	case podexecv1.PodExecService_Exec_FullMethodName, podexecv1.PodExecService_Attach_FullMethodName,
		podexecv1.PodExecService_PortForward_FullMethodName, podexecv1.PodExecService_Copy_FullMethodName,
		podexecv1.PodExecService_PullImage_FullMethodName, podexecv1.PodExecService_PruneImages_FullMethodName,
		podexecv1.PodExecService_RestartPod_FullMethodName, podexecv1.PodExecService_RemoveVolume_FullMethodName,
		podexecv1.PodExecService_ExportVolume_FullMethodName, podexecv1.PodExecService_ImportVolume_FullMethodName:
		return access.Operator
	case podexecv1.PodExecService_ReadLogs_FullMethodName:
		return access.Consumer
	case podexecv1.PodExecService_ListPods_FullMethodName, podexecv1.PodExecService_GetPod_FullMethodName,
		podexecv1.PodExecService_GetVersion_FullMethodName:
		return access.Deployer
	default:
		return access.Inspector
	}
}

// permit returns an error if the caller's role isn't sufficient for the method.
func permit(ctx context.Context, fullMethod string) error {
	caller, _ := access.FromContext(ctx)
	if least := MinimumRole(fullMethod); caller.Role < least {
		return permissionDenied("it takes the role %s", least)
	}
	return nil
}
