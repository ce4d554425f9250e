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

// probe checks which cluster answers, until ctx ends, and records each answer. If the server doesn't show that, it
// requests a pod that doesn't exist: every user that may list the pods of this source may do so. Either costs the server
// the lookup of one key, without its cache.
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
		switch err := s.probeOnce(ctx, selector); {
		case ctx.Err() != nil:
		case err == nil:
			pods.heard()
		case isIdentity(err):
			// The watch is of another cluster too, or can't be told from one.
			pods.failed(err)
		default:
			s.cfg.Logger.Debug("the API server doesn't answer a probe", "error", err)
		}
	}
}

// probeOnce returns nil if the server answers. If it shows which cluster it is of, that is the answer.
func (s *Source) probeOnce(ctx context.Context, selector fields.Selector) error {
	if uid, shown := s.server.identity.current(); uid != "" || shown {
		if err := s.server.identity.confirm(ctx, nil); err != nil {
			return err
		}
		if s.Cluster() != "" {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err := s.server.list(ctx, "pods", metav1.NamespaceDefault, &metav1.ListOptions{FieldSelector: selector.String()})
	return err
}
