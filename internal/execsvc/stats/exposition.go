package stats

import (
	"cmp"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// labels are sorted by name. They are shared by all series of one container, as there are dozens.
type labels []*dto.LabelPair

// newLabels takes names and values in turn.
func newLabels(pairs ...string) labels { return labels(nil).with(pairs...) }

func (l labels) with(pairs ...string) labels {
	if len(pairs) == 0 {
		return l
	}
	out := slices.Clone(l)
	for i := 0; i+1 < len(pairs); i += 2 {
		// A runtime's words may be anything; the format allows UTF-8 only.
		out = append(out, &dto.LabelPair{Name: new(pairs[i]), Value: new(strings.ToValidUTF8(pairs[i+1], "\uFFFD"))})
	}
	slices.SortFunc(out, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

// kind is whether a series counts, or measures.
type kind dto.MetricType

const (
	count = kind(dto.MetricType_COUNTER)
	gauge = kind(dto.MetricType_GAUGE)
)

// family is one metric with its series: a prometheus.Gatherer gives them. They are made from a reading for each request, with much less
// to do than for a registry, which would check, copy and sort ten thousand series that are known to be right.
type family struct {
	*dto.MetricFamily
	kind kind
}

func newFamily(name, help string, k kind) *family {
	return &family{&dto.MetricFamily{Name: &name, Help: &help, Type: new(dto.MetricType(k))}, k}
}

// add adds a series. A zero time is none: it is of when it is read.
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

// gathered are the families that have series, by name.
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

// seconds are nanoseconds as Prometheus has them.
func seconds(ns uint64) float64 { return float64(ns) / float64(time.Second) }
