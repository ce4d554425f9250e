package lifecycle

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	restclient "k8s.io/client-go/rest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// rotationsEnv is the number of rotations of TestLogRotation, if it isn't the default.
const rotationsEnv = "PODSTREAM_ROTATIONS"

// The settings of TestLogRotation. The interval is the default, 10 s: a log that grows is looked at earlier. A follower
// may be as far behind as the oldest file that is kept: logFiles of them hold what the container writes in more than
// three seconds, so that a busy machine with the race detector doesn't hold up a follower for so long.
const (
	logSize, logFiles = 64 << 10, 40
	linesInSecond     = 6000
	defaultRotations  = 50
	// lineLength is the length of the lines of the command count, without their ends.
	lineLength = 99
)

func rotationsOr(t *testing.T, n int) int {
	t.Helper()
	if text := os.Getenv(rotationsEnv); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		check(t, err)
	}
	return n
}

// TestLogRotation: while a container's log is rotated, no line of it is lost or doubled, for a follower of the kubelet
// API, for podctl logs -f, and in the files, and the files keep their bound. PODSTREAM_ROTATIONS=1000 sets the number of
// rotations.
func TestLogRotation(t *testing.T) {
	onEachNodeAPI(t, latestContainerd, []string{"--container-log-max-size", strconv.Itoa(logSize), "--container-log-max-files", strconv.Itoa(logFiles)},
		func(t *testing.T, n *nodeAPI) { testLogRotation(t, n, rotationsOr(t, defaultRotations)) })
}

// TestLogOfAFastWriter: a container that writes as fast as it can has logs of about the default size, 10 MiB, and the
// files that are kept have every line, also if they aren't compressed as fast as they are written.
func TestLogOfAFastWriter(t *testing.T) {
	onEachNodeAPI(t, latestContainerd, nil, func(t *testing.T, n *nodeAPI) {
		const size, files = 10 << 20, 5
		// criLength is the length of a line in the runtime's log: a time, the stream and a tag come before the text.
		const criLength = len("2006-01-02T15:04:05.000000000Z stdout F ") + lineLength + 1
		// late is how long podexecd may be late for a look, as other tests use the machine too. Without looks in between,
		// a log would grow for 10 s.
		const late = 5
		rotations := max(12, rotationsOr(t, 0)/10)
		p := n.run(t, `
restartPolicy: Never
containers: [{name: main, args: [count, "0"]}]`)
		w, took := n.rotate(t, p, rotations)
		var kept counted
		kept.files(t, w.dir)
		rate := int64(float64(kept.last*criLength) / took.Seconds())
		t.Logf("%d rotations in %v, %d MB/s; the longest log was %d bytes, %d over its limit; all files together were %d bytes at most",
			w.rotations, took.Round(time.Millisecond), rate/1e6, w.largest, w.largest-size, w.most)
		if kept.wrong != "" || kept.end != kept.last {
			t.Errorf("the files have the lines %d to %d of %d: %s", kept.first, kept.last, kept.end, kept.wrong)
		}
		if limit, all := size+late*rate, files*size+2*late*rate; w.largest > limit || w.most > all {
			t.Errorf("a log was %d bytes, and all together %d; want %d and %d at most", w.largest, w.most, limit, all)
		}
	})
}

// rotate waits until the log of the pod, which runs, has been rotated that often, and ends its container.
func (n *nodeAPI) rotate(t *testing.T, p *pod, rotations int) (w *logWatch, took time.Duration) {
	t.Helper()
	running := p.awaitReady()
	w = watchLog(t, n, p)
	began := time.Now()
	for w.rotations < rotations {
		w.look(t)
		if time.Since(began) > time.Duration(rotations)*time.Second+patience {
			t.Fatalf("%d rotations in %v", w.rotations, time.Since(began))
		}
	}
	took = time.Since(began)
	_, id, _ := strings.Cut(running.of("main").ContainerID, "://")
	_, err := n.CRI.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: int64(patience / time.Second)})
	check(t, err)
	p.awaitPhase(v1.PodSucceeded)
	return w, took
}

func testLogRotation(t *testing.T, n *nodeAPI, rotations int) {
	p := n.run(t, fmt.Sprintf(`
restartPolicy: Never
containers: [{name: main, args: [count, "%d"]}]`, linesInSecond))
	p.awaitReady()
	var followers, begun sync.WaitGroup
	followed := map[string]*counted{}
	for name, follow := range map[string]func(*testing.T, *pod, *counted){"containerLogs": n.followHTTP, "podctl": n.followPodctl} {
		begun.Add(1)
		c := &counted{begun: sync.OnceFunc(begun.Done)}
		followed[name] = c
		followers.Go(func() {
			defer c.begun()
			follow(t, p, c)
		})
	}
	begun.Wait()
	w, took := n.rotate(t, p, rotations)
	followers.Wait()
	var kept counted
	kept.files(t, w.dir)
	t.Logf("%d rotations in %v; %d lines; the longest log was %d bytes, %d over its limit; all files together were %d bytes at most",
		w.rotations, took.Round(time.Millisecond), kept.last, w.largest, w.largest-logSize, w.most)
	for name, c := range followed {
		// A follower begins with the file that is the current one when it starts.
		if c.first == 0 || c.first > kept.last/2 || c.last != kept.last || c.end != kept.last || c.wrong != "" {
			t.Errorf("%s: lines %d to %d, and %d is said to be the last; the files have %d; %s", name, c.first, c.last, c.end, kept.last, c.wrong)
		}
	}
	if kept.wrong != "" || kept.end != kept.last {
		t.Errorf("the files have the lines %d to %d of %d: %s", kept.first, kept.last, kept.end, kept.wrong)
	}
}

// files adds the lines of the log's files, once all are compressed but the newest rotated one.
func (c *counted) files(t *testing.T, dir string) {
	t.Helper()
	var names []string
	eventually(t, "the rotated logs are compressed", func() (err error) {
		names, err = filepath.Glob(filepath.Join(dir, "0.log.*"))
		check(t, err)
		slices.SortFunc(names, func(a, b string) int {
			return strings.Compare(strings.TrimSuffix(a, ".gz"), strings.TrimSuffix(b, ".gz"))
		})
		if slices.ContainsFunc(names[:len(names)-1], func(name string) bool { return !strings.HasSuffix(name, ".gz") }) {
			return fmt.Errorf("they are %q", names)
		}
		return nil
	})
	line := ""
	for _, name := range append(names, filepath.Join(dir, "0.log")) {
		for text := range strings.Lines(logText(t, name)) {
			parts := strings.SplitN(strings.TrimSuffix(text, "\n"), " ", 4)
			if len(parts) != 4 {
				t.Fatalf("%s: %q", name, text)
			}
			line += parts[3]
			if parts[2] != "F" {
				continue
			}
			// The runtime ends a file within a line, and the file with the beginning of the first one may be removed.
			if c.first != 0 || len(line) == lineLength {
				c.add(line)
			}
			line = ""
		}
	}
}

func logText(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	check(t, err)
	defer func() { _ = f.Close() }()
	from := io.Reader(f)
	if strings.HasSuffix(name, ".gz") {
		from, err = gzip.NewReader(f)
		check(t, err)
	}
	text, err := io.ReadAll(from)
	check(t, err)
	return string(text)
}

// followHTTP follows the log as kubectl logs -f does.
func (n *nodeAPI) followHTTP(t *testing.T, p *pod, c *counted) {
	client, err := restclient.HTTPClientFor(n.client)
	if err != nil {
		t.Error(err)
		return
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url(n.of("containerLogs", p, "main"), "follow", "true").String(), http.NoBody)
	if err != nil {
		t.Error(err)
		return
	}
	response, err := client.Do(request)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	if err := c.read(response.Body); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("follow: %s, %v", response.Status, err)
	}
}

// followPodctl follows the log with podctl.
func (n *nodeAPI) followPodctl(t *testing.T, p *pod, c *counted) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(nodes.BinDir, "podctl"), "--podconfig-endpoint", "unix://"+n.ConfigSocket(),
		"--podexec-endpoint", "unix://"+n.ExecSocket(), "logs", "-f", p.name)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return
	}
	if err := c.read(out); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("podctl logs -f: %v", err)
	}
}

// logWatch observes the files of a container's log.
type logWatch struct {
	dir string
	// rotations counts the changes of the current log's file, which is inode.
	rotations int
	inode     uint64
	// largest is the size of the largest file that wasn't compressed, and most that of all files together.
	largest, most int64
}

func watchLog(t *testing.T, n *nodeAPI, p *pod) *logWatch {
	t.Helper()
	dirs, err := filepath.Glob(n.Path("log", "pods", "default_"+p.name+"-*", "main"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("the logs of %s are in %q, %v", p.name, dirs, err)
	}
	return &logWatch{dir: dirs[0], rotations: -1}
}

// look looks at the files once. Between two looks there is a pause that is shorter than any between two rotations.
func (w *logWatch) look(t *testing.T) {
	t.Helper()
	pauseFor(t, 5*time.Millisecond)
	var st unix.Stat_t
	if unix.Stat(filepath.Join(w.dir, "0.log"), &st) == nil && st.Ino != w.inode {
		w.rotations++
		w.inode = st.Ino
	}
	entries, err := os.ReadDir(w.dir)
	check(t, err)
	sum := int64(0)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // It was removed or renamed.
		}
		sum += info.Size()
		w.largest = max(w.largest, info.Size())
	}
	w.most = max(w.most, sum)
}
