package restarts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/loop/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// disk is a store in memory.
type disk struct {
	held map[types.UID]actions.Requested
	// writes are the pods of the requests that were stored.
	writes []types.UID
	// before, if set, is called before a request is stored. Its error fails that.
	before func(ctx context.Context) error
}

func (d *disk) SetRestart(ctx context.Context, uid types.UID, r store.Restart) error {
	if d.before != nil {
		if err := d.before(ctx); err != nil {
			return err
		}
	}
	d.held[uid], d.writes = r.Containers, append(d.writes, uid)
	return nil
}

func (d *disk) DropRestart(uid types.UID) { delete(d.held, uid) }

// newRequests returns Requests, its store, and its clock.
func newRequests() (*Requests, *disk, *clocktesting.FakeClock) {
	d, clock := &disk{held: map[types.UID]actions.Requested{}}, clocktesting.NewFakeClock(time.Unix(1000, 0))
	return New(Config{Store: d, Clock: clock}), d, clock
}

// always returns an ask function that returns r.
func always(r actions.Requested) func(actions.Requested) (actions.Requested, error) {
	return func(actions.Requested) (actions.Requested, error) { return r, nil }
}

func all(r actions.Requested) actions.Requested { return r }

func none(actions.Requested) actions.Requested { return nil }

// A request is there once it is stored. Another one for its containers joins it, one for more extends it, and one for a
// container with a successor replaces its part.
func TestAdd(t *testing.T) {
	r, d, _ := newRequests()
	d.before = func(context.Context) error {
		if len(d.writes) == 0 && r.Of("u") != nil {
			t.Error("the request is there before it is stored")
		}
		return nil
	}
	for _, tt := range []struct {
		ask, want actions.Requested
		joined    bool
	}{
		{actions.Requested{"a": "a0"}, actions.Requested{"a": "a0"}, false},
		{actions.Requested{"a": "a0"}, actions.Requested{"a": "a0"}, true},
		{actions.Requested{"b": "b0"}, actions.Requested{"a": "a0", "b": "b0"}, false},
		{actions.Requested{"a": "a0", "b": "b0"}, actions.Requested{"a": "a0", "b": "b0"}, true},
		{actions.Requested{"a": "a1"}, actions.Requested{"a": "a1", "b": "b0"}, false},
	} {
		asked, joined, err := r.Add(t.Context(), "u", always(tt.ask))
		if err != nil || joined != tt.joined || !maps.Equal(asked, tt.ask) {
			t.Errorf("asked for %v: %v, joined %t, error %v; want joined %t", tt.ask, asked, joined, err, tt.joined)
		}
		if got := r.Of("u"); !maps.Equal(got, tt.want) || !maps.Equal(d.held["u"], tt.want) {
			t.Errorf("asked for %v: there are %v, and %v in the store; want %v", tt.ask, got, d.held["u"], tt.want)
		}
	}
	if len(d.writes) != 3 {
		t.Errorf("%d writes; want none for a request that joins", len(d.writes))
	}
	if r.Settle("u", all) || r.Of("u") == nil {
		t.Error("a pending request was deleted")
	}
	if !r.Settle("u", none) || r.Of("u") != nil || len(d.held) > 0 {
		t.Errorf("a complete request is left: %v, and %v in the store", r.Of("u"), d.held)
	}
	if r.Settle("u", none) {
		t.Error("a request was completed twice")
	}
}

// A refused request, and one that can't be stored, change nothing.
func TestAddFails(t *testing.T) {
	r, d, _ := newRequests()
	refused := errors.New("no")
	if _, _, err := r.Add(t.Context(), "u", func(actions.Requested) (actions.Requested, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Errorf("error %v; want %v", err, refused)
	}
	full := errors.New("the disk is full")
	d.before = func(context.Context) error { return full }
	if _, _, err := r.Add(t.Context(), "u", always(actions.Requested{"a": "a0"})); !errors.Is(err, ErrNotStored) || !errors.Is(err, full) {
		t.Errorf("error %v; want %v and %v", err, ErrNotStored, full)
	}
	if r.Of("u") != nil {
		t.Errorf("there is %v", r.Of("u"))
	}
}

// While a request is being stored, the pod's earlier one isn't settled: that would delete both from the store. A pod
// that ends meanwhile has none afterwards. Another request waits, no longer than its caller.
func TestWhileStoring(t *testing.T) {
	r, d, _ := newRequests()
	if _, _, err := r.Add(t.Context(), "u", always(actions.Requested{"a": "a0"})); err != nil {
		t.Fatal(err)
	}
	d.before = func(context.Context) error {
		if r.Settle("u", none) {
			t.Error("settled while another request is being stored")
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := r.Add(ended, "v", always(actions.Requested{"a": "a0"})); !errors.Is(err, ErrNotStored) {
			t.Errorf("a second request: %v; want %v", err, ErrNotStored)
		}
		return nil
	}
	if _, _, err := r.Add(t.Context(), "u", always(actions.Requested{"b": "b0"})); err != nil {
		t.Fatal(err)
	}
	if want := (actions.Requested{"a": "a0", "b": "b0"}); !maps.Equal(r.Of("u"), want) || !maps.Equal(d.held["u"], want) {
		t.Errorf("there are %v, and %v in the store; want %v", r.Of("u"), d.held["u"], want)
	}
	d.before = func(context.Context) error { r.Drop("u"); return nil }
	if _, _, err := r.Add(t.Context(), "u", always(actions.Requested{"b": "b1"})); !errors.Is(err, ErrEnded) || r.Of("u") != nil || d.held["u"] != nil {
		t.Errorf("of a pod that ends: %v, error %v", r.Of("u"), err)
	}
}

// The number of pods and the rate are bounded. A pod that has a request isn't counted again.
func TestBounds(t *testing.T) {
	r, d, clock := newRequests()
	add := func(uid string) error {
		_, _, err := r.Add(t.Context(), types.UID(uid), always(actions.Requested{"a": "a0"}))
		return err
	}
	for i := range maxAtATime {
		if err := add(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := add("more"); !errors.Is(err, ErrTooMany) {
		t.Errorf("one more at once: %v; want %v", err, ErrTooMany)
	}
	for i := maxAtATime; i < maxPods; i++ {
		clock.Step(time.Second / perSecond)
		if err := add(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	clock.Step(time.Minute)
	if err := add("more"); !errors.Is(err, ErrTooMany) || len(d.held) != maxPods {
		t.Errorf("one more pod: %v; want %v", err, ErrTooMany)
	}
	if err := add("0"); err != nil {
		t.Errorf("the same pod again: %v", err)
	}
	r.Drop("1")
	if err := add("more"); err != nil {
		t.Errorf("after the end of one: %v", err)
	}
}

// The requests of the store continue.
func TestRestored(t *testing.T) {
	d := &disk{held: map[types.UID]actions.Requested{}}
	r := New(Config{Store: d, Restored: map[types.UID]store.Status{
		"u": {Restart: &store.Restart{Containers: actions.Requested{"a": "a0"}}}, "v": {},
	}})
	if got := r.Of("u"); !maps.Equal(got, actions.Requested{"a": "a0"}) || r.Of("v") != nil {
		t.Errorf("restored %v, %v", got, r.Of("v"))
	}
	if _, joined, err := r.Add(t.Context(), "u", always(actions.Requested{"a": "a0"})); err != nil || !joined || slices.Contains(d.writes, "u") {
		t.Errorf("the same request again: joined %t, error %v", joined, err)
	}
}
