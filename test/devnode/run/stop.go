package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/podstream/podstream/test/devnode"
)

// drainTimeout bounds the wait for the pods to stop. It is several grace periods of the sample pod.
const drainTimeout = 20 * time.Second

// close stops the pods, the daemons and the runtime, in this order, and removes the rest.
func (s *session) close() error {
	if s.node == nil {
		return nil
	}
	s.say("\nending: pods ...")
	errs := []error{s.drain()}
	if s.exec != nil {
		errs = append(errs, s.exec.Close())
	}
	s.say("ending: daemons ...")
	for _, daemon := range []*devnode.Process{s.podexecd, s.podconfigd} {
		if runs(daemon) {
			errs = append(errs, daemon.Stop())
		}
	}
	s.say("ending: runtime ...")
	errs = append(errs, s.node.Close())
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.say("Everything is stopped. The logs are in %s", s.node.Path("log"))
	return nil
}

// drain removes all manifests and waits until their pods are removed. It doesn't wait if a daemon isn't running.
func (s *session) drain() error {
	if !runs(s.podconfigd) || !runs(s.podexecd) || s.exec == nil {
		return nil
	}
	manifests, err := os.ReadDir(s.manifests())
	if err != nil {
		return err
	}
	for _, manifest := range manifests {
		if err := os.Remove(filepath.Join(s.manifests(), manifest.Name())); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := s.exec.waitGone(ctx, s.podexecd); err != nil {
		return fmt.Errorf("stop the pods: %w", err)
	}
	return nil
}

func runs(p *devnode.Process) bool {
	if p == nil {
		return false
	}
	select {
	case <-p.Done():
		return false
	default:
		return true
	}
}
