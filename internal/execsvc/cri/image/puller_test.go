package image

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
)

// TestPolicies: the effect of each policy on an image that is there and one that isn't, and the resulting events.
func TestPolicies(t *testing.T) {
	absent, there := "sim/app:1", "localhost/app:1"
	for _, tc := range []struct {
		image        string
		first, after string // after: when a pull, if there was one, has ended
		pulls        int
		events       []string
	}{
		{"IfNotPresent " + there, "present", "present", 0, []string{`a Pulled: Container image "localhost/app:1" already present on machine and can be accessed by the pod`}},
		{"IfNotPresent " + absent, "pulling", "present", 1, []string{
			`a Pulling: Pulling image "sim/app:1"`,
			`a Pulled: Successfully pulled image "sim/app:1" in 0s (0s including waiting). Image size: 4194304 bytes.`,
		}},
		{"Always " + there, "pulling", "present", 1, []string{
			`a Pulling: Pulling image "localhost/app:1"`,
			`a Pulled: Successfully pulled image "localhost/app:1" in 0s (0s including waiting). Image size: 4194304 bytes.`,
		}},
		{"Never " + there, "present", "present", 0, []string{`a Pulled: Container image "localhost/app:1" already present on machine and can be accessed by the pod`}},
		{"Never " + absent, "ErrImageNeverPull!", "ErrImageNeverPull!", 0, []string{
			`a ErrImageNeverPull: Container image "sim/app:1" is not present with pull policy of Never (2)`,
		}},
		{"IfNotPresent sim//app", "InvalidImageName!", "InvalidImageName!", 0, []string{
			`a InspectFailed: Failed to apply default image tag "sim//app": couldn't parse image name "sim//app": invalid reference format (2)`,
		}},
		{"IfNotPresent sim/App", "InvalidImageName!", "InvalidImageName!", 0, []string{
			`a InspectFailed: Failed to apply default image tag "sim/App": couldn't parse image name "sim/App": ` +
				`invalid reference format: repository name (sim/App) must be lowercase (2)`,
		}},
		{"IfNotPresent missing/app:1", "pulling", "ErrImagePull!", 1, []string{
			`a Pulling: Pulling image "missing/app:1"`,
			`a Failed: Failed to pull image "missing/app:1": rpc error: code = NotFound desc = failed to pull and unpack image ` +
				`"docker.io/missing/app:1": failed to resolve reference "docker.io/missing/app:1": docker.io/missing/app:1: not found`,
		}},
	} {
		t.Run(tc.image, func(t *testing.T) {
			s := newSim(t, Config{})
			p := pod("1", tc.image)
			s.want(p, 0, tc.first)
			if tc.pulls > 0 {
				s.wantDone(p)
			}
			s.want(p, 0, tc.after)
			if got := s.Server.Calls()["PullImage"]; got != tc.pulls {
				t.Errorf("%d pulls; want %d", got, tc.pulls)
			}
			if diff := cmp.Diff(tc.events, s.said()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// TestInspectError: an image whose status can't be read isn't pulled.
func TestInspectError(t *testing.T) {
	s := newSim(t, Config{})
	s.SetFault(func(_ context.Context, method string) error {
		if method == "ImageStatus" {
			return status.Error(codes.Internal, "no disk")
		}
		return nil
	})
	p := pod("1", "sim/app:1")
	if wait := s.want(p, 0, "ImageInspectError!"); !strings.Contains(wait.Message, "no disk") {
		t.Errorf("message %q", wait.Message)
	}
	s.SetFault(nil)
	s.want(p, 0, "pulling")
	s.wantDone(p)
	s.want(p, 0, "present")
}

// TestPullDoesNotWait: during a pull, the pod's pulls show the image and the start time; then it has the image.
func TestPullDoesNotWait(t *testing.T) {
	s := newSim(t, Config{})
	p := pod("1", "slow/app:5s")
	s.want(p, 0, "pulling")
	started := s.clock.Now()
	if got := receive(t, s.clock.Set); got != 5*time.Second {
		t.Fatalf("the runtime takes %v", got)
	}
	s.clock.Step(4 * time.Second)
	if wait := s.want(p, 0, "pulling"); wait.Message != `pulling image "slow/app:5s" since 1970-01-12T13:46:40Z` {
		t.Errorf("message %q", wait.Message)
	}
	if diff := cmp.Diff([]Pull{{Image: "slow/app:5s", Asked: started, Started: started}}, s.Pulls(p.UID)); diff != "" {
		t.Errorf("pulls (-want +got):\n%s", diff)
	}
	s.clock.Step(time.Second)
	s.wantDone(p)
	s.want(p, 0, "present")
	if pulls := s.Pulls(p.UID); pulls != nil {
		t.Errorf("pulls %+v after the end", pulls)
	}
	want := `a Pulled: Successfully pulled image "slow/app:5s" in 5s (5s including waiting). Image size: 4194304 bytes.`
	if said := s.said(); !slices.Contains(said, want) {
		t.Errorf("events %q; want %q", said, want)
	}
}

// TestAlwaysPullsOnceForOneStart: an image that was pulled while the pod waits for another one isn't pulled again for
// this start; for a later start it is.
func TestAlwaysPullsOnceForOneStart(t *testing.T) {
	s := newSim(t, Config{})
	p := pod("1", "Always slow/app:10m", "Always slow/app:1s", "Always slow/app:1s")
	s.want(p, 0, "pulling")
	receive(t, s.clock.Set)
	s.want(p, 1, "pulling")
	s.want(p, 2, "pulling")
	s.endsIn(time.Second, p)
	s.want(p, 1, "present")
	s.clock.Step(10 * time.Minute)
	s.wantDone(p)
	for range 2 {
		s.want(p, 0, "present")
		s.want(p, 1, "present")
		s.want(p, 2, "present")
	}
	if got := s.Server.Calls()["PullImage"]; got != 2 {
		t.Errorf("%d pulls; want one an image", got)
	}
	s.clock.Step(freshFor)
	s.want(p, 1, "pulling")
	s.endsIn(time.Second, p)
}

// TestAlwaysPullsForEachStart: a container that restarts has its image pulled again, however soon, and so has another
// one that didn't wait for the pull.
func TestAlwaysPullsForEachStart(t *testing.T) {
	s := newSim(t, Config{})
	p := pod("1", "Always sim/app:1", "Always sim/app:1")
	starts := func(container int) {
		t.Helper()
		s.want(p, container, "pulling")
		s.wantDone(p)
		s.want(p, container, "present")
		s.Used(p.UID, p.Spec.Containers[container].Name)
	}
	starts(0)
	starts(0)
	starts(1)
	if got := s.Server.Calls()["PullImage"]; got != 3 {
		t.Errorf("%d pulls; want one for each start", got)
	}
}

// TestBackoffAfterClockSetBack: the backoff doesn't get longer when the clock is set back.
func TestBackoffAfterClockSetBack(t *testing.T) {
	s := newSim(t, Config{})
	p := pod("1", "missing/app:1")
	s.want(p, 0, "pulling")
	s.wantDone(p)
	s.want(p, 0, "ErrImagePull!")
	s.clock.SetTime(s.clock.Now().Add(-time.Hour))
	if wait := s.want(p, 0, "ImagePullBackOff"); wait.RetryAfter != 10*time.Second {
		t.Errorf("retry in %v; want 10s", wait.RetryAfter)
	}
	s.clock.Step(10 * time.Second)
	s.want(p, 0, "pulling")
	s.wantDone(p)
}

// TestBackoff: the failure is returned once, and shown for a while; then the status shows the backoff, longer each
// time. Other pull secrets are tried at once.
func TestBackoff(t *testing.T) {
	k := &keys{}
	s := newSim(t, Config{Credentials: k})
	p := pod("1", "missing/app:1")
	fails := func(pause time.Duration) {
		t.Helper()
		s.want(p, 0, "pulling")
		s.wantDone(p)
		if wait := s.want(p, 0, "ErrImagePull!"); wait.RetryAfter != errorShown {
			t.Errorf("after a failure look again in %v; want %v", wait.RetryAfter, errorShown)
		}
		if wait := s.want(p, 0, "ImagePullBackOff"); wait.RetryAfter != pause {
			t.Errorf("after a failure retry in %v; want %v", wait.RetryAfter, pause)
		}
	}
	fails(10 * time.Second)
	s.clock.Step(4 * time.Second)
	wait := s.want(p, 0, "ImagePullBackOff")
	if wait.RetryAfter != 6*time.Second || !strings.HasPrefix(wait.Message, `Back-off pulling image "missing/app:1": ErrImagePull: `) {
		t.Errorf("in backoff: %+v", wait)
	}
	for _, pause := range []int{20, 40, 80, 160, 300, 300} {
		s.clock.Step(300 * time.Second)
		fails(time.Duration(pause) * time.Second)
	}
	k.set("2")
	fails(10 * time.Second)
	s.clock.Step(10 * time.Second)
	fails(20 * time.Second)
	s.clock.Step(11 * time.Minute)
	fails(10 * time.Second)
	// Another pod isn't delayed by this one's backoff.
	s.want(pod("2", "missing/app:1"), 0, "pulling")
	receive(t, s.done)
}

// TestCredentialsInOrder: each is tried until one works; if none does, all errors are returned.
func TestCredentialsInOrder(t *testing.T) {
	k := &keys{}
	k.set("", imageaccess.Login{Username: "a"}, imageaccess.Login{Username: "b"})
	s := newSim(t, Config{Credentials: k})
	s.SetFault(func(_ context.Context, method string) error {
		if n := s.Server.Calls()["PullImage"]; method == "PullImage" && n != 2 {
			return status.Errorf(codes.Unauthenticated, "denied %d", n)
		}
		return nil
	})
	p := pod("1", "sim/app:1", "sim/other")
	s.want(p, 0, "pulling")
	s.wantDone(p)
	s.want(p, 0, "present")
	s.want(p, 1, "pulling")
	s.wantDone(p)
	if wait := s.want(p, 1, "ErrImagePull!"); !strings.Contains(wait.Message, "denied 3") || !strings.Contains(wait.Message, "denied 4") {
		t.Errorf("message %q", wait.Message)
	}
	if want := []string{"docker.io/sim/app", "docker.io/sim/other"}; !slices.Equal(k.asked, want) {
		t.Errorf("asked for the credentials of %q; want %q", k.asked, want)
	}
}

// TestDrop: when the last pod that waits for a pull is gone, the pull is cancelled, and the next one starts.
func TestDrop(t *testing.T) {
	s := newSim(t, Config{Serial: true})
	began, ended := make(chan struct{}), make(chan struct{})
	s.SetFault(func(ctx context.Context, method string) error {
		if method != "PullImage" {
			return nil
		}
		close(began)
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	})
	c, d := pod("c", "sim/app:1"), pod("d", "sim/other:1")
	s.want(c, 0, "pulling")
	receive(t, began)
	s.SetFault(nil)
	s.want(d, 0, "pulling")
	s.Drop(c.UID)
	s.Drop(c.UID)
	receive(t, ended)
	s.wantDone(d)
	s.want(d, 0, "present")
}

// TestClose: pulls are cancelled, Done isn't called, and no pull starts any more.
func TestClose(t *testing.T) {
	s := newSim(t, Config{})
	p := pod("1", "slow/app:1h", "sim/app:1")
	s.want(p, 0, "pulling")
	receive(t, s.clock.Set)
	s.Close()
	s.want(p, 1, "ErrImagePull!")
	if len(s.done) > 0 {
		t.Error("Done was called")
	}
}

// TestLyingRuntime: a pull that leaves no image is a failure, with a backoff.
func TestLyingRuntime(t *testing.T) {
	s := newSim(t, Config{})
	s.SetFault(func(_ context.Context, method string) error {
		if method == "ImageStatus" && s.Server.Calls()["PullImage"] > 0 {
			_ = s.Images.RemoveImage(context.Background(), &runtimeapi.ImageSpec{Image: "sim/app:1"})
		}
		return nil
	})
	p := pod("1", "sim/app:1")
	s.want(p, 0, "pulling")
	s.wantDone(p)
	if wait := s.want(p, 0, "ErrImagePull!"); wait.RetryAfter != errorShown {
		t.Errorf("%+v", wait)
	}
}
