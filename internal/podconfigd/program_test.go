package podconfigd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// asDaemon in the environment makes the test's own binary podconfigd.
const asDaemon = "PODCONFIGD_TEST_AS_DAEMON"

func TestMain(m *testing.M) {
	if os.Getenv(asDaemon) != "" {
		Program().Main()
	}
	goleak.VerifyTestMain(m)
}

// extra is an Extra of one source, which gets its sets from the test.
type extra struct {
	name, location string
	// sets are applied by Run; after each it reports what was published.
	sets      chan manifest.Set
	published chan publication
}

type publication struct {
	instance string
	revision uint64
}

func newExtra(name string) *extra {
	return &extra{name: name, sets: make(chan manifest.Set), published: make(chan publication)}
}

func (e *extra) AddFlags(fs *pflag.FlagSet) { fs.StringVar(&e.location, e.name, "", "") }

func (e *extra) Sources() ([]merge.Source, error) {
	if e.location == "" {
		return nil, errors.New("--" + e.name + " is missing")
	}
	return []merge.Source{{Name: e.name, Location: e.location}}, nil
}

func (e *extra) Run(ctx context.Context, hub Hub) error {
	for {
		select {
		case set := <-e.sets:
			if set.Source != e.name {
				return errors.New("no set of mine")
			}
			hub.Apply(set)
			var p publication
			p.instance, p.revision = hub.Published()
			e.published <- p
		case <-ctx.Done():
			return nil
		}
	}
}

// start runs the program and returns its gRPC socket and the channel on which its exit code comes.
func start(ctx context.Context, t *testing.T, stderr io.Writer, e *extra, args ...string) (socket string, code <-chan int) {
	t.Helper()
	dir := t.TempDir()
	socket = "unix://" + filepath.Join(dir, "s.sock")
	args = append([]string{"--root-dir", filepath.Join(dir, "root"), "--listen", socket, "--" + e.name, "here"}, args...)
	ended := make(chan int, 1)
	go func() { ended <- Program(e).Run(ctx, args, t.Output(), stderr) }()
	return socket, ended
}

// TestProgramWithExtra: the pods of an extra are published when Apply returns, and a consumer gets them.
func TestProgramWithExtra(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e := newExtra("api")
	socket, code := start(ctx, t, t.Output(), e, "--pod-manifest-path=")
	var got publication
	for second, text := range []string{"a: web(uid=u1)", "a: web(uid=u1,phase=Running)", "a: web(uid=u1,phase=Running)"} {
		e.sets <- mergetest.Set("api", int64(second), text)
		got = <-e.published
	}
	if got.instance == "" || got.revision != 2 {
		t.Errorf("after two changes %+v is published; want revision 2 of some instance", got)
	}

	conn, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	call, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	pods, err := podconfigv1.NewPodConfigServiceClient(conn).ListPods(call, &podconfigv1.ListPodsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if pods.GetInstanceId() != got.instance || pods.GetRevision() != got.revision ||
		len(pods.GetPods()) != 1 || pods.GetPods()[0].GetSource() != "api" {
		t.Errorf("ListPods gives %v; want one pod of api at %+v", pods, got)
	}
	cancel()
	if got := <-code; got != 0 {
		t.Errorf("the exit code is %d; want 0", got)
	}
}

// TestProgramEndsWithExtra: an extra that fails ends the program with its error.
func TestProgramEndsWithExtra(t *testing.T) {
	e := newExtra("api")
	var stderr bytes.Buffer
	_, code := start(t.Context(), t, &stderr, e, "--pod-manifest-path=")
	e.sets <- manifest.Set{Source: "other"}
	if got := <-code; got != 1 || !strings.Contains(stderr.String(), "podconfigd: no set of mine") {
		t.Errorf("exit code %d, with the output %q; want 1 and the error", got, stderr.String())
	}
}
