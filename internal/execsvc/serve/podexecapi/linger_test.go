package podexecapi

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// TestLingering: the end of the caller's data comes after a silence of the pod, and at once if the pod's data has
// ended.
func TestLingering(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(*lingering)
		want time.Duration
	}{
		"a silent pod": {func(l *lingering) { l.start() }, time.Second},
		"a pod that goes on": {func(l *lingering) {
			l.start()
			for range 5 {
				time.Sleep(900 * time.Millisecond)
				l.progress()
			}
		}, 5*900*time.Millisecond + time.Second},
		"the pod ends": {func(l *lingering) {
			l.start()
			time.Sleep(100 * time.Millisecond)
			l.now()
		}, 100 * time.Millisecond},
		"the pod ended before": {func(l *lingering) {
			l.progress()
			l.now()
			l.start()
		}, 0},
		"it ends twice": {func(l *lingering) {
			l.start()
			time.Sleep(500 * time.Millisecond)
			l.start()
		}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reader, writer := io.Pipe()
				l := &lingering{writer: writer, time: time.Second}
				defer l.stop()
				began := time.Now()
				go tc.do(l)
				if _, err := reader.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(began) != tc.want {
					t.Errorf("%v after %v; want the end after %v", err, time.Since(began), tc.want)
				}
			})
		})
	}
}
