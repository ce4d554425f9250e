package charts

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb"
)

// scrape is one line of a recording: see test/chartrecord.
type scrape struct {
	Agent, Job, Path, Body string
	At                     int64
	Seconds                float64
}

// recording has the series of one agent.
type recording struct {
	db *tsdb.DB
	// end is the time of the last scrape.
	end    time.Time
	engine *promql.Engine
}

// maxRecording bounds a recording, unpacked.
const maxRecording = 256 << 20

// load reads the scrapes of an agent into a database that lasts as long as the test. All targets of a node have one
// instance.
func load(t *testing.T, file, agent string) *recording {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	options := tsdb.DefaultOptions()
	options.RetentionDuration = 0
	db, err := tsdb.Open(t.TempDir(), nil, nil, options, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &recording{db: db, engine: promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true, LookbackDelta: 5 * time.Minute,
	})}
	lines := json.NewDecoder(io.LimitReader(zip, maxRecording))
	count := 0
	for {
		var s scrape
		if err := lines.Decode(&s); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if s.Agent != agent {
			continue
		}
		if err := r.add(&s); err != nil {
			t.Fatalf("%s: scrape %d: %v", file, count, err)
		}
		count++
	}
	if count == 0 {
		t.Fatalf("%s has no scrape of %s", file, agent)
	}
	return r
}

// add appends a scrape as Prometheus would, with the series up.
func (r *recording) add(s *scrape) error {
	app := r.db.Appender(context.Background())
	target := map[string]string{"job": s.Job, "metrics_path": s.Path, "instance": "node-1"}
	up := 1.0
	if s.Body == "" {
		up = 0
	}
	if _, err := app.Append(0, named("up", target), s.At, up); err != nil {
		return err
	}
	symbols := labels.NewSymbolTable()
	parser := textparse.NewPromParser([]byte(s.Body), symbols, false)
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.Path, err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, at, value := parser.Series()
		ms := s.At
		if at != nil {
			ms = *at
		}
		var l labels.Labels
		parser.Labels(&l)
		b := labels.NewBuilder(l)
		for name, v := range target {
			b.Set(name, v)
		}
		if _, err := app.Append(0, b.Labels(), ms, value); err != nil && !strings.Contains(err.Error(), "out of order") && !strings.Contains(err.Error(), "duplicate") {
			return err
		}
	}
	if end := time.UnixMilli(s.At).Add(time.Second); end.After(r.end) {
		r.end = end
	}
	return app.Commit()
}

func named(name string, more map[string]string) labels.Labels {
	b := labels.NewBuilder(labels.FromMap(more))
	b.Set(model.MetricNameLabel, name)
	return b.Labels()
}

// eval returns the result of a query at the end of the recording.
func (r *recording) eval(ctx context.Context, query string) (promql.Vector, error) {
	q, err := r.engine.NewInstantQuery(ctx, r.db, nil, query, r.end)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	result := q.Exec(ctx)
	if result.Err != nil {
		return nil, result.Err
	}
	switch v := result.Value.(type) {
	case promql.Vector:
		// The engine uses the memory again after Close.
		return append(promql.Vector(nil), v...), nil
	case promql.Scalar:
		return promql.Vector{{T: v.T, F: v.V}}, nil
	case promql.Matrix:
		var out promql.Vector
		for _, s := range v {
			if n := len(s.Floats); n > 0 {
				out = append(out, promql.Sample{Metric: s.Metric, T: s.Floats[n-1].T, F: s.Floats[n-1].F})
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("%s has a result of type %s", query, result.Value.Type())
}

// record evaluates a recording rule, and adds its result a second later, for the rules that use it.
func (r *recording) record(ctx context.Context, name, query string, extra map[string]string) (int, error) {
	v, err := r.eval(ctx, query)
	if err != nil {
		return 0, err
	}
	app := r.db.Appender(ctx)
	for _, s := range v {
		b := labels.NewBuilder(s.Metric)
		b.Set(model.MetricNameLabel, name)
		for k, v := range extra {
			b.Set(k, v)
		}
		if _, err := app.Append(0, b.Labels(), r.end.UnixMilli(), s.F); err != nil {
			return 0, err
		}
	}
	return len(v), app.Commit()
}
