package podexecd

import (
	"context"

	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/daemon/tracing"
	"github.com/podstream/podstream/internal/execconfig"
)

// traceTo sets the tracers. flush ends them, and sends the spans that wait.
func (n *node) traceTo(ctx context.Context, t *execconfig.Tracing) (flush func(), err error) {
	if t.TracingEndpoint == "" {
		return func() {}, nil
	}
	flags := daemon.Tracing{Endpoint: t.TracingEndpoint, SamplingRatePerMillion: t.SamplingRatePerMillion}
	n.tracers, flush, err = tracing.Provider(ctx, flags, "podexecd")
	return flush, err
}
