package service_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/podstream/podstream/internal/mergesvc/service"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// losing returns the request of a consumer that comes from another podconfigd, and would lose both of its pods.
func losing() *podconfigv1.WatchPodUpdatesRequest {
	return reference(&podconfigv1.Cursor{InstanceId: "another", Revision: 3, PodconfigdId: "there"},
		&podconfigv1.KnownPod{Source: "file", Uid: "b", Namespace: "default", Name: "b", SpecDigest: "old"},
		&podconfigv1.KnownPod{Source: "file", Uid: "c", Namespace: "default", Name: "c", SpecDigest: "old"})
}

// TestFailedAcceptanceReleasesNone: if the source can't accept what it refuses, the administrator gets an error, and no
// consumer is released.
func TestFailedAcceptanceReleasesNone(t *testing.T) {
	var full atomic.Bool
	n := start(t, options{service: func(cfg *service.Config) {
		cfg.ID = "here"
		cfg.Accept = func(string) (string, error) {
			if full.Load() {
				return "", errors.New("the disk is full")
			}
			return "", nil
		}
	}})
	n.set("api", "")
	n.set("file", "x: a()")
	s := n.watch(losing())
	if s.want("synced").held("file") == "" {
		t.Fatal("file isn't held")
	}
	full.Store(true)
	_, err := n.api.AcceptSource(t.Context(), &podconfigv1.AcceptSourceRequest{Source: "file"})
	wantCode(t, "AcceptSource", err, codes.Internal)
	n.set("api", "y: other()")
	s.want("ADD api: other")
	full.Store(false)
	_, err = n.api.AcceptSource(t.Context(), &podconfigv1.AcceptSourceRequest{Source: "file"})
	wantCode(t, "AcceptSource", err, codes.OK)
	s.want("REMOVE file: b c", "ADD file: a")
}

// TestAcceptanceDuringAMove: a consumer that is held while the acceptance is carried out isn't among those that it releases.
func TestAcceptanceDuringAMove(t *testing.T) {
	accepting, goOn := make(chan struct{}), make(chan struct{})
	n := start(t, options{service: func(cfg *service.Config) {
		cfg.ID = "here"
		cfg.Accept = func(string) (string, error) {
			close(accepting)
			<-goOn
			return "", nil
		}
	}})
	n.set("api", "")
	n.set("file", "x: a()")
	first := n.watch(losing())
	if first.want("synced").held("file") == "" {
		t.Fatal("file isn't held")
	}
	done := make(chan error, 1)
	go func() {
		_, err := n.api.AcceptSource(t.Context(), &podconfigv1.AcceptSourceRequest{Source: "file"})
		done <- err
	}()
	<-accepting
	late := n.watch(losing())
	if late.want("synced").held("file") == "" {
		t.Error("the second consumer isn't held")
	}
	close(goOn)
	wantCode(t, "AcceptSource", <-done, codes.OK)
	first.want("REMOVE file: b c", "ADD file: a")
	n.set("api", "y: other()")
	late.want("ADD api: other")
}
