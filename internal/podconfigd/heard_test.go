package podconfigd

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/sourceconfig"
)

// TestListener: the sources are healthy while each was heard within its bound, and each change is logged once.
func TestListener(t *testing.T) {
	now := time.Unix(100_000, 0)
	source := func(name string, ago time.Duration, err error) merge.SourceState {
		return merge.SourceState{Source: merge.Source{Name: name}, LastHeard: now.Add(-ago), LastErr: err}
	}
	never := merge.SourceState{Source: merge.Source{Name: "api"}}
	plan := &sourceconfig.Plan{Sources: []sourceconfig.Source{
		{Name: "file", File: &sourceconfig.FileSettings{CheckFrequency: 10 * time.Minute}},
		{Name: "http", HTTP: &sourceconfig.HTTPSettings{CheckFrequency: 20 * time.Second}},
		{Name: "api", API: &sourceconfig.APISettings{}},
	}}
	for name, tc := range map[string]struct {
		sources []merge.SourceState
		want    bool
		logged  string
	}{
		"all were heard from": {[]merge.SourceState{
			source("file", 31*time.Minute, nil), source("http", 2*time.Minute, nil), source("api", time.Minute, nil),
		}, true, ""},
		"the server is silent": {[]merge.SourceState{source("file", 0, nil), source("api", 121*time.Second, nil)}, false, "sources=api"},
		"a URL is silent":      {[]merge.SourceState{source("http", 181*time.Second, nil)}, false, "sources=http"},
		"a path is silent":     {[]merge.SourceState{source("file", 33*time.Minute, nil)}, false, "sources=file"},
		"another program's":    {[]merge.SourceState{source("injected", time.Hour, nil)}, true, ""},
		"one fails":            {[]merge.SourceState{source("api", time.Second, errors.New("away"))}, false, ""},
		"one was never read":   {[]merge.SourceState{source("file", 0, nil), never}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			var good bool
			l := &listener{
				plan: func() *sourceconfig.Plan { return plan }, sources: func() []merge.SourceState { return tc.sources },
				now: func() time.Time { return now }, health: func(g bool) { good = g }, log: slog.New(slog.NewTextHandler(&log, nil)),
			}
			l.look()
			l.look()
			if good != tc.want {
				t.Errorf("the sources are well: %v, want %v", good, tc.want)
			}
			if n := strings.Count(log.String(), "level=WARN"); n != strings.Count(tc.logged, "=") || !strings.Contains(log.String(), tc.logged) {
				t.Errorf("the log is %q, want %q once", &log, tc.logged)
			}
			tc.sources = nil
			l.look()
			if strings.Contains(log.String(), "were heard again") != (tc.logged != "") {
				t.Errorf("the log is %q once all is well", &log)
			}
		})
	}
}

// TestListenerOfFailing: a source that wasn't heard, and then fails, isn't logged as heard again before it is.
func TestListenerOfFailing(t *testing.T) {
	now := time.Unix(100_000, 0)
	api := merge.SourceState{Source: merge.Source{Name: "api"}, LastHeard: now.Add(-time.Hour)}
	plan := &sourceconfig.Plan{Sources: []sourceconfig.Source{{Name: "api", API: &sourceconfig.APISettings{}}}}
	var log bytes.Buffer
	l := &listener{
		plan: func() *sourceconfig.Plan { return plan }, sources: func() []merge.SourceState { return []merge.SourceState{api} },
		now: func() time.Time { return now }, health: func(bool) {}, log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	again := func() int { return strings.Count(log.String(), "were heard again") }
	l.look()
	api.LastErr = errors.New("away")
	if l.look(); again() != 0 {
		t.Errorf("the log of a source that fails is %q", &log)
	}
	api.LastErr, api.LastHeard = nil, now
	if l.look(); again() != 1 {
		t.Errorf("the log of a source that answers is %q; want that it is were heard again", &log)
	}
}
