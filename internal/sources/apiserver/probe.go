package apiserver

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

const (
	// probeInterval is how often the server is probed beside the watch: a watch without events looks the same whether
	// nothing happens or the server fails.
	probeInterval = 30 * time.Second
	// probeTimeout is how long an answer may take.
	probeTimeout = 10 * time.Second
	// probeName is the name of a pod that can't exist, as it isn't a DNS subdomain.
	probeName = "podstream_probe"
)

// probe requests a pod that doesn't exist, until ctx ends, and records each answer. Every user that may list the pods
// of this source may make the request. It costs the server the lookup of one key, without its cache.
func (s *Source) probe(ctx context.Context, pods *pods) {
	selector := fields.AndSelectors(fields.OneTermEqualSelector("metadata.name", probeName), s.selector())
	ticker := s.cfg.Clock.NewTicker(s.probeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		bounded, cancel := context.WithTimeout(ctx, probeTimeout)
		_, err := s.server.list(bounded, "pods", metav1.NamespaceDefault, &metav1.ListOptions{FieldSelector: selector.String()})
		cancel()
		switch {
		case err == nil:
			pods.heard()
		case ctx.Err() == nil:
			s.cfg.Logger.Debug("the API server doesn't answer a probe", "error", err)
		}
	}
}
