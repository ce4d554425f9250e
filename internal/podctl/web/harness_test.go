package web_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/podctl/web"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1/podwebv1connect"
	"github.com/podstream/podstream/internal/podctl/web/webtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// target is a podctl web that runs.
type target struct {
	t          *testing.T
	podconfigd *webtest.Podconfigd
	podexecd   *webtest.Podexecd
	// path is that of the file with the link.
	path   string
	config web.Config
	stop   func() error
	// session and client are those of open.
	session string
	client  podwebv1connect.WebServiceClient

	mu    sync.Mutex
	notes []string
	noted chan struct{}
}

// start runs a podctl web with some changes of its configuration, until the test ends.
func start(t *testing.T, change func(*web.Config)) *target {
	t.Helper()
	x := &target{t: t, podconfigd: webtest.NewPodconfigd(t, 0, "file"), podexecd: webtest.NewPodexecd(t), noted: make(chan struct{}, 1)}
	dir, err := os.MkdirTemp("", "pwh")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cfg := web.Config{
		Podconfigd: x.podconfigd.Daemon(), Podexecd: x.podexecd.Daemon(), Consumer: "podctl-web", Version: "v1.2.3",
		Note: x.note, HandoverDir: dir, HandoverOwner: -1, Clock: clock.RealClock{}, FirstPause: 5 * time.Millisecond, Poll: 5 * time.Millisecond,
		Unified: func(_, _ *corev1.Pod, _ int) (string, error) { return "", errors.New("not in this test") },
		Changes: func(context.Context, *podconfigv1.DiffManifestsResponse) ([]*podwebv1.PodDiff, error) {
			return nil, nil
		},
	}
	if change != nil {
		change(&cfg)
	}
	x.config = cfg
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	var runErr error
	go func() {
		defer close(ended)
		runErr = web.Run(ctx, cfg)
	}()
	x.stop = func() error {
		cancel()
		<-ended
		return runErr
	}
	t.Cleanup(func() {
		if err := x.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	webtest.Await(t, "the link", x.noted, func() bool {
		select {
		case <-ended:
			t.Fatalf("Run: %v", runErr)
		default:
		}
		if line := x.find("file://"); line != "" {
			x.path = strings.TrimPrefix(strings.TrimSpace(line), "file://")
		}
		return x.path != ""
	})
	return x
}

func (x *target) note(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.notes = append(x.notes, fmt.Sprintf(format, args...))
	select {
	case x.noted <- struct{}{}:
	default:
	}
}

// find returns the last note with a text.
func (x *target) find(text string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	found := ""
	for _, note := range x.notes {
		if strings.Contains(note, text) {
			found = note
		}
	}
	return found
}

// awaitNote waits for a note.
func (x *target) awaitNote(text string) string {
	x.t.Helper()
	webtest.Await(x.t, "the note "+text, x.noted, func() bool { return x.find(text) != "" })
	return x.find(text)
}

// link reads the file with the link.
func (x *target) link() webtest.Link {
	x.t.Helper()
	link, ok := webtest.ReadLink(x.path)
	if !ok {
		x.t.Fatalf("%s has no link", x.path)
	}
	return link
}

// open opens a session, once.
func (x *target) open() (session string, client podwebv1connect.WebServiceClient) {
	x.t.Helper()
	if x.client == nil {
		x.session, x.client = webtest.Open(x.t, x.link())
	}
	return x.session, x.client
}
