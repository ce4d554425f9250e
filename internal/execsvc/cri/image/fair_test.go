package image

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
)

// askAll requests images of the pod for its container, which may be unnamed.
func askAll(t *testing.T, p *Puller, asking *v1.Pod, container string, images ...string) {
	t.Helper()
	for _, image := range images {
		c := &v1.Container{Name: container, Image: image, ImagePullPolicy: v1.PullAlways}
		if _, wait, err := p.Ensure(t.Context(), asking, c, nil); wait == nil || !wait.Pulling || err != nil {
			t.Fatalf("ask for %s: %+v, %v", image, wait, err)
		}
		synctest.Wait()
	}
}

// numbered returns n images.
func numbered(name string, n int) []string {
	var images []string
	for i := range n {
		images = append(images, fmt.Sprintf("%s%03d:1", name, i))
	}
	return images
}

// TestManyImagesOfOnePod: the images of a pod that has many are pulled a few at a time, whatever the configuration
// allows, and all in the end. Those that a container waits for come first. The images of another pod don't wait for
// them, but for one or two where pulls are limited.
func TestManyImagesOfOnePod(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg Config
		// other is the latest start of the other pod's image, and all the time of all pulls.
		other, all time.Duration
	}{
		"parallel": {Config{}, 0, 26 * time.Second},
		"serial":   {Config{Serial: true}, 2 * time.Second, 102 * time.Second},
		"two":      {Config{MaxParallel: 2}, 1 * time.Second, 51 * time.Second},
		"rate":     {Config{QPS: 5, Burst: 1}, 400 * time.Millisecond, 26 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &registry{began: time.Now()}
				tc.cfg.Images = r
				p := New(tc.cfg)
				defer p.Close()
				many, other := pod("1"), pod("2")
				askAll(t, p, many, "", numbered("m", 100)...)
				askAll(t, p, many, "a", "m099:1", "n:1")
				askAll(t, p, other, "a", "o:1")
				if shown := len(p.Pulls("1")); shown != maxAsks {
					t.Errorf("%d pulls of the pod are shown; want %d", shown, maxAsks)
				}
				time.Sleep(tc.all + 10*time.Second) // of the bubble's time
				synctest.Wait()
				r.mu.Lock()
				defer r.mu.Unlock()
				if len(r.lines) != 102 {
					t.Errorf("%d pulls; want all 102", len(r.lines))
				}
				at := func(image string) int {
					return slices.IndexFunc(r.lines, func(line string) bool { return strings.Contains(line, " "+image+" ") })
				}
				if got := startOf(t, r.lines[at("o:1")]); got > tc.other {
					t.Errorf("the other pod's image is pulled after %v; want at most %v", got, tc.other)
				}
				if at("m099:1") > 2*maxAsks || at("n:1") > 2*maxAsks {
					t.Errorf("the container's images are the %dth and %dth", at("m099:1"), at("n:1"))
				}
				if got := startOf(t, r.lines[len(r.lines)-1]); got > tc.all {
					t.Errorf("the last pull starts after %v; want %v", got, tc.all)
				}
			})
		})
	}
}

func startOf(t *testing.T, line string) time.Duration {
	t.Helper()
	at, _, _ := strings.Cut(line, " ")
	d, err := time.ParseDuration(at)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestCancelledPullsOweNothing: the pulls of pods that were removed before their pulls started don't count for the rate.
func TestCancelledPullsOweNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{began: time.Now()}
		p := New(Config{Images: r, QPS: 1, Burst: 1})
		defer p.Close()
		askAll(t, p, pod("first"), "a", "first:1")
		for i := range 50 {
			gone := pod(fmt.Sprint(i))
			askAll(t, p, gone, "a", fmt.Sprintf("gone:%d", i))
		}
		for i := range 50 {
			p.Drop(pod(fmt.Sprint(i)).UID)
		}
		askAll(t, p, pod("last"), "a", "last:1")
		time.Sleep(2500 * time.Millisecond) // of the bubble's time
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		if diff := cmp.Diff([]string{`0s first:1 with ""`, `1s last:1 with ""`}, r.lines); diff != "" {
			t.Errorf("pulls (-want +got):\n%s", diff)
		}
	})
}

// TestTurns: each turn has one pull of every pod. A pod that asks later is in the next turn, so that new pods don't
// delay the old ones' for ever.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{began: time.Now()}
		p := New(Config{Images: r, Serial: true})
		defer p.Close()
		askAll(t, p, pod("1"), "a", "a1:1", "a2:1", "a3:1", "a4:1")
		askAll(t, p, pod("2"), "a", "b1:1", "b2:1")
		time.Sleep(1500 * time.Millisecond) // of the bubble's time
		askAll(t, p, pod("3"), "a", "c1:1")
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []string{
			`0s a1:1 with ""`, `1s a2:1 with ""`, `2s b1:1 with ""`, `3s a3:1 with ""`, `4s b2:1 with ""`, `5s c1:1 with ""`, `6s a4:1 with ""`,
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if diff := cmp.Diff(want, r.lines); diff != "" {
			t.Errorf("pulls (-want +got):\n%s", diff)
		}
	})
}

// countingKeys counts the lookups that run at a time.
type countingKeys struct {
	none
	now, most atomic.Int64
}

func (k *countingKeys) Lookup(context.Context, *v1.Pod, string) []imageaccess.Login {
	k.most.Store(max(k.most.Load(), k.now.Add(1)))
	defer k.now.Add(-1)
	time.Sleep(time.Second) // of the bubble's time
	return nil
}

// TestHeldRequests: credentials are looked up only for the requests that are under way, and only they have the event
// that the image is being pulled. A removed pod's are forgotten.
func TestHeldRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, keys, recorder := &registry{began: time.Now()}, &countingKeys{}, events.New(events.Config{})
		p := New(Config{Images: r, Credentials: keys, Events: recorder})
		defer p.Close()
		asking := pod("1")
		askAll(t, p, asking, "a", numbered("m", 50)...)
		if list, _, _ := recorder.After(0); len(list) != maxAsks {
			t.Errorf("%d events; want %d", len(list), maxAsks)
		}
		time.Sleep(2500 * time.Millisecond) // of the bubble's time
		synctest.Wait()
		if list, _, _ := recorder.After(0); len(list) != 3*maxAsks {
			t.Errorf("%d events after the first pulls; want %d that begin and %d that end", len(list), 2*maxAsks, maxAsks)
		}
		p.Drop(asking.UID)
		time.Sleep(time.Minute) // of the bubble's time
		synctest.Wait()
		if most := keys.most.Load(); most != maxAsks {
			t.Errorf("%d lookups at a time; want %d", most, maxAsks)
		}
		if len(r.lines) != maxAsks {
			t.Errorf("pulls %q; want those before the pod was removed", r.lines)
		}
	})
}

// slowFor are credentials that take half a second for one pod.
type slowFor struct {
	none
	uid types.UID
}

func (s slowFor) Lookup(_ context.Context, pod *v1.Pod, _ string) []imageaccess.Login {
	if pod.UID == s.uid {
		time.Sleep(500 * time.Millisecond) // of the bubble's time
	}
	return nil
}

// TestJoinedPullIsShown: Done is called for a pod that was shown as waiting and then joins a pull that runs.
func TestJoinedPullIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, reported := &registry{began: time.Now()}, make(chan types.UID, 10)
		p := New(Config{Images: r, Credentials: slowFor{uid: "2"}, Done: func(uid types.UID) { reported <- uid }})
		defer p.Close()
		askAll(t, p, pod("1"), "a", "a:1")
		askAll(t, p, pod("2"), "a", "a:1")
		if pulls := p.Pulls("2"); len(pulls) != 1 || !pulls[0].Started.IsZero() {
			t.Fatalf("pulls: %+v", pulls)
		}
		time.Sleep(600 * time.Millisecond) // of the bubble's time
		synctest.Wait()
		if len(reported) != 1 || <-reported != "2" {
			t.Error("Done wasn't called for the pod that waited")
		}
		if pulls := p.Pulls("2"); len(pulls) != 1 || pulls[0].Started.IsZero() {
			t.Errorf("pulls: %+v", pulls)
		}
		if len(r.lines) != 1 {
			t.Errorf("pulls %q; want one", r.lines)
		}
	})
}

func (*countingKeys) Secrets(*v1.Pod, string) []imageaccess.Login { return nil }

func (slowFor) Secrets(*v1.Pod, string) []imageaccess.Login { return nil }
