package handler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/events"
)

// Hook runs a postStart or preStop hook. It takes as long as ctx allows: hooks have no timeout of their own.
func (r *Runner) Hook(ctx context.Context, t Target, h *v1.LifecycleHandler) error {
	switch {
	case h.Exec != nil:
		// The command runs as written: the kubelet replaces references in probes only.
		if _, _, err := r.cfg.Runtime.ExecSync(ctx, t.ContainerID, h.Exec.Command, 0); err != nil {
			return fmt.Errorf("exec hook: %w", err)
		}
		return nil
	case h.HTTPGet != nil:
		return r.hookHTTP(ctx, t, h.HTTPGet)
	case h.TCPSocket != nil:
		return hookTCP(ctx, t, h.TCPSocket)
	case h.Sleep != nil:
		err := sleep(ctx, time.Duration(h.Sleep.Seconds)*time.Second)
		if err != nil {
			r.early.Inc()
		}
		return err
	default:
		return errors.New("the hook has no action")
	}
}

// fallbackReason is the reason of the event that an HTTPS hook was retried over HTTP.
const fallbackReason = "LifecycleHTTPFallback"

// hookHTTP succeeds once there is an answer, whatever its status. If a container answers HTTPS with HTTP, the request
// is retried over HTTP without its credentials: hooks are older than HTTPS hooks, and some pods rely on it.
func (r *Runner) hookHTTP(ctx context.Context, t Target, action *v1.HTTPGetAction) error {
	request, err := r.request(ctx, t, action, "lifecycle")
	if err != nil {
		return fmt.Errorf("httpGet hook: %w", err)
	}
	err = r.send(request)
	if errors.Is(err, http.ErrSchemeMismatch) {
		request = request.Clone(ctx)
		request.URL.Scheme = "http"
		request.Header.Del("Authorization")
		if r.send(request) == nil {
			err = nil
			r.fallbacks.Inc()
			r.cfg.Events.Record(t.Pod, "", events.Warning, fallbackReason,
				fmt.Sprintf("request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP succeeded", request.URL.Host))
		}
	}
	if err != nil {
		return fmt.Errorf("httpGet hook: %w", err)
	}
	return nil
}

// send sends a hook's request and discards the answer.
func (r *Runner) send(request *http.Request) error {
	response, err := r.client(0).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	// A container that is cut off while it answers may treat the request as failed.
	_, _ = io.CopyN(io.Discard, response.Body, maxOutput)
	return nil
}

func hookTCP(ctx context.Context, t Target, action *v1.TCPSocketAction) error {
	addr, err := address(t, action.Host, action.Port)
	if err != nil {
		return fmt.Errorf("tcpSocket hook: %w", err)
	}
	conn, err := dial(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("tcpSocket hook: %w", err)
	}
	_ = conn.Close() // The open connection is the success.
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("sleep hook: interrupted before its %v were over: %w", d, context.Cause(ctx))
	}
}
