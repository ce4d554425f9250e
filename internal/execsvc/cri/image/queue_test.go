package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
)

// registry pulls each image in a second, and records when the pull started, with which credentials, and whether it was
// cancelled.
type registry struct {
	internalapi.ImageManagerService
	began time.Time

	mu    sync.Mutex
	lines []string
}

func (r *registry) ImageStatus(_ context.Context, image *runtimeapi.ImageSpec, _ bool) (*runtimeapi.ImageStatusResponse, error) {
	return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: image.GetImage()}}, nil
}

func (r *registry) PullImage(
	ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, _ *runtimeapi.PodSandboxConfig,
) (string, error) {
	r.note("%s with %q", image.GetImage(), auth.GetUsername())
	select {
	case <-time.After(time.Second):
		return image.GetImage(), nil
	case <-ctx.Done():
		r.note("%s broken off", image.GetImage())
		return "", ctx.Err()
	}
}

func (r *registry) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf("%v ", time.Since(r.began))+fmt.Sprintf(format, args...))
}

// ownKeys are credentials that take the time in a pod's annotation "slow", and have the name in its annotation "user".
type ownKeys struct{ none }

func (ownKeys) Lookup(ctx context.Context, pod *v1.Pod, _ string) []imageaccess.Login {
	if slow, err := time.ParseDuration(pod.Annotations["slow"]); err == nil {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
		}
	}
	if user := pod.Annotations["user"]; user != "" {
		return []imageaccess.Login{{Username: user}}
	}
	return nil
}

// TestQueue: which pulls start when, and how often Done is called for each pod: twice for a pull that had to wait for a
// second. Each case starts at second 0, with everything else settled between its steps.
func TestQueue(t *testing.T) {
	type step struct {
		pod, image, user, slow string
		drop                   string
	}
	for _, tc := range []struct {
		name  string
		cfg   Config
		steps []step
		want  []string
		done  []string
	}{
		{"all at once", Config{}, []step{{pod: "1", image: "a:1"}, {pod: "2", image: "b:1"}, {pod: "3", image: "c:1"}},
			[]string{`0s a:1 with ""`, `0s b:1 with ""`, `0s c:1 with ""`}, []string{"1", "2", "3"}},
		{"one after the other", Config{Serial: true, MaxParallel: 5},
			[]step{{pod: "1", image: "a:1"}, {pod: "2", image: "b:1"}, {pod: "1", image: "c:1"}},
			[]string{`0s a:1 with ""`, `1s b:1 with ""`, `2s c:1 with ""`}, []string{"1", "1", "1", "2", "2"}},
		{"two at a time", Config{MaxParallel: 2}, []step{{pod: "1", image: "a:1"}, {pod: "2", image: "b:1"}, {pod: "3", image: "c:1"}},
			[]string{`0s a:1 with ""`, `0s b:1 with ""`, `1s c:1 with ""`}, []string{"1", "2", "3", "3"}},
		{"two in a second", Config{QPS: 2, Burst: 1}, []step{{pod: "1", image: "a:1"}, {pod: "2", image: "b:1"}, {pod: "3", image: "c:1"}},
			[]string{`0s a:1 with ""`, `500ms b:1 with ""`, `1s c:1 with ""`}, []string{"1", "2", "2", "3", "3"}},
		{"in the order of the requests, whichever credentials come first", Config{Serial: true},
			[]step{{pod: "1", image: "a:1"}, {pod: "2", image: "b:1", slow: "500ms"}, {pod: "3", image: "c:1"}},
			[]string{`0s a:1 with ""`, `1s b:1 with ""`, `2s c:1 with ""`}, []string{"1", "2", "2", "3", "3"}},
		{"credentials that don't come delay no other pod", Config{Serial: true},
			[]step{{pod: "1", image: "a:1", slow: "5s"}, {pod: "2", image: "b:1"}},
			[]string{`0s b:1 with ""`, `5s a:1 with ""`}, []string{"1", "1", "2"}},
		{"one image is one pull", Config{}, []step{{pod: "1", image: "a:1"}, {pod: "2", image: "a:1"}, {pod: "1", image: "a:1"}},
			[]string{`0s a:1 with ""`}, []string{"1", "2"}},
		{"other credentials are another", Config{}, []step{{pod: "1", image: "a:1"}, {pod: "2", image: "a:1", user: "me"}, {pod: "3", image: "a:1"}},
			[]string{`0s a:1 with ""`, `0s a:1 with "me"`}, []string{"1", "2", "3"}},
		{"a pod that goes ends its pull", Config{Serial: true}, []step{{pod: "1", image: "a:1"}, {pod: "2", image: "b:1"}, {drop: "1"}},
			[]string{`0s a:1 with ""`, `0s a:1 broken off`, `0s b:1 with ""`}, []string{"2", "2"}},
		{"not if others wait", Config{}, []step{{pod: "1", image: "a:1"}, {pod: "2", image: "a:1"}, {drop: "1"}},
			[]string{`0s a:1 with ""`}, []string{"2"}},
		{"a waiting pull that no pod needs isn't started", Config{Serial: true},
			[]step{{pod: "1", image: "a:1"}, {pod: "2", image: "b:1"}, {pod: "3", image: "c:1"}, {drop: "2"}},
			[]string{`0s a:1 with ""`, `1s c:1 with ""`}, []string{"1", "3", "3"}},
		{"nor one whose credentials are still looked for", Config{}, []step{{pod: "1", image: "a:1", slow: "1s"}, {drop: "1"}}, nil, nil},
		{"a pod that comes back pulls again", Config{}, []step{{pod: "1", image: "a:1"}, {drop: "1"}, {pod: "1", image: "a:1"}},
			[]string{`0s a:1 with ""`, `0s a:1 broken off`, `0s a:1 with ""`}, []string{"1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &registry{began: time.Now()}
				var mu sync.Mutex
				done := map[string]int{}
				tc.cfg.Images, tc.cfg.Credentials = r, ownKeys{}
				tc.cfg.Done = func(uid types.UID) {
					mu.Lock()
					defer mu.Unlock()
					done[string(uid)]++
				}
				p := New(tc.cfg)
				defer p.Close()
				for _, s := range tc.steps {
					if s.drop != "" {
						p.Drop(types.UID(s.drop))
						synctest.Wait()
						continue
					}
					asking := pod(s.pod, "Always "+s.image)
					asking.Annotations = map[string]string{"user": s.user, "slow": s.slow}
					if _, wait, err := p.Ensure(t.Context(), asking, &asking.Spec.Containers[0], nil); wait == nil || !wait.Pulling || err != nil {
						t.Fatalf("ask for %s: %+v, %v", s.image, wait, err)
					}
					synctest.Wait()
					p.Pulls(asking.UID)
				}
				time.Sleep(time.Minute) // of the bubble's time
				synctest.Wait()
				if diff := cmp.Diff(tc.want, r.lines); diff != "" {
					t.Errorf("pulls (-want +got):\n%s", diff)
				}
				want := map[string]int{}
				for _, uid := range tc.done {
					want[uid]++
				}
				if diff := cmp.Diff(want, done); diff != "" {
					t.Errorf("done (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestNothingStays: after any pods have come and gone at once, no pull is running, queued or stored.
func TestNothingStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Images: &registry{began: time.Now()}, Credentials: ownKeys{}, MaxParallel: 3, QPS: 10})
		defer p.Close()
		var pods sync.WaitGroup
		for i := range 50 {
			asking := pod(fmt.Sprint(i), fmt.Sprintf("Always a:%d", i%7), fmt.Sprintf("Always b:%d", i%3))
			asking.Annotations = map[string]string{"user": fmt.Sprint(i % 2), "slow": fmt.Sprintf("%dms", i%4*100)}
			pods.Go(func() {
				for range i % 5 {
					for c := range asking.Spec.Containers {
						if _, _, err := p.Ensure(t.Context(), asking, &asking.Spec.Containers[c], nil); err != nil {
							t.Error(err)
						}
					}
					time.Sleep(time.Duration(i) * 17 * time.Millisecond) // of the bubble's time
					p.Pulls(asking.UID)
				}
				p.Drop(asking.UID)
			})
		}
		pods.Wait()
		synctest.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.pods)+len(p.pulls)+len(p.waiting)+p.begun != 0 {
			t.Errorf("there are still %d pods, %d pulls, %d waiting, %d begun", len(p.pods), len(p.pulls), len(p.waiting), p.begun)
		}
	})
}

func TestExplain(t *testing.T) {
	for _, tc := range []struct{ text, reason, message string }{
		{"RegistryUnavailable: 503", RegistryUnavailable, "image pull failed for a:1 because the registry is unavailable: 503"},
		{"RegistryUnavailable", RegistryUnavailable, "image pull failed for a:1 because the registry is unavailable"},
		{"SignatureValidationFailed: no key", SignatureValidationFailed, "image pull failed for a:1 because the signature validation failed: no key"},
		{"not found", ErrImagePull, "not found"},
	} {
		if reason, message := explain("a:1", errors.New(tc.text)); reason != tc.reason || message != tc.message {
			t.Errorf("%s: %s, %q", tc.text, reason, message)
		}
	}
}

// TestShownWaitIsOver: Done is called for a pod when its pull starts after it was shown as waiting, however short that
// was, so that what is shown of the pod doesn't stay that way until the pull ends.
func TestShownWaitIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var reported []string
		began := time.Now()
		p := New(Config{Images: &registry{began: began}, Serial: true, Done: func(uid types.UID) {
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, fmt.Sprintf("%v %s", time.Since(began), uid))
		}})
		defer p.Close()
		second := pod("2", "Always b:1")
		for _, asking := range []*v1.Pod{pod("1", "Always a:1"), second} {
			if _, wait, err := p.Ensure(t.Context(), asking, &asking.Spec.Containers[0], nil); wait == nil || err != nil {
				t.Fatalf("%+v, %v", wait, err)
			}
			synctest.Wait()
			p.Pulls(asking.UID)
		}
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff([]string{"1s 1", "1s 2"}, slices.Sorted(slices.Values(reported))); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		if pulls := p.Pulls("2"); len(pulls) != 1 || pulls[0].Started.IsZero() {
			t.Errorf("pulls: %+v", pulls)
		}
	})
}

// TestPullKey: pulls are shared only if the properties of the pods that a runtime may use are equal.
func TestPullKey(t *testing.T) {
	ref, err := parseReference("sim/app:1")
	if err != nil {
		t.Fatal(err)
	}
	base := pod("1", "sim/app:1")
	base.Annotations = map[string]string{"io.example/policy": "strict"}
	for name, tc := range map[string]struct {
		change func(*v1.Pod)
		same   bool
	}{
		"another pod":           {func(p *v1.Pod) { p.UID, p.Name = "2", "2" }, true},
		"the agent's":           {func(p *v1.Pod) { p.Annotations["kubernetes.io/config.hash"] = "x" }, true},
		"another namespace":     {func(p *v1.Pod) { p.Namespace = "other" }, false},
		"another annotation":    {func(p *v1.Pod) { p.Annotations["io.example/policy"] = "lax" }, false},
		"another runtime class": {func(p *v1.Pod) { p.Spec.RuntimeClassName = ptr.To("vm") }, false},
	} {
		other := base.DeepCopy()
		tc.change(other)
		if same := pullKey(base, ref, nil) == pullKey(other, ref, nil); same != tc.same {
			t.Errorf("%s: the keys are equal: %t; want %t", name, same, tc.same)
		}
	}
}
