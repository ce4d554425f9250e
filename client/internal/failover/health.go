package failover

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/client/stream"
)

// checkTimeout is the time limit for connecting to a candidate and for the answer of its health service.
const checkTimeout = 5 * time.Second

// verdict is the result of a check. A smaller one is better.
type verdict int

const (
	serving verdict = iota
	// notServing: the server answers, and isn't SERVING.
	notServing
	// unreachable: there is no answer.
	unreachable
)

// check asks the health service of the connection's server. err says why the verdict isn't serving. A server that
// doesn't answer in time is tried last from now on, so that it costs that time once.
func (c *Conn) check(ctx context.Context, l *link) (v verdict, err error) {
	bounded, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	response, err := healthv1.NewHealthClient(l.conn).Check(bounded, &healthv1.HealthCheckRequest{Service: c.cfg.Service})
	switch status.Code(err) {
	case codes.OK:
		if response.GetStatus() == healthv1.HealthCheckResponse_SERVING {
			return serving, nil
		}
		return notServing, status.Errorf(codes.Unavailable, "%s is %v", c.cfg.Service, response.GetStatus())
	case codes.NotFound, codes.Unimplemented:
		// An older podconfigd doesn't have this service.
		return serving, nil
	case codes.DeadlineExceeded, codes.Canceled:
		// A stream whose limit for silence is shorter would wait for the same server each time.
		if ctx.Err() == nil || errors.Is(context.Cause(ctx), stream.ErrSilent) {
			c.suspect(l)
		}
		return unreachable, err
	default:
		return unreachable, err
	}
}
