package podconfigd

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
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
		{Name: "api", API: &sourceconfig.APISettings{}}, {Name: "relay", Relay: &sourceconfig.RelaySettings{}},
	}}
	for name, tc := range map[string]struct {
		sources []merge.SourceState
		want    bool
		logged  string
	}{
		"all were heard from": {[]merge.SourceState{
			source("file", 20*time.Minute, nil), source("http", time.Minute, nil), source("api", time.Minute, nil),
			source("relay", 2*time.Minute, nil),
		}, true, ""},
		"the server is silent":  {[]merge.SourceState{source("file", 0, nil), source("api", 61*time.Second, nil)}, false, "sources=api"},
		"a URL is silent":       {[]merge.SourceState{source("http", 71*time.Second, nil)}, false, "sources=http"},
		"a path is silent":      {[]merge.SourceState{source("file", 21*time.Minute, nil)}, false, "sources=file"},
		"another program's":     {[]merge.SourceState{source("injected", time.Hour, nil)}, true, ""},
		"an upstream is silent": {[]merge.SourceState{source("relay", 121*time.Second, nil)}, false, "sources=relay"},
		"one fails":             {[]merge.SourceState{source("api", time.Second, errors.New("away"))}, false, ""},
		"one was never read":    {[]merge.SourceState{source("file", 0, nil), never}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			health := map[string]bool{}
			l := &listener{
				plan: func() *sourceconfig.Plan { return plan }, sources: func() []merge.SourceState { return tc.sources },
				now: func() time.Time { return now }, health: func(part string, good bool) { health[part] = good },
				remove: func(part string) { delete(health, part) }, log: slog.New(slog.NewTextHandler(&log, nil)),
			}
			l.look()
			l.look()
			if good := health[sourcesHealth]; good != tc.want {
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
		now: func() time.Time { return now }, health: func(string, bool) {}, log: slog.New(slog.NewTextHandler(&log, nil)),
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

// TestHealthOfEachSource: each source has a health of its own, until it is removed.
func TestHealthOfEachSource(t *testing.T) {
	now := time.Unix(100_000, 0)
	plan := &sourceconfig.Plan{Sources: []sourceconfig.Source{
		{Name: "file", File: &sourceconfig.FileSettings{CheckFrequency: time.Second}}, {Name: "api", API: &sourceconfig.APISettings{}},
	}}
	file := merge.SourceState{Source: merge.Source{Name: "file"}, LastHeard: now}
	sources := []merge.SourceState{file, {Source: merge.Source{Name: "api"}}, {Source: merge.Source{Name: "another program's"}}}
	health := map[string]bool{}
	l := &listener{
		plan: func() *sourceconfig.Plan { return plan }, sources: func() []merge.SourceState { return sources },
		now: func() time.Time { return now }, health: func(part string, good bool) { health[part] = good },
		remove: func(part string) { delete(health, part) }, log: slog.New(slog.DiscardHandler),
	}
	for _, tc := range []struct {
		name   string
		change func()
		want   map[string]bool
	}{
		{"api was never read", func() {}, map[string]bool{"file": true, "api": false}},
		{"api is read", func() { sources[1].LastHeard = now }, map[string]bool{"file": true, "api": true}},
		{"file fails", func() { sources[0].LastErr = errors.New("away") }, map[string]bool{"file": false, "api": true}},
		{"api is silent", func() { sources[0].LastErr, now = nil, now.Add(61*time.Second); sources[0].LastHeard = now },
			map[string]bool{"file": true, "api": false}},
		{"api is removed", func() { sources = sources[:1] }, map[string]bool{"file": true}},
	} {
		tc.change()
		l.look()
		want := map[string]bool{"podconfigd.sources": true}
		for name, good := range tc.want {
			want["podconfigd.source/"+name] = good
			want["podconfigd.sources"] = want["podconfigd.sources"] && good
		}
		if !maps.Equal(health, want) {
			t.Errorf("%s: the health is %v; want %v", tc.name, health, want)
		}
		for _, src := range sources {
			// Pods of a source that was never heard aren't known from before.
			bad := !want["podconfigd.source/"+src.Name] && src.Name != "another program's" && tc.name != "api was never read"
			if got := l.isSilent(src.Name); got != bad {
				t.Errorf("%s: source %s is silent: %v; want %v", tc.name, src.Name, got, bad)
			}
		}
	}
}
