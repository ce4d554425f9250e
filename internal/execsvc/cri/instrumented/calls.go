package instrumented

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	internalapi "k8s.io/cri-api/pkg/apis"

	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// maxHandlers is how many handlers of RuntimeClasses become labels: a pod's manifest may lead to any.
const maxHandlers = 20

// Calls are the metrics of all calls. They outlive a client.
type Calls struct {
	count, errors *prometheus.CounterVec
	duration      *prometheus.HistogramVec
	sandboxes     *prometheus.HistogramVec
	sandboxErrors *prometheus.CounterVec
	handlers      *kubeletmetrics.Limited
}

// New registers the metrics; with nil they are not served.
func New(r prometheus.Registerer) *Calls {
	return &Calls{
		count: kubeletmetrics.RuntimeOperations.Vec(r), errors: kubeletmetrics.RuntimeOperationsErrors.Vec(r),
		duration: kubeletmetrics.RuntimeOperationsDuration.Vec(r), sandboxes: kubeletmetrics.RunPodSandboxDuration.Vec(r),
		sandboxErrors: kubeletmetrics.RunPodSandboxErrors.Vec(r), handlers: kubeletmetrics.NewLimited(maxHandlers),
	}
}

// Around returns the two clients with their calls counted.
func (c *Calls) Around(
	runtime internalapi.RuntimeService, images internalapi.ImageManagerService,
) (internalapi.RuntimeService, internalapi.ImageManagerService) {
	return runtimeService{runtime, c}, imageService{images, c}
}

// begin starts a call. The returned function ends it, with its error.
func (c *Calls) begin(operation string) (end func(*error)) {
	began := time.Now()
	return func(err *error) {
		c.count.WithLabelValues(operation).Inc()
		c.duration.WithLabelValues(operation).Observe(time.Since(began).Seconds())
		if *err != nil {
			c.errors.WithLabelValues(operation).Inc()
		}
	}
}

// sandbox is begin for the metrics of sandboxes.
func (c *Calls) sandbox(handler string) (end func(*error)) {
	began := time.Now()
	return func(err *error) {
		handler := c.handlers.Value(handler)
		c.sandboxes.WithLabelValues(handler).Observe(time.Since(began).Seconds())
		if *err != nil {
			c.sandboxErrors.WithLabelValues(handler).Inc()
		}
	}
}
