package image

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/pullprogress"
)

// steady is a registry that needs 10 s for each image, and reports that progress. It fails to do so at second 3.
type steady struct {
	internalapi.ImageManagerService
	began time.Time

	mu    sync.Mutex
	polls []string
}

func (*steady) ImageStatus(_ context.Context, image *runtimeapi.ImageSpec, _ bool) (*runtimeapi.ImageStatusResponse, error) {
	return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: image.GetImage()}}, nil
}

func (*steady) PullImage(
	ctx context.Context, image *runtimeapi.ImageSpec, _ *runtimeapi.AuthConfig, _ *runtimeapi.PodSandboxConfig,
) (string, error) {
	select {
	case <-time.After(10 * time.Second):
		return image.GetImage(), nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (s *steady) Read(_ context.Context, pulls []pullprogress.Pull) []*pullprogress.Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polls = append(s.polls, fmt.Sprintf("%v: %d", time.Since(s.began), len(pulls)))
	out := make([]*pullprogress.Progress, len(pulls))
	for i, p := range pulls {
		if time.Since(s.began) != 3*time.Second {
			out[i] = &pullprogress.Progress{DoneBytes: int64(time.Since(p.Started) / time.Second), TotalBytes: 10, TotalLayers: 1}
		}
	}
	return out
}

// polled starts a Puller with that registry, and records the calls of Progressed.
func polled(t *testing.T, cfg Config, test func(p *Puller, r *steady, shown func() []string)) {
	synctest.Test(t, func(t *testing.T) {
		r := &steady{began: time.Now()}
		var mu sync.Mutex
		var shown []string
		cfg.Images, cfg.Progress = r, r
		cfg.Progressed = func(uid types.UID) {
			mu.Lock()
			defer mu.Unlock()
			shown = append(shown, fmt.Sprintf("%v %s", time.Since(r.began), uid))
		}
		p := New(cfg)
		defer p.Close()
		test(p, r, func() []string {
			mu.Lock()
			defer mu.Unlock()
			defer func() { shown = nil }()
			return shown
		})
	})
}

// pullOf requests the first image of a pod.
func pullOf(t *testing.T, p *Puller, uid, image string) {
	t.Helper()
	asking := pod(uid, "Always "+image)
	if _, wait, err := p.Ensure(t.Context(), asking, &asking.Spec.Containers[0], nil); wait == nil || !wait.Pulling || err != nil {
		t.Fatalf("%+v, %v", wait, err)
	}
	synctest.Wait()
}

// The progress is read once a second while a pull runs, and not while none does. A change is shown for each pod that waits
// for the pull, once; a reading that fails takes nothing back.
func TestPolls(t *testing.T) {
	polled(t, Config{}, func(p *Puller, r *steady, shown func() []string) {
		time.Sleep(time.Minute)
		if len(r.polls) > 0 {
			t.Errorf("read without a pull: %v", r.polls)
		}
		r.began = time.Now()
		pullOf(t, p, "1", "a:1")
		pullOf(t, p, "2", "a:1")
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if diff := cmp.Diff([]string{"1s 1", "1s 2"}, shown()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if now := p.Pulls("2")[0].Progress; now == nil || now.DoneBytes != 1 {
			t.Errorf("the progress is %+v", now)
		}
		pullOf(t, p, "3", "b:1")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if now := p.Pulls("1")[0].Progress; now == nil || now.DoneBytes != 2 {
			t.Errorf("after a reading that has failed, the progress is %+v", now)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []string{"1s: 1", "2s: 2", "3s: 2", "4s: 2", "5s: 2", "6s: 2", "7s: 2", "8s: 2", "9s: 2"}
		if diff := cmp.Diff(append(want, "10s: 1", "11s: 1"), r.polls); diff != "" && cmp.Diff(append(want, "10s: 2", "11s: 1"), r.polls) != "" {
			t.Errorf("readings (-want +got):\n%s", diff)
		}
	})
}

// Queued pulls aren't asked for, and a pull of less than a second isn't either.
func TestPollsOnlyRunningPulls(t *testing.T) {
	polled(t, Config{Serial: true}, func(p *Puller, r *steady, _ func() []string) {
		pullOf(t, p, "1", "a:1")
		pullOf(t, p, "2", "b:1")
		time.Sleep(1500 * time.Millisecond)
		p.Drop("1")
		synctest.Wait()
		time.Sleep(300 * time.Millisecond)
		p.Drop("2")
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]string{"1s: 1"}, r.polls); diff != "" {
			t.Errorf("readings (-want +got):\n%s", diff)
		}
	})
}

func TestPullMessage(t *testing.T) {
	at := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		pull Pull
		want string
	}{
		"queued":  {Pull{Image: "a:1", Asked: at}, `{"image":"a:1","askedTime":"1970-01-01T00:16:40Z"}`},
		"running": {Pull{Image: "a:1", Asked: at, Started: at}, `{"image":"a:1","askedTime":"1970-01-01T00:16:40Z","startedTime":"1970-01-01T00:16:40Z"}`},
		"with progress": {
			Pull{Image: "a:1", Asked: at, Progress: &pullprogress.Progress{DoneBytes: 5, TotalBytes: 10, DoneLayers: 1, TotalLayers: 2}},
			`{"image":"a:1","askedTime":"1970-01-01T00:16:40Z","progress":{"doneBytes":"5","totalBytes":"10","doneLayers":1,"totalLayers":2}}`,
		},
		"nothing yet, and the total is zero": {
			Pull{Image: "a:1", Asked: at, Progress: &pullprogress.Progress{TotalLayers: 2}},
			`{"image":"a:1","askedTime":"1970-01-01T00:16:40Z","progress":{"totalBytes":"0","totalLayers":2}}`,
		},
		"without the totals": {
			Pull{Image: "a:1", Asked: at, Progress: &pullprogress.Progress{DoneBytes: 5, TotalBytes: 10, DoneLayers: 1, TotalLayers: 2, Partial: true}},
			`{"image":"a:1","askedTime":"1970-01-01T00:16:40Z","progress":{"doneBytes":"5","doneLayers":1}}`,
		},
	} {
		if got := jsonOf(t, tc.pull.Message()); got != tc.want {
			t.Errorf("%s: %s; want %s", name, got, tc.want)
		}
	}
}
