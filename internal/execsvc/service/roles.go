package service

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/access"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// MinimumRole is the least role that may call a method: inspectors look, consumers read what containers write, operators act.
func MinimumRole(fullMethod string) access.Role {
	switch fullMethod {
	case podexecv1.PodExecService_Exec_FullMethodName:
		return access.Operator
	case podexecv1.PodExecService_ReadLogs_FullMethodName:
		return access.Consumer
	default:
		return access.Inspector
	}
}

// permit refuses a caller whose role doesn't reach for the method.
func permit(ctx context.Context, fullMethod string) error {
	caller, _ := access.FromContext(ctx)
	if least := MinimumRole(fullMethod); caller.Role < least {
		return status.Errorf(codes.PermissionDenied, "it takes the role %s", least)
	}
	return nil
}
