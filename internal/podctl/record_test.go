package podctl

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/recording"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// A recording until Ctrl-C, on standard output.
func TestRecord(t *testing.T) {
	n := newNode(t)
	requests := make(chan *podconfigv1.WatchPodUpdatesRequest, 1)
	n.podconfigd(&fakePodconfigd{scripts: [][]*podconfigv1.WatchPodUpdatesResponse{saidAll(t)}, requests: requests})
	interrupt := n.start("record", "-")
	n.stdout.await(t, `"revision":"5"`)
	if code := interrupt(); code != exitOK {
		t.Errorf("exit code %d after Ctrl-C; want 0", code)
	}
	n.golden("record.jsonl", n.stdout.String())
	if got, want := n.stderr.String(), "podctl: recorded 2 revisions in 3 messages, "; !strings.HasPrefix(got, want) ||
		!strings.HasSuffix(got, " bytes, to standard output\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("stderr:\n%s", got)
	}
	req := <-requests
	if req.GetConsumer() != "podctl-record@node1" || req.GetFormat() != podconfigv1.PodFormat_POD_FORMAT_PROTOBUF ||
		req.GetMode() != podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL {
		t.Errorf("the request is %v", req)
	}
}

func TestRecordFlags(t *testing.T) {
	n := newNode(t)
	requests := make(chan *podconfigv1.WatchPodUpdatesRequest, 1)
	n.podconfigd(&fakePodconfigd{requests: requests, watchErr: io.EOF})
	n.run(t.Context(), "record", filepath.Join(n.dir, "r"), "--format=json", "--mode=snapshot-and-updates")
	req := <-requests
	if req.GetFormat() != podconfigv1.PodFormat_POD_FORMAT_JSON ||
		req.GetMode() != podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT_AND_UPDATES {
		t.Errorf("the request is %v", req)
	}
}

// A broken stream is a failure, and the messages before it are a recording.
func TestRecordBroken(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{io.EOF, "podctl: podconfigd at unix:///run/podconfigd.sock ended the stream\n"},
		{
			status.Error(codes.Unavailable, "going down"),
			"podctl: lost podconfigd at unix:///run/podconfigd.sock: going down (was it stopped? look at its log)\n",
		},
	} {
		n := newNode(t)
		n.podconfigd(&fakePodconfigd{scripts: [][]*podconfigv1.WatchPodUpdatesResponse{saidAll(t)}, watchErr: tc.err})
		path := filepath.Join(n.dir, "r.jsonl.gz")
		code := n.run(t.Context(), "record", path)
		got := strings.ReplaceAll(n.stderr.String(), n.dir, "/run")
		if code != exitFailed || n.stdout.String() != "" || !strings.HasSuffix(got, " bytes, to /run/r.jsonl.gz\n"+tc.want) {
			t.Errorf("%v: exit code %d, stdout %q, stderr:\n%s", tc.err, code, n.stdout, got)
		}
		s, err := recording.Summarize(path)
		if err != nil || s.Messages != 3 || s.CutOff || s.Header.Endpoint != "unix://"+n.socket("podconfigd") {
			t.Errorf("%v: the recording holds %+v, error %v", tc.err, s, err)
		}
	}
}

// An existing file stays, unless --force is given and there is a new recording.
func TestRecordOverwrites(t *testing.T) {
	n := newNode(t)
	path := filepath.Join(n.dir, "r.jsonl")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(wantStderr string, args ...string) {
		t.Helper()
		n.stderr = newScreen()
		code := n.run(t.Context(), append([]string{"record", path}, args...)...)
		if text, err := os.ReadFile(path); err != nil || string(text) != "precious" {
			t.Errorf("record %v: the file holds %q, error %v", args, text, err)
		}
		if got := n.stderr.String(); code != exitFailed || !strings.Contains(got, wantStderr) {
			t.Errorf("record %v: exit code %d, stderr %q; want %q", args, code, got, wantStderr)
		}
	}
	check("can't reach podconfigd", "--force")
	n.podconfigd(&fakePodconfigd{scripts: [][]*podconfigv1.WatchPodUpdatesResponse{nil, saidAll(t)}, watchErr: io.EOF})
	check("r.jsonl exists: --force overwrites it")
	check("ended the stream", "--force") // with nothing
	n.run(t.Context(), "record", path, "--force")
	if s, err := recording.Summarize(path); err != nil || s.Messages != 3 {
		t.Errorf("record --force: %+v, error %v", s, err)
	}
}

func TestRecordNothing(t *testing.T) {
	n := newNode(t)
	n.podconfigd(&fakePodconfigd{}) // which says nothing
	path := filepath.Join(n.dir, "r.jsonl")
	code := n.run(t.Context(), "record", path, "--duration=1ms")
	if code != exitFailed || n.stderr.String() != "podctl: nothing was recorded: podconfigd sent nothing\n" {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file exists (%v); want none", err)
	}
}

func TestRecordCannotWrite(t *testing.T) {
	n := newNode(t)
	n.podconfigd(&fakePodconfigd{scripts: [][]*podconfigv1.WatchPodUpdatesResponse{saidAll(t), saidAll(t)}})
	if code := n.run(t.Context(), "record", filepath.Join(n.dir, "no/r")); code != exitFailed ||
		!strings.HasSuffix(n.stderr.String(), "no such file or directory\n") {
		t.Errorf("no directory: exit code %d, stderr %q", code, n.stderr)
	}
	stderr := newScreen()
	code := Run(t.Context(), Config{
		Args:   []string{"record", "-", "--podconfig-endpoint=unix://" + n.socket("podconfigd")},
		Stdout: brokenPipe{}, Stderr: stderr,
	})
	if code != exitFailed || stderr.String() != "podctl: write the recording: broken pipe\n" {
		t.Errorf("stdout closed: exit code %d, stderr %q", code, stderr)
	}
}
