package podsapi

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// version is the API's version in the metrics.
const version = "v1alpha1"

// metrics count the requests.
type metrics struct{ all, lists, gets, watches *prometheus.CounterVec }

func newMetrics(r prometheus.Registerer) *metrics {
	kubeletmetrics.PodWatchEventsDropped.New(r) // A watcher that is slow gets the newest states later.
	return &metrics{
		all: kubeletmetrics.PodRequests.Vec(r), lists: kubeletmetrics.PodRequestsList.Vec(r), gets: kubeletmetrics.PodRequestsGet.Vec(r),
		watches: kubeletmetrics.PodRequestsWatch.Vec(r),
	}
}

// count counts a request that has ended with the error.
func (m *metrics) count(method *prometheus.CounterVec, err *error) { //nolint:gocritic // A deferred call needs the error of the end.
	code := status.Code(*err)
	if errors.Is(*err, context.Canceled) {
		code = codes.Canceled
	}
	for _, c := range []*prometheus.CounterVec{m.all, method} {
		c.WithLabelValues(version, code.String()).Inc()
	}
}
