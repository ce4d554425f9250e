package image

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
)

// hungRecords are on a disk that doesn't answer for a:1 before it is received from: at Intend, or at the record.
type hungRecords struct {
	noRecords
	atIntend bool
	disk     chan struct{}
}

func (r hungRecords) Intend(image, _ string) (Intent, error) {
	if image != "a:1" {
		return r.noRecords, nil
	}
	if r.atIntend {
		<-r.disk
	}
	return r, nil
}

func (r hungRecords) Pulled(*runtimeapi.Image, []imageaccess.Login) error {
	if !r.atIntend {
		<-r.disk
	}
	return nil
}

// TestHungRecords: while the disk of the records hangs, no pull starts unrecorded, and the pull whose record is being
// written keeps its place. Other pulls go on if the queue allows several; all go on when the disk answers. Images that are
// there stay usable, and pods can be removed.
func TestHungRecords(t *testing.T) {
	for _, tc := range []struct {
		name             string
		serial, atIntend bool
		hung, answered   []string
	}{
		{"serial, before the pull", true, true, nil, []string{`1h0m0s a:1 with ""`, `1h0m1s b:1 with ""`}},
		{"serial, after the pull", true, false, []string{`0s a:1 with ""`}, []string{`0s a:1 with ""`, `1h0m0s b:1 with ""`}},
		{"parallel, before the pull", false, true, []string{`0s b:1 with ""`}, []string{`0s b:1 with ""`, `1h0m0s a:1 with ""`}},
		{"parallel, after the pull", false, false, []string{`0s a:1 with ""`, `0s b:1 with ""`},
			// A request after the pull's end is another pull; its pod is removed.
			[]string{`0s a:1 with ""`, `0s b:1 with ""`, `1h0m0s a:1 with ""`, "1h0m0s a:1 broken off"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, records := &registry{began: time.Now()}, hungRecords{atIntend: tc.atIntend, disk: make(chan struct{})}
				p := New(Config{Images: r, Records: records, Serial: tc.serial})
				defer p.Close()
				ensure := func(uid, image string, want bool) {
					t.Helper()
					asking := pod(uid, image)
					found, wait, err := p.Ensure(t.Context(), asking, &asking.Spec.Containers[0], nil)
					if (found != nil) != want || err != nil || !want && !wait.Pulling {
						t.Fatalf("%s: %v, %+v, %v", image, found, wait, err)
					}
					synctest.Wait()
				}
				wantPulls := func(when string, want []string) {
					t.Helper()
					time.Sleep(time.Hour) // of the bubble's time
					synctest.Wait()
					r.mu.Lock()
					defer r.mu.Unlock()
					if diff := cmp.Diff(want, r.lines); diff != "" {
						t.Errorf("%s: pulls (-want +got):\n%s", when, diff)
					}
				}
				ensure("1", "Always a:1", false)
				ensure("2", "Always b:1", false)
				wantPulls("while it hangs", tc.hung)
				ensure("3", "IfNotPresent c:1", true)
				ensure("1", "Always a:1", false)
				ensure("4", "Always a:1", false)
				p.Drop("4")
				close(records.disk)
				wantPulls("when it answers", tc.answered)
			})
		})
	}
}
