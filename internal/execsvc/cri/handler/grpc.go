package handler

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// probeGRPC calls the health service (grpc.health.v1). A container that doesn't accept connections yet has until the
// timeout.
func (r *Runner) probeGRPC(ctx context.Context, t Target, action *v1.GRPCAction, timeout time.Duration) (Outcome, string, error) {
	addr, err := address(t, "", intstr.FromInt32(action.Port))
	if err != nil {
		return Failure, "", err
	}
	conn, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithUserAgent("kube-probe/"+r.cfg.Version),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithMaxHeaderListSize(maxHeaders), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxOutput)),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return dial(ctx, "tcp", addr) }))
	if err != nil {
		return Failure, "", err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request := &healthpb.HealthCheckRequest{}
	if action.Service != nil {
		request.Service = *action.Service
	}
	answer, err := healthpb.NewHealthClient(conn).Check(ctx, request, grpc.WaitForReady(true))
	switch code := status.Code(err); {
	case code == codes.OK && answer.GetStatus() == healthpb.HealthCheckResponse_SERVING:
		return Success, "service healthy", nil
	case code == codes.OK:
		return Failure, fmt.Sprintf("service unhealthy (responded with %q)", answer.GetStatus()), nil
	case code == codes.DeadlineExceeded && conn.GetState() != connectivity.Ready:
		return Failure, fmt.Sprintf("timeout: failed to connect service %q within %v: %s", addr, timeout, status.Convert(err).Message()), nil
	case code == codes.DeadlineExceeded:
		return Failure, fmt.Sprintf("timeout: health rpc did not complete within %v", timeout), nil
	case code == codes.Unimplemented:
		return Failure, "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): " +
			status.Convert(err).Message(), nil
	default:
		return Failure, "error: health rpc probe failed: " + err.Error(), nil
	}
}
