package client_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	modeWanted   = podconfigv1.NotificationMode_NOTIFICATION_MODE_UNSPECIFIED
	modeSnapshot = podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT
)

// wantModes compares the modes of the client's requests to the script.
func wantModes(t *testing.T, s *script, want ...podconfigv1.NotificationMode) {
	t.Helper()
	var got []podconfigv1.NotificationMode
	for range want {
		got = append(got, (<-s.requests).GetMode())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the streams are asked for in modes %v; want %v", got, want)
	}
}

// TestModeAfterUnknownOp: snapshots are requested from the podconfigd whose ops are unknown, as long as it runs, and
// not from its successor, unless that one's ops are unknown too.
func TestModeAfterUnknownOp(t *testing.T) {
	strange := func(s serverStream) error {
		send(s, update(2, 99, "two"))
		<-s.Context().Done()
		return broken
	}
	breaks := func(s serverStream) error {
		send(s, synced(3))
		return broken
	}
	p := testPlace(t)
	newer := newScript(strange, breaks)
	stop := up(t, p, newer)
	w := watch(t, p, client.Config{}, client.WatchOptions{})
	w.want("synced")
	wantModes(t, newer, modeWanted, modeSnapshot, modeSnapshot)
	stop()

	replaced := newScript(breaks, strange, breaks)
	up(t, p, replaced)
	w.want("synced")
	w.want("synced")
	wantModes(t, replaced, modeWanted, modeWanted, modeSnapshot, modeSnapshot)
}

// TestOnBreak: OnBreak gets each break's error before the retry, but not the error that ends Watch.
func TestOnBreak(t *testing.T) {
	s := newScript(
		func(serverStream) error { return status.Error(codes.PermissionDenied, "no role for it") },
		func(s serverStream) error {
			send(s, synced(1))
			return broken
		},
		func(s serverStream) error {
			send(s, update(2, 99, "two"))
			<-s.Context().Done()
			return broken
		},
		func(s serverStream) error {
			send(s, update(3, client.Add, "last"))
			<-s.Context().Done()
			return broken
		},
	)
	p := testPlace(t)
	up(t, p, s)
	var reported []string
	w := watch(t, p, client.Config{OnBreak: func(err error) { reported = append(reported, err.Error()) }}, client.WatchOptions{})
	w.want("synced")
	w.want("ADD file: last")
	w.cancel()
	if err := w.wantEnd(); !errors.Is(err, context.Canceled) {
		t.Errorf("Watch returns %v; want context.Canceled", err)
	}
	want := []string{
		"rpc error: code = PermissionDenied desc = no role for it", "rpc error: code = Unavailable desc = broken",
		"unknown operation: 99",
	}
	if !slices.Equal(reported, want) {
		t.Errorf("OnBreak is told %q; want %q", reported, want)
	}
}
