package nodefs

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hang is a look that waits until the file system answers.
func hang(answers <-chan struct{}) func() (int, error) {
	return func() (int, error) { <-answers; return 1, nil }
}

// A look has its answer, and its error.
func TestLook(t *testing.T) {
	w, failed := New(Config{}), errors.New("failed")
	for want, err := range map[int]error{1: nil, 0: failed} {
		if got, gotErr := Look(t.Context(), w, Pod{}, "/p", func() (int, error) { return want, err }, nil); got != want || !errors.Is(gotErr, err) {
			t.Errorf("%d, %v; want %d, %v", got, gotErr, want, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(failed)
	answers := make(chan struct{})
	if _, err := Look(ctx, w, Pod{}, "/p", hang(answers), nil); !errors.Is(err, failed) {
		t.Errorf("%v; want the context's cause", err)
	}
	close(answers)
}

// A look without an answer ends at its time-out; a later result is dropped.
func TestLookThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, answers, began := New(Config{Timeout: time.Minute}), make(chan struct{}), time.Now()
		dropped := 0
		_, err := Look(t.Context(), w, Pod{UID: "a"}, "/hung", hang(answers), func(n int) { dropped += n })
		if took := time.Since(began); !errors.Is(err, ErrNoAnswer) || took != time.Minute {
			t.Errorf("%v after %v", err, took)
		}
		close(answers)
		synctest.Wait()
		if places, _ := w.places.Taken(); places != 0 || dropped != 1 {
			t.Errorf("%d places are taken, and %d values dropped", places, dropped)
		}
	})
}

// Looks that hang are bounded for each pod, and leave places for other namespaces, whose looks are answered.
func TestLooksAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, answers := New(Config{}), make(chan struct{})
		hangs := map[bool]int{}
		for pod := range 100 {
			for range 2 * perPod {
				began := time.Now()
				_, err := Look(t.Context(), w, Pod{fmt.Sprint(pod), "greedy"}, "/hung", hang(answers), nil)
				if err == nil || errors.Is(err, ErrNoAnswer) == (time.Since(began) == 0) {
					t.Fatalf("%v after %v", err, time.Since(began))
				}
				hangs[errors.Is(err, ErrNoAnswer)]++
			}
			if pod == 0 && hangs[true] != perPod {
				t.Errorf("one pod has %d looks under way; want %d", hangs[true], perPod)
			}
		}
		if hangs[true] > 24+4 {
			t.Errorf("one namespace has %d looks under way", hangs[true])
		}
		if got, err := Look(t.Context(), w, Pod{"other", "modest"}, "/good", func() (int, error) { return 1, nil }, nil); got != 1 || err != nil {
			t.Errorf("another one: %d, %v", got, err)
		}
		close(answers)
	})
}
