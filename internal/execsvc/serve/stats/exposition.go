package stats

import (
	"cmp"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// labels are sorted by name. All series of a container share them.
type labels []*dto.LabelPair

// newLabels takes names and values alternately.
func newLabels(pairs ...string) labels { return labels(nil).with(pairs...) }

func (l labels) with(pairs ...string) labels {
	if len(pairs) == 0 {
		return l
	}
	out := slices.Clone(l)
	for i := 0; i+1 < len(pairs); i += 2 {
		// A runtime's strings may be invalid; the format allows UTF-8 only.
		out = append(out, &dto.LabelPair{Name: new(pairs[i]), Value: new(strings.ToValidUTF8(pairs[i+1], "\uFFFD"))})
	}
	slices.SortFunc(out, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

// kind is the type of a metric: counter or gauge.
type kind dto.MetricType

const (
	count = kind(dto.MetricType_COUNTER)
	gauge = kind(dto.MetricType_GAUGE)
)

// family is a metric with its series, for a prometheus.Gatherer. It is made from a reading for each request. A
// registry would check, copy and sort ten thousand series that are known to be valid.
type family struct {
	*dto.MetricFamily
	kind kind
}

func newFamily(name, help string, k kind) *family {
	return &family{&dto.MetricFamily{Name: &name, Help: &help, Type: new(dto.MetricType(k))}, k}
}

// add adds a series. A zero time means no timestamp.
func (f *family) add(v float64, at time.Time, l labels) {
	m := &dto.Metric{Label: l}
	if f.kind == count {
		m.Counter = &dto.Counter{Value: &v}
	} else {
		m.Gauge = &dto.Gauge{Value: &v}
	}
	if !at.IsZero() {
		m.TimestampMs = new(at.UnixMilli())
	}
	f.Metric = append(f.Metric, m)
}

// gathered returns the families that have series, by name.
func gathered(all []*family) []*dto.MetricFamily {
	var out []*dto.MetricFamily
	for _, f := range all {
		if len(f.Metric) > 0 {
			out = append(out, f.MetricFamily)
		}
	}
	slices.SortFunc(out, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

// seconds converts nanoseconds.
func seconds(ns uint64) float64 { return float64(ns) / float64(time.Second) }
