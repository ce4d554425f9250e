package podconfigd

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/sourceconfig"
	"github.com/podstream/podstream/internal/sources"
	"github.com/podstream/podstream/internal/sources/apiserver"
	"github.com/podstream/podstream/internal/sources/file"
	"github.com/podstream/podstream/internal/sources/http"
	"github.com/podstream/podstream/internal/sources/relay"
)

// builder makes the readers of sources. None of them connects before it runs.
type builder struct {
	// id and node are podconfigd's own.
	id, node        string
	fileQuietPeriod time.Duration
	// history has what is known of a source already: from an earlier life, or from a reader that this one takes the place of. Nil:
	// nothing is.
	history *history.History
	log     *slog.Logger
}

// build makes the reader of one entry of a plan. Its errors name the source.
func (b *builder) build(s sourceconfig.Source) (sources.Source, error) {
	switch s.Kind {
	case sourceconfig.File:
		return file.New(file.Config{
			Name: s.Name, Path: s.File.Path, Node: b.node, Strict: s.File.Strict, CheckFrequency: s.File.CheckFrequency,
			QuietPeriod: b.fileQuietPeriod, Logger: b.log,
		}), nil
	case sourceconfig.HTTP:
		return http.New(http.Config{
			Name: s.Name, URL: s.HTTP.URL, Headers: s.HTTP.Headers, CAFile: s.HTTP.CAFile, CertFile: s.HTTP.CertFile, KeyFile: s.HTTP.KeyFile,
			Node: b.node, Strict: s.HTTP.Strict, Known: b.origins(s.Name), CheckFrequency: s.HTTP.CheckFrequency, Logger: b.log,
		})
	case sourceconfig.Relay:
		return relay.New(relay.Config{
			Name: s.Name, Endpoint: s.Relay.Address, CAFile: s.Relay.CAFile, CertFile: s.Relay.CertFile, KeyFile: s.Relay.KeyFile,
			ID: b.id, Node: b.node, Nodes: s.Relay.Nodes, Stored: func() []relay.Stored { return b.stored(s.Name) }, Logger: b.log,
		})
	case sourceconfig.API:
		return apiserver.New(apiserver.Config{
			Kubeconfig: s.API.Kubeconfig, InCluster: s.API.InCluster, Node: b.node, Nodes: s.API.Nodes, Logger: b.log,
		})
	default:
		return nil, fmt.Errorf("source %s: there is no reader of the kind %q", s.Name, s.Kind)
	}
}

// pods are those that are known of a source.
func (b *builder) pods(source string) []*revision.Pod {
	if b.history == nil {
		return nil
	}
	var out []*revision.Pod
	for _, p := range b.history.State().Pods {
		if p.Source == source {
			out = append(out, p)
		}
	}
	return out
}

// origins are those of the pods that are known of a source.
func (b *builder) origins(source string) []string {
	var out []string
	for _, p := range b.pods(source) {
		out = append(out, p.Origin)
	}
	return out
}

// stored are the pods that are known of a source, as a relay begins with them.
func (b *builder) stored(source string) []relay.Stored {
	var out []relay.Stored
	for _, p := range b.pods(source) {
		out = append(out, relay.Stored{Origin: p.Origin, Pod: p.Object, SpecDigest: p.SpecDigest, StatusDigest: p.StatusDigest})
	}
	return out
}
