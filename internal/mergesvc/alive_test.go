package mergesvc

import (
	"errors"
	"fmt"
	"testing"

	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
)

func newAliveHub() *Hub { return NewHub(Config{Sources: []merge.Source{{Name: "file"}}}) }

// TestAlive: a lock that is never released is an error from the second call on, unless the disk is waited for.
func TestAlive(t *testing.T) {
	for name, tc := range map[string]struct {
		hold func(h *Hub) (release func())
		want error
	}{
		"no lock":    {func(*Hub) func() { return func() {} }, nil},
		"merge":      {func(h *Hub) func() { h.mu.Lock(); return h.mu.Unlock }, errMergeStuck},
		"publishing": {func(h *Hub) func() { h.publishing.Lock(); return h.publishing.Unlock }, errPublishStuck},
		"publishing, for the disk": {func(h *Hub) func() {
			h.publishing.Lock()
			waits, disk := make(chan struct{}), make(chan struct{})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				h.withDisk(func() { close(waits); <-disk })
			}()
			<-waits
			return func() { close(disk); <-ended; h.publishing.Unlock() }
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newAliveHub()
			if err := h.Alive(t.Context()); err != nil {
				t.Fatalf("a new Hub: %v", err)
			}
			release := tc.hold(h)
			_ = h.Alive(t.Context()) // It was taken since the last call.
			for range 3 {
				if err := h.Alive(t.Context()); !errors.Is(err, tc.want) {
					t.Errorf("while it is held: %v; want %v", err, tc.want)
				}
			}
			release()
			if err := h.Alive(t.Context()); err != nil {
				t.Errorf("after its release: %v", err)
			}
		})
	}
}

// A Hub that is locked at each call, by another holder each time, makes progress.
func TestAliveUnderLoad(t *testing.T) {
	h := newAliveHub()
	for i := range 20 {
		h.Apply(mergetest.Set("file", int64(i), fmt.Sprintf("x: a(image=%d)", i)))
		h.mu.Lock()
		h.publishing.Lock()
		if err := h.Alive(t.Context()); err != nil {
			t.Errorf("call %d: %v", i, err)
		}
		h.publishing.Unlock()
		h.mu.Unlock()
	}
}
