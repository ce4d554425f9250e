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

// probe checks which cluster answers, and whether its history goes on, until ctx ends, and records each answer. For the
// latter, or if the server doesn't show its cluster, it requests a pod that doesn't exist: every user that may list the pods
// of this source may do so. Either costs the server the lookup of one key, without its cache.
func (s *Source) probe(ctx context.Context, pods *pods) {
	selector := fields.AndSelectors(fields.OneTermEqualSelector("metadata.name", probeName), s.selector())
	ticker := s.cfg.Clock.NewTicker(s.probeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pods.reopened:
			// Whether the server's history goes on where the watch was resumed is checked at once.
			if err := s.checkPresent(ctx, selector, pods); err != nil {
				s.cfg.Logger.Debug("the API server doesn't show how far it is", "error", err)
			}
			continue
		case <-ticker.C():
		}
		s.server.release.check(ctx)
		switch err := s.probeOnce(ctx, selector, pods); {
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
func (s *Source) probeOnce(ctx context.Context, selector fields.Selector, pods *pods) error {
	if uid, shown := s.server.identity.current(); uid != "" || shown {
		err := s.checkPresent(ctx, selector, pods)
		if other := s.server.identity.confirm(ctx, nil); other != nil {
			return other
		}
		if err != nil || s.Cluster() != "" {
			return err
		}
	}
	_, err := s.listNothing(ctx, selector)
	return err
}

// listNothing requests a pod that doesn't exist, and returns the version of that list, which is the server's present one.
func (s *Source) listNothing(ctx context.Context, selector fields.Selector) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	list, err := s.server.list(ctx, "pods", metav1.NamespaceDefault, &metav1.ListOptions{FieldSelector: selector.String()})
	if err != nil {
		return "", err
	}
	if l, ok := list.(metav1.ListInterface); ok {
		version = l.GetResourceVersion()
	}
	return version, nil
}

// checkPresent compares the server's present version with how far the pods follow the cluster, if that is known. A watch
// that was resumed at a version that is later than the present one misses all events until then.
func (s *Source) checkPresent(ctx context.Context, selector fields.Selector, pods *pods) error {
	before := pods.where()
	if !before.known || before.of.cluster == "" || !s.server.release.comparable.Load() {
		return nil
	}
	version, err := s.listNothing(ctx, selector)
	if err != nil {
		return err
	}
	if !older(version, before.current) {
		return nil
	}
	if err := s.server.identity.confirmTwice(ctx, nil); err != nil {
		return err
	}
	s.server.identity.wentBack(before.of, version, before.current)
	return nil
}
