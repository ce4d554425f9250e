package applied_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstream/podstream/internal/sources/applied"
	"github.com/podstream/podstream/internal/write"
)

// TestWriters: of two writes at once that were made against one version, one is carried out. The other one finds that
// version gone, and changes nothing.
func TestWriters(t *testing.T) {
	n := start(t, filepath.Join(t.TempDir(), "applied"))
	n.wantNext("")
	n.mustPut(pod("a", "0"), pod("b", "0"))
	docs, err := n.Documents()
	check(t, err)
	key := write.KeyOf("", "", "a")
	const writers = 8
	results := make(chan error, writers)
	for i := range writers {
		r := request(t, "one", pod("a", fmt.Sprint(i+1)), pod("b", fmt.Sprint(i+1)))
		r.Expected = map[write.Key]string{key: docs[key].Digest}
		go func() {
			_, err := n.Write(t.Context(), r)
			results <- err
		}()
	}
	won := 0
	for range writers {
		if err := <-results; err == nil {
			won++
		} else if moved := (*write.MovedError)(nil); !errors.As(err, &moved) || moved.Key != key {
			t.Errorf("a writer that is too late: %v; want a MovedError of a", err)
		}
	}
	if won != 1 {
		t.Errorf("%d writers have written; want one", won)
	}
	now, err := n.Documents()
	a, b := now[key].Pod().Spec.Containers[0].Image, now[write.KeyOf("", "", "b")].Pod().Spec.Containers[0].Image
	if err != nil || a != b || a == "0" {
		t.Errorf("the pods have the images %s and %s, %v; want those of one writer", a, b, err)
	}
	// The control: without the expectation, each write is carried out.
	for i := range 2 {
		n.mustPut(pod("a", fmt.Sprint("free", i)))
	}
}

// TestUnpublished: a write that is stored and not published in time returns ErrUnpublished. It is published later, and the
// same request then finds it unchanged.
func TestUnpublished(t *testing.T) {
	n := start(t, filepath.Join(t.TempDir(), "applied"), func(c *applied.Config) { c.PublishTime = time.Millisecond })
	n.wantNext("")
	n.hold.Lock()
	plan, err := n.Write(t.Context(), request(t, "one", pod("a", "1")))
	if !errors.Is(err, write.ErrUnpublished) || plan.Steps[0].Action != write.Created {
		t.Errorf("Write while no set is taken: %v, %v; want ErrUnpublished", plan, err)
	}
	n.hold.Unlock()
	n.wantNext("applied/one/default/a: 1")
	for {
		plan, err = n.Write(t.Context(), request(t, "one", pod("a", "1")))
		// The set was taken; Run may not have recorded that yet.
		if !errors.Is(err, write.ErrUnpublished) {
			break
		}
	}
	if err != nil || plan.Steps[0].Action != write.Unchanged {
		t.Errorf("the same request again: %v, %v; want unchanged", plan, err)
	}
}

// TestOneWriterAtATime: a write isn't planned before the one under way is stored and published: its plan would be compared with
// documents that are about to change.
func TestOneWriterAtATime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "applied")
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir)
		n.wantNext("")
		checking, release := make(chan string, 2), make(chan struct{})
		results := make(chan error, 2)
		writeAs := func(image string) {
			r := request(t, "one", pod("a", image))
			r.Expected = map[write.Key]string{write.KeyOf("", "", "a"): ""}
			r.Check = func(write.Plan) error {
				checking <- image
				<-release
				return nil
			}
			go func() {
				_, err := n.Write(t.Context(), r)
				results <- err
			}()
		}
		writeAs("first")
		synctest.Wait()
		writeAs("second")
		synctest.Wait()
		if len(checking) != 1 {
			t.Errorf("%d writes are planned at once; want one", len(checking))
		}
		close(release)
		moved := (*write.MovedError)(nil)
		if first, second := <-results, <-results; first != nil || !errors.As(second, &moved) {
			t.Errorf("the writes return %v and %v; want that the second one finds another version", first, second)
		}
		n.stop()
	})
}
