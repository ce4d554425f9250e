package mergesvc_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/mergetest"
)

const commits = "podconfigd_store_commit_seconds"

// TestG6GroupCommit: while one caller waits for the disk, the others merge, and everything that they have
// merged by then is stored in one commit, in order. Each Apply returns when its own revision is published.
func TestG6GroupCommit(t *testing.T) {
	path := newStore(t)
	d := run(t, path)
	d.set("api", "")
	const others = 20
	var calls atomic.Int32
	committing, disk := make(chan struct{}), make(chan struct{})
	d.clock.now = func() {
		// Each Apply reads the time twice to merge, and a publisher once more before it commits.
		if calls.Add(1) == 3 {
			close(committing)
			<-disk
		}
	}
	var all sync.WaitGroup
	apply := func(i int) {
		d.Apply(mergetest.Set("file", int64(i), fmt.Sprintf("all: web(image=%d) pod-%d()", i, i)))
		if got := d.History().Number(); got < uint64(i+1) {
			t.Errorf("Apply of revision %d returned when %d was published; want its own", i+1, got)
		}
	}
	all.Go(func() { apply(1) })
	<-committing
	before := gauge(t, commits, d.counts)
	if got := d.History().Number(); got != 1 {
		t.Errorf("before its commit, revision %d is published; want 1", got)
	}
	for i := range others {
		// The sets are merged one after another, and published together.
		at := calls.Load()
		all.Go(func() { apply(i + 2) })
		until(t, "the set is merged", func() bool { return calls.Load() == at+2 })
		d.Sources() // takes the merge's lock, so the merge has ended
	}
	if got := d.History().Number(); got != 1 {
		t.Errorf("while the disk is waited for, revision %d is published; want 1", got)
	}
	close(disk)
	all.Wait()
	if got := gauge(t, commits, d.counts) - before; got != 2 {
		t.Errorf("%d sets took %v commits; want 2, one for the first and one for all others", others+1, got)
	}
	for number := range uint64(others + 2) {
		if rev, kept, _ := d.History().Next(number); !kept || rev.Number != number+1 {
			t.Fatalf("after revision %d comes %v; want the next", number, rev)
		}
	}
	if got, want := run(t, killed(t, path)).pods(), d.pods(); got != want {
		t.Errorf("stored are %q; want %q", got, want)
	}
}

// until waits until a condition holds.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("it still isn't so that %s", what)
		}
	}
}

// TestG6ConcurrentApplies: many sources at once, with a store: every revision is stored, in order, and a kill
// at the end loses none.
func TestG6ConcurrentApplies(t *testing.T) {
	path := newStore(t)
	d := run(t, path)
	const sets = 60
	var writers sync.WaitGroup
	for _, source := range []string{"file", "api"} {
		writers.Go(func() {
			for i := range sets {
				d.Apply(mergetest.Set(source, int64(i), fmt.Sprintf("x: %s-%d() %s(image=%d)", source, i, source, i)))
				rev := d.History().Number()
				if st := d.History().State(); st.Number < rev || st.Pod(types.UID(fmt.Sprintf("%s-%d", source, i))) == nil {
					t.Errorf("Apply returned before %s-%d was published", source, i)
				}
			}
		})
	}
	writers.Wait()
	d.wantDurable("after all", true)
	if got := d.History().Number(); got != 2*sets {
		t.Errorf("the last revision is %d; want %d", got, 2*sets)
	}
	after := run(t, killed(t, path))
	if after.History().Number() != 2*sets || after.pods() != d.pods() {
		t.Errorf("stored are revision %d and %q; want %d and %q", after.History().Number(), after.pods(), 2*sets, d.pods())
	}
}
