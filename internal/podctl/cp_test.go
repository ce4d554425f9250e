package podctl

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

type copyStream = grpc.BidiStreamingServer[podexecv1.CopyRequest, podexecv1.CopyResponse]

// runCopy runs podctl cp against a fake with the pod web-node1.
func (n *node) runCopy(ctx context.Context, answer func(*podexecv1.CopyStart, copyStream) error, args ...string) (code int) {
	n.t.Helper()
	n.busy(&busyPodexecd{pods: []*podexecv1.ObservedPod{runningPod(n.t, "default", "web-node1"), runningPod(n.t, "other", "web-node1")}, copy: answer})
	return Run(ctx, Config{
		Args:   append([]string{"--podexec-endpoint=unix://" + n.socket("podexecd"), "cp"}, args...),
		Stdout: n.stdout, Stderr: n.stderr, Hostname: "node1",
	})
}

func copyName(name string) *podexecv1.CopyResponse {
	return &podexecv1.CopyResponse{Message: &podexecv1.CopyResponse_Opened{Opened: &podexecv1.CopyOpened{Name: name}}}
}

// sends answers with an archive of these headers. Each regular file has its name as its content.
func sends(t *testing.T, name string, headers ...tar.Header) func(*podexecv1.CopyStart, copyStream) error {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		h.Mode, h.Format = 0o644, tar.FormatGNU
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(h.Name))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			_, _ = io.WriteString(w, h.Name)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	data := append(b.Bytes(), make([]byte, 9<<10)...) // As tar's blocks.
	return func(_ *podexecv1.CopyStart, stream copyStream) error {
		if err := stream.Send(copyName(name)); err != nil {
			return err
		}
		for len(data) > 0 {
			n := min(len(data), 1000)
			if err := stream.Send(&podexecv1.CopyResponse{Message: &podexecv1.CopyResponse_Data{Data: data[:n]}}); err != nil {
				return err
			}
			data = data[n:]
		}
		return nil
	}
}

func regular(name string) tar.Header   { return tar.Header{Name: name, Typeflag: tar.TypeReg} }
func directory(name string) tar.Header { return tar.Header{Name: name + "/", Typeflag: tar.TypeDir} }

// A directory's files come to the destination, however its namespace is named.
func TestCopyFrom(t *testing.T) {
	for _, args := range [][]string{{"-c", "app", "-n", "other", "pod:/data"}, {"-c", "app", "other/pod:/data"}} {
		n, dest := newNode(t), filepath.Join(t.TempDir(), "new")
		var asked *podexecv1.CopyStart
		answer := sends(t, "data", directory("./data"), regular("./data/a"))
		args[len(args)-1] = strings.Replace(args[len(args)-1], "pod:", "web:", 1)
		code := n.runCopy(t.Context(), func(start *podexecv1.CopyStart, stream copyStream) error {
			asked = start
			return answer(start, stream)
		}, append(args, dest)...)
		if content, err := os.ReadFile(filepath.Join(dest, "a")); code != exitOK || err != nil || string(content) != "./data/a" || n.stderr.String() != "" {
			t.Errorf("%q: exit code %d, %q, %v, stderr %q", args, code, content, err, n.stderr)
		}
		want := &podexecv1.CopyStart{
			Ref: runningPod(t, "other", "web-node1").GetRef(), Container: "app", Path: "/data", Direction: podexecv1.CopyStart_DIRECTION_FROM_CONTAINER,
		}
		if diff := cmp.Diff(want, asked, protocmp.Transform()); diff != "" {
			t.Errorf("%q asks for (-want +got):\n%s", args, diff)
		}
	}
}

// A file goes into a directory under its own name.
func TestCopyFileFrom(t *testing.T) {
	n, dest := newNode(t), t.TempDir()
	if code := n.runCopy(t.Context(), sends(t, "app.conf", regular("app.conf")), "web:/etc/app.conf", dest); code != exitOK {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}
	if _, err := os.Stat(filepath.Join(dest, "app.conf")); err != nil {
		t.Error(err)
	}
}

// What is left out is named, harmlessly and not without end, and the exit code says that it isn't all.
func TestCopyLeavesOut(t *testing.T) {
	n, dest := newNode(t), t.TempDir()
	headers := []tar.Header{directory("d")}
	for range 2 * maxNotes {
		headers = append(headers, tar.Header{Name: "d/link", Linkname: "/etc/shadow", Typeflag: tar.TypeSymlink})
	}
	code := n.runCopy(t.Context(), sends(t, "d", append(headers, regular("d/a"))...), "web:/d", dest)
	if code != exitFailed || strings.Count(n.stderr.String(), "podctl: d/link is a symbolic link: it is left out\n") != maxNotes ||
		!strings.HasSuffix(n.stderr.String(), "podctl: more files are left out\npodctl: 40 files left out; the rest was copied\n") {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}
	if _, err := os.Stat(filepath.Join(dest, "a")); err != nil {
		t.Error(err)
	}
}

// A hostile archive ends the copy and podexecd's call, and its text does nothing to the terminal.
func TestCopyHostile(t *testing.T) {
	for name, tc := range map[string]struct {
		headers []tar.Header
		args    []string
		want    string
	}{
		"leads out":      {[]tar.Header{directory("d"), regular("d/../x")}, nil, "leads out of its directory"},
		"acts":           {[]tar.Header{directory("d"), regular("d/" + strings.ReplaceAll(podctltest.Hostile, "/", "_"))}, nil, "control characters"},
		"links":          {[]tar.Header{directory("d"), {Name: "d/x", Linkname: podctltest.Hostile, Typeflag: tar.TypeSymlink}}, nil, "is a symbolic link"},
		"is long":        {[]tar.Header{directory("d"), regular("d/a"), regular("d/b")}, []string{"--max-bytes=5"}, "more than 5 bytes (--max-bytes)"},
		"has many files": {[]tar.Header{directory("d"), regular("d/a"), regular("d/b")}, []string{"--max-entries=2"}, "more than 2 entries (--max-entries)"},
	} {
		t.Run(name, func(t *testing.T) {
			n, dest := newNode(t), t.TempDir()
			ended := make(chan struct{})
			code := n.runCopy(t.Context(), func(start *podexecv1.CopyStart, stream copyStream) error {
				defer close(ended)
				if err := sends(t, "d", tc.headers...)(start, stream); err != nil || name == "links" {
					return err
				}
				<-stream.Context().Done()
				return nil
			}, append(tc.args, "web:/d", dest)...)
			<-ended
			if code != exitFailed || !strings.Contains(n.stderr.String(), tc.want) {
				t.Errorf("exit code %d, stderr %q; want %q", code, n.stderr, tc.want)
			}
			podctltest.CheckHarmless(t, name, n.stderr.String())
		})
	}
}

// An archive that goes on after its end ends the copy, too.
func TestCopyWithoutEnd(t *testing.T) {
	n, dest := newNode(t), t.TempDir()
	code := n.runCopy(t.Context(), func(start *podexecv1.CopyStart, stream copyStream) error {
		if err := sends(t, "d", directory("d"))(start, stream); err != nil {
			return err
		}
		for {
			if err := stream.Send(&podexecv1.CopyResponse{Message: &podexecv1.CopyResponse_Data{Data: make([]byte, 32<<10)}}); err != nil {
				return err
			}
		}
	}, "web:/d", dest)
	if code != exitFailed || !strings.Contains(n.stderr.String(), "more after its end") {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}
}

// The reason of podexecd is shown rather than that of a broken archive.
func TestCopyFails(t *testing.T) {
	source := t.TempDir()
	if err := os.WriteFile(filepath.Join(source, "large"), make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	const reason = "container app of pod web has no tar"
	for _, args := range [][]string{{"web:/d", filepath.Join(t.TempDir(), "new")}, {source, "web:/d"}} {
		for _, late := range []bool{false, true} {
			n := newNode(t)
			code := n.runCopy(t.Context(), func(_ *podexecv1.CopyStart, stream copyStream) error {
				if late {
					if err := stream.Send(copyName("d")); err != nil {
						return err
					}
				}
				return status.Error(codes.FailedPrecondition, reason)
			}, args...)
			if code != exitFailed || !strings.Contains(n.stderr.String(), reason) || strings.Count(n.stderr.String(), "\n") != 1 {
				t.Errorf("%q: exit code %d, stderr %q", args, code, n.stderr)
			}
		}
	}
	n := newNode(t)
	if code := n.runCopy(t.Context(), func(_ *podexecv1.CopyStart, stream copyStream) error { return stream.Send(copyName("d")) }, source, "web:/d"); code != exitFailed ||
		!strings.Contains(n.stderr.String(), errEarly.Error()) {
		t.Errorf("a tar that reads nothing: exit code %d, stderr %q", code, n.stderr)
	}
}

// received reads an archive to its end, and lists the entries.
func entries(stream copyStream) (names []string, err error) {
	var data bytes.Buffer
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if m.GetDataClosed() {
			break
		}
		data.Write(m.GetData())
	}
	for r := tar.NewReader(&data); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
		names = append(names, h.Name)
	}
}

// A source has its own name in a directory, and otherwise the one of the destination.
func TestCopyTo(t *testing.T) {
	source := filepath.Join(t.TempDir(), "source")
	if err := errors.Join(os.Mkdir(source, 0o755), os.WriteFile(filepath.Join(source, "a"), make([]byte, 100_000), 0o600), os.Symlink("..", filepath.Join(source, "up"))); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		source, opened string
		want           []string
		code           int
	}{
		"a directory into one":  {source, "", []string{"source/", "source/a"}, exitFailed},
		"a directory to a name": {source, "new", []string{"new/", "new/a"}, exitFailed},
		"a file into one":       {source + "/a", "", []string{"a"}, exitOK},
		"a file to a name":      {source + "/a", "b", []string{"b"}, exitOK},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			code := n.runCopy(t.Context(), func(start *podexecv1.CopyStart, stream copyStream) error {
				if start.GetDirection() != podexecv1.CopyStart_DIRECTION_TO_CONTAINER || start.GetPath() != "/d" {
					t.Errorf("asked for %v", start)
				}
				if err := stream.Send(copyName(tc.opened)); err != nil {
					return err
				}
				names, err := entries(stream)
				if diff := cmp.Diff(tc.want, names); diff != "" {
					t.Errorf("entries (-want +got):\n%s", diff)
				}
				return err
			}, tc.source, "web:/d")
			if code != tc.code || (code == exitFailed) != strings.Contains(n.stderr.String(), "up is a symbolic link") {
				t.Errorf("exit code %d, stderr %q", code, n.stderr)
			}
		})
	}
}

// A source that doesn't exist is podctl's own error, and ends the call.
func TestCopyNothing(t *testing.T) {
	n := newNode(t)
	code := n.runCopy(t.Context(), func(_ *podexecv1.CopyStart, stream copyStream) error {
		_ = stream.Send(copyName(""))
		<-stream.Context().Done()
		return nil
	}, "/no/such/file", "web:/d")
	if code != exitFailed || !strings.Contains(n.stderr.String(), "/no/such/file: no such file") {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}
}
