package csi

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// maxDrivers is the number of drivers whose names become labels.
const maxDrivers = 100

// metrics has the kubelet's metric of calls.
type metrics struct {
	durations *prometheus.HistogramVec
	names     *kubeletmetrics.Limited
}

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{durations: kubeletmetrics.CSIOperations.Vec(r), names: kubeletmetrics.NewLimited(maxDrivers)}
}

// called records a call.
func (m *metrics) called(ctx context.Context, driver, method string, began time.Time, err error) {
	code := status.Code(err)
	label := code.String()
	if code > codes.Unauthenticated {
		label = kubeletmetrics.Other // A driver may send any number.
	}
	of, _ := ctx.Value(migrated{}).(bool)
	m.durations.WithLabelValues(m.names.Value(driver), "/csi.v1.Node/"+method, label, strconv.FormatBool(of)).
		Observe(time.Since(began).Seconds())
}

// migrated is the key of contexts of Migrated.
type migrated struct{}

// Migrated returns the context of a call for a volume of an in-tree plugin: the metric of calls has a label for these.
func Migrated(ctx context.Context) context.Context { return context.WithValue(ctx, migrated{}, true) }
