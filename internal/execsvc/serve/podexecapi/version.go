package podexecapi

import (
	"context"
	"runtime"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/daemon/process"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// GetVersion is part of podexec.v1.PodExecService.
func (s *Server) GetVersion(ctx context.Context, _ *podexecv1.GetVersionRequest) (*podexecv1.GetVersionResponse, error) {
	v, err := s.view(ctx, nil)
	if err != nil {
		return nil, err
	}
	resp := &podexecv1.GetVersionResponse{
		Version: s.cfg.Version, GoVersion: runtime.Version(), Platform: process.Platform,
	}
	if v.here {
		resp.NodeName = s.cfg.Node
	}
	r := s.runtimeVersion.get(ctx)
	resp.RuntimeName, resp.RuntimeVersion, resp.RuntimeApiVersion = shortText(r.GetRuntimeName()), shortText(r.GetRuntimeVersion()), shortText(r.GetRuntimeApiVersion())
	return resp, nil
}

// The age of a version of the runtime that is still returned, and the time in which the runtime must answer.
const (
	runtimeVersionAge      = 10 * time.Second
	runtimeVersionPatience = 2 * time.Second
)

// RuntimeVersion returns the version of the container runtime.
type RuntimeVersion func(context.Context) (*runtimeapi.VersionResponse, error)

// recentVersion asks the runtime for its version, at most once in runtimeVersionAge: a caller may ask podexecd often, and
// the runtime may not answer.
type recentVersion struct {
	ask   RuntimeVersion
	clock clock.PassiveClock

	// busy has a value while the runtime is asked.
	busy chan struct{}
	// last is the last answer, and nil if there was none. asked is when that was. Both belong to the holder of busy.
	last  *runtimeapi.VersionResponse
	asked time.Time
}

func newRecentVersion(ask RuntimeVersion, c clock.PassiveClock) *recentVersion {
	return &recentVersion{ask: ask, clock: c, busy: make(chan struct{}, 1)}
}

// get returns nil if the version isn't known.
func (r *recentVersion) get(ctx context.Context) *runtimeapi.VersionResponse {
	if r.ask == nil {
		return nil
	}
	select {
	case r.busy <- struct{}{}:
		defer func() { <-r.busy }()
	case <-ctx.Done():
		return nil
	}
	if r.asked.IsZero() || r.clock.Since(r.asked) > runtimeVersionAge {
		// It isn't the caller's context: a caller that goes away must not make the version unknown for others.
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), runtimeVersionPatience)
		defer cancel()
		r.last, _ = r.ask(asking) // Without an answer the rest is returned.
		r.asked = r.clock.Now()
	}
	return r.last
}

// shortText returns a text of the runtime, of 256 bytes at most.
func shortText(text string) string {
	const longest = 256
	return valid(text[:min(len(text), longest)])
}
