package podctl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func TestResumption(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("one/7", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"plain", "one/7/file"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for value, want := range map[string]resumption{
		"one/7/view":      {cursor: &podconfigv1.Cursor{InstanceId: "one", Revision: 7, View: "view"}},
		"one/0/":          {cursor: &podconfigv1.Cursor{InstanceId: "one"}},
		"one/7/file":      {file: "one/7/file"}, // it exists
		"plain":           {file: "plain"},
		"./other":         {file: "./other"},
		"/var/7/w":        {file: "/var/7/w"},
		"./7/w":           {file: "./7/w"},
		"../7/w":          {file: "../7/w"},
		"one/seven/w":     {file: "one/seven/w"},
		"one/-7/w":        {file: "one/-7/w"},
		"one/7/view/more": {file: "one/7/view/more"},
	} {
		var got resumption
		if err := got.Set(value); err != nil {
			t.Errorf("%s: %v", value, err)
			continue
		}
		if diff := cmp.Diff(want.cursor, got.cursor, protocmp.Transform()); got.file != want.file || diff != "" {
			t.Errorf("%s: file %q, want %q; cursor (-want +got):\n%s", value, got.file, want.file, diff)
		}
		if got.String() != value {
			t.Errorf("%s: written as %q", value, got.String())
		}
	}
}

// With a cursor podctl has only the position.
func TestWatchResumesAfterCursor(t *testing.T) {
	n := newNode(t)
	requests := make(chan *podconfigv1.WatchPodUpdatesRequest, 1)
	n.podconfigd(&fakePodconfigd{requests: requests, scripts: [][]*message{{sourceOp(6, opAdd, "api", true)}}})
	n.start("watch", "--resume", "one/5/all")
	req := <-requests
	if diff := cmp.Diff(cursorAt(5), req.GetResumeAfter(), protocmp.Transform()); diff != "" || len(req.GetKnownPods()) > 0 {
		t.Errorf("resumes with %d known pods, after (-want +got):\n%s", len(req.GetKnownPods()), diff)
	}
	// podctl has no number of the source's pods.
	n.stdout.await(t, "source api is ready\n")
}

// A watch that is started again with the same file resumes with its position and pods.
func TestWatchStoresPosition(t *testing.T) {
	n := newNode(t)
	requests := make(chan *podconfigv1.WatchPodUpdatesRequest, 1)
	web, db, gone := podctltest.Ref("file", "default", "web"), podctltest.Ref("file", "default", "db"), podctltest.Ref("file", "default", "gone")
	n.podconfigd(&fakePodconfigd{requests: requests, scripts: [][]*message{
		{op(0, opAdd, web, gone), syncedAt(4), op(5, opRemove, gone), op(0, opAdd, db)}, // revision 6 is cut off here
		{syncedAt(5), op(6, opAdd, db), heartbeatMoving(8)},
		{syncedAt(8), op(9, opRemove, web, db)},
		{},
	}})
	file := filepath.Join(n.dir, "place")
	runs := []struct {
		await string // what is printed last
		after uint64
		known []string
	}{
		{"REMOVE", 0, nil},
		{"HEARTBEAT", 5, []string{"web"}},
		{"REMOVE", 8, []string{"db", "web"}},
		{"", 9, nil},
	}
	for i, run := range runs {
		n.stdout = newScreen()
		interrupt := n.start("watch", "--heartbeats", "--resume", file)
		req := <-requests
		var known []string
		for _, p := range req.GetKnownPods() {
			known = append(known, p.GetName())
		}
		if diff := cmp.Diff(run.known, known); req.GetResumeAfter().GetRevision() != run.after || diff != "" {
			t.Errorf("run %d resumes after revision %d, want %d, with known pods (-want +got):\n%s", i, req.GetResumeAfter().GetRevision(), run.after, diff)
		}
		n.stdout.await(t, run.await)
		if code := interrupt(); code != exitOK {
			t.Errorf("run %d: exit code %d", i, code)
		}
	}
	if n.stderr.String() != "" {
		t.Errorf("stderr:\n%s", n.stderr)
	}
	// The file is a request, so that other tools can use it too; no other file is left.
	var request podconfigv1.WatchPodUpdatesRequest
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(content, &request); err != nil || request.GetResumeAfter().GetRevision() != 9 {
		t.Errorf("the file has %s (%v)", content, err)
	}
	entries, err := os.ReadDir(n.dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 2 {
		t.Errorf("the directory has %v; want the socket and the file", entries)
	}
}

func heartbeatMoving(revision uint64) *message {
	m := heartbeatAt(revision)
	m.Cursor = cursorAt(revision)
	return m
}

// A position that can't be read or stored is an error, not a start from the current state.
func TestWatchPositionUnusable(t *testing.T) {
	for _, tc := range []struct {
		name    string
		content string
		path    string // beneath the test's directory
		want    string
	}{
		{"garbage", "garbage", "place", "isn't a file of podctl watch"},
		{"cut off", `{"resumeAfter":{"instanceId":"one"`, "place", "isn't a file of podctl watch"},
		{"a directory", "", ".", "isn't a regular file"},
		{"a socket", "", "podconfigd.sock", "isn't a regular file"},
		{"a FIFO", "", "fifo", "isn't a regular file"},
		{"a link to a FIFO", "", "link", "isn't a regular file"},
		{"a link to nothing", "", "dangling", "is a link to a file that isn't there"},
		{"in no directory", "", "none/place", "store the position in"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newNode(t)
			n.podconfigd(&fakePodconfigd{scripts: [][]*message{{syncedAt(4)}}})
			file := filepath.Join(n.dir, tc.path)
			before := special(t, n.dir)
			if tc.content != "" {
				if err := os.WriteFile(file, []byte(tc.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			code := n.run(t.Context(), "watch", "--resume", file)
			if got := n.stderr.String(); code != exitFailed || strings.Count(got, "\n") != 1 || !strings.Contains(got, tc.want) {
				t.Errorf("exit code %d, stderr %q; want %q", code, got, tc.want)
			}
			if tc.content != "" {
				if content, err := os.ReadFile(file); err != nil || string(content) != tc.content {
					t.Errorf("the file was changed to %q, %v", content, err)
				}
			}
			for name, mode := range before {
				if info, err := os.Lstat(filepath.Join(n.dir, name)); err != nil || info.Mode() != mode {
					t.Errorf("%s, which was %v, has become %v, %v", name, mode, info, err)
				}
			}
		})
	}
}

// special makes files that aren't regular, and returns their modes.
func special(t *testing.T, dir string) map[string]os.FileMode {
	t.Helper()
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	modes := map[string]os.FileMode{}
	for link, to := range map[string]string{"link": "fifo", "dangling": "nothing"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"fifo", "link", "dangling"} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		modes[name] = info.Mode()
	}
	return modes
}

// With a symbolic link, the position is stored in the link's target.
func TestWatchStoresPositionBehindALink(t *testing.T) {
	n := newNode(t)
	n.podconfigd(&fakePodconfigd{scripts: [][]*message{{syncedAt(4)}, {}}})
	if err := os.Mkdir(filepath.Join(n.dir, "there"), 0o700); err != nil {
		t.Fatal(err)
	}
	file, link := filepath.Join(n.dir, "there/place"), filepath.Join(n.dir, "link")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("there/place", link); err != nil {
		t.Fatal(err)
	}
	interrupt := n.start("watch", "--resume", link)
	n.stdout.await(t, "SYNCED")
	interrupt()
	if to, err := os.Readlink(link); to != "there/place" || err != nil {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	var kept podconfigv1.WatchPodUpdatesRequest
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(content, &kept); err != nil || kept.GetResumeAfter().GetRevision() != 4 {
		t.Errorf("the file has %q, %v; want revision 4", content, err)
	}
}

// An empty file, as mktemp makes it, starts with the current state; unknown fields of a newer podctl's file are
// ignored.
func TestWatchForeignPosition(t *testing.T) {
	for content, after := range map[string]uint64{"": 0, `{"resumeAfter":{"instanceId":"one","revision":"7","newField":1}}`: 7} {
		n := newNode(t)
		requests := make(chan *podconfigv1.WatchPodUpdatesRequest, 1)
		n.podconfigd(&fakePodconfigd{requests: requests})
		file := filepath.Join(n.dir, "place")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		n.start("watch", "--resume="+file)
		if got := (<-requests).GetResumeAfter().GetRevision(); got != after {
			t.Errorf("%q: goes on after revision %d, want %d", content, got, after)
		}
	}
}

// A position that can't be stored is reported before anything is printed.
func TestWatchResumeUnwritable(t *testing.T) {
	n := newNode(t)
	requests := make(chan *podconfigv1.WatchPodUpdatesRequest, 1)
	n.podconfigd(&fakePodconfigd{requests: requests, scripts: [][]*message{{syncedAt(4)}}})
	path := filepath.Join(n.dir, "missing", "place")
	if code := n.run(t.Context(), "watch", "--resume", path); code != exitFailed || n.stdout.String() != "" ||
		!strings.Contains(n.stderr.String(), "store the position in "+path) {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, n.stdout, n.stderr)
	}
	if len(requests) > 0 {
		t.Error("podctl has subscribed; want it to fail before")
	}
}
