package stream

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

const someday = "2026-01-01T00:00:00Z"

// text reads an answer's body.
func text(t *testing.T, from io.Reader) string {
	t.Helper()
	body, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// logPath returns the path of the first log of a pod's container main.
func (n *node) logPath(p podview.Pod) string {
	return filepath.Join(podmeta.LogDir(filepath.Join(n.root, "pods"), p.Namespace, p.Name, p.UID), podmeta.LogPath("main", 0))
}

// writeLog replaces the container's log.
func (n *node) writeLog(p podview.Pod, lines ...string) {
	n.t.Helper()
	if err := os.WriteFile(n.logPath(p), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

func TestLogs(t *testing.T) {
	n := newNode(t, nil)
	pod := n.pod("web", nil, "pause")
	now := time.Now().UTC()
	const nanoseconds = "2006-01-02T15:04:05.000000000Z07:00"
	old, recent := now.Add(-time.Hour).Format(nanoseconds), now.Add(-time.Second).Format(nanoseconds)
	n.writeLog(pod, old+" stdout F one", old+" stderr F two", recent+" stdout F three")
	for query, want := range map[string]string{
		"":                                "one\ntwo\nthree\n",
		"tailLines=1":                     "three\n",
		"tail=2":                          "two\nthree\n",
		"tail=all&tailLines=1":            "one\ntwo\nthree\n",
		"limitBytes=5":                    "one\nt",
		"sinceSeconds=60":                 "three\n",
		"sinceTime=2020-01-01T00:00:00Z":  "one\ntwo\nthree\n",
		"stream=Stdout":                   "one\nthree\n",
		"stream=Stderr":                   "two\n",
		"timestamps=true&sinceSeconds=60": recent + " three\n",
		"stream=All&follow=false":         "one\ntwo\nthree\n",
	} {
		u := n.url("/containerLogs/default/web/main")
		u.RawQuery = query
		r := n.ask(http.MethodGet, u)
		if got := text(t, r.Body); r.StatusCode != http.StatusOK || got != want {
			t.Errorf("%q: %s %q, want %q", query, r.Status, got, want)
		}
	}
}

func TestLogsRefused(t *testing.T) {
	n := newNode(t, nil)
	pod := n.pod("web", nil, "pause")
	waiting := pod
	waiting.UID, waiting.Name = "uid-waiting", "waiting"
	waiting.Status = &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{
		Name: "main", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}},
	}}}
	n.board.Set(waiting)
	for request, want := range map[string]string{
		"GET /containerLogs/default/none/main":                                    `404 pod "none" does not exist`,
		"GET /containerLogs/other/web/main":                                       `404 pod "web" does not exist`,
		"GET /containerLogs/default/web/none":                                     `404 container "none" not found in pod "web"`,
		"GET /containerLogs/default/waiting/main":                                 `400 container "main" in pod "waiting" is waiting to start: ContainerCreating`,
		"GET /containerLogs/default/web/main?previous=true":                       `400 previous terminated container "main" in pod "web" not found`,
		"GET /containerLogs/default/web/main?tailLines=x":                         `400 {"message": "Unable to decode query."}`,
		"GET /containerLogs/default/web/main?sinceTime=yesterday":                 `400 {"message": "Unable to decode query."}`,
		"GET /containerLogs/default/web/main?tailLines=-1":                        `422 {"message": "Invalid request."}`,
		"GET /containerLogs/default/web/main?limitBytes=0":                        `422 {"message": "Invalid request."}`,
		"GET /containerLogs/default/web/main?sinceSeconds=0":                      `422 {"message": "Invalid request."}`,
		"GET /containerLogs/default/web/main?stream=Both":                         `422 {"message": "Invalid request."}`,
		"GET /containerLogs/default/web/main?stream=Stdout&tailLines=1":           `422 {"message": "Invalid request."}`,
		"GET /containerLogs/default/web/main?sinceSeconds=1&sinceTime=" + someday: `422 {"message": "Invalid request."}`,
		"POST /containerLogs/default/web/main":                                    "405 Method Not Allowed\n",
		"GET /containerLogs/default/web":                                          "404 404 page not found\n",
	} {
		method, path, _ := strings.Cut(request, " ")
		path, query, _ := strings.Cut(path, "?")
		u := n.url(path)
		u.RawQuery = query
		r := n.ask(method, u)
		if got := fmt.Sprint(r.StatusCode, " ", text(t, r.Body)); got != want {
			t.Errorf("%s: %q, want %q", request, got, want)
		}
	}
	if r := n.ask(http.MethodHead, n.url("/containerLogs/default/web/main", "follow", "true")); r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("HEAD: %s", r.Status)
	}
	if err := os.Remove(n.logPath(pod)); err != nil {
		t.Fatal(err)
	}
	if r := n.ask(http.MethodGet, n.url("/containerLogs/default/web/main", "follow", "true")); r.StatusCode != http.StatusNotFound {
		t.Errorf("a missing log: %s", r.Status)
	}
}

// A log is followed into the new file when it is rotated, until the container ends.
func TestFollowOverRotation(t *testing.T) {
	n := newNode(t, nil)
	pod := n.pod("web", nil, "seq", "print", "started")
	r := n.ask(http.MethodGet, n.url("/containerLogs/default/web/main", "follow", "true"))
	lines := bufio.NewReader(r.Body)
	want := func(text string) {
		t.Helper()
		if line, err := lines.ReadString('\n'); err != nil || line != text+"\n" {
			t.Fatalf("%q, %v; want %q", line, err, text)
		}
	}
	want("started")
	appendLog := func(text string) {
		t.Helper()
		file, err := os.OpenFile(n.logPath(pod), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		if _, err := fmt.Fprintf(file, "%s stdout F %s\n", someday, text); err != nil {
			t.Fatal(err)
		}
	}
	appendLog("before")
	want("before")
	if err := os.Rename(n.logPath(pod), n.logPath(pod)+".1"); err != nil {
		t.Fatal(err)
	}
	if err := n.CRI.ReopenContainerLog(t.Context(), containerID(pod)); err != nil {
		t.Fatal(err)
	}
	appendLog("after")
	want("after")
	if err := n.CRI.StopContainer(t.Context(), containerID(pod), 0); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
}

// A caller that disconnects, or doesn't read, leaves nothing behind. The number of followed logs is limited.
func TestFollowIsLeft(t *testing.T) {
	n := newNode(t, nil)
	n.cfg.Runtime = runtime.New(runtime.Config{Runtime: n.CRI, LogsDir: filepath.Join(n.root, "pods"), MaxFollows: 1})
	pod := n.pod("web", nil, "pause")
	line := someday + " stdout F " + strings.Repeat("x", 1000) + "\n"
	if err := os.WriteFile(n.logPath(pod), []byte(strings.Repeat(line, 20_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url("/containerLogs/default/web/main", "follow", "true").String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := n.web.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := response.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if r := n.ask(http.MethodGet, n.url("/containerLogs/default/web/main", "follow", "true")); r.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a second one: %s", r.Status)
	}
	cancel()
	n.slots.close() // It waits until all streams have ended.
}

// Close doesn't wait for a caller that doesn't read.
func TestCloseEndsFollow(t *testing.T) {
	n := newNode(t, nil)
	pod := n.pod("web", nil, "pause")
	line := someday + " stdout F " + strings.Repeat("x", 1000) + "\n"
	if err := os.WriteFile(n.logPath(pod), []byte(strings.Repeat(line, 20_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	r := n.ask(http.MethodGet, n.url("/containerLogs/default/web/main", "follow", "true"))
	if _, err := r.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	n.Handler.Close()
}

func TestWhichLog(t *testing.T) {
	run := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	ended := func(id string) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: id}}
	}
	waits := func(reason string) v1.ContainerState {
		return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}
	}
	for name, tt := range map[string]struct {
		state, last v1.ContainerState
		restarts    int32
		previous    bool
		want        string
	}{
		"running":                         {state: run, restarts: 3, want: "[3] c"},
		"running, previous":               {state: run, last: ended("sim://b"), restarts: 3, previous: true, want: "[2] "},
		"the first, previous":             {state: run, previous: true, want: `previous terminated container "main" in pod "web" not found`},
		"ended":                           {state: ended("sim://c"), last: ended("sim://b"), restarts: 3, want: "[3] "},
		"ended, previous":                 {state: ended("sim://c"), last: ended("sim://b"), restarts: 3, previous: true, want: "[2] "},
		"ended without having been":       {state: ended(""), want: `container "main" in pod "web" is terminated`},
		"the next one can't be made":      {state: ended(""), last: ended("sim://b"), restarts: 1, want: "[1 0] "},
		"waits to be restarted":           {state: waits("CrashLoopBackOff"), last: ended("sim://b"), restarts: 3, want: "[3 2] "},
		"waits to be restarted, previous": {state: waits("CrashLoopBackOff"), last: ended("sim://b"), restarts: 3, previous: true, want: "[3 2] "},
		"waits for the first restart":     {state: waits("CrashLoopBackOff"), last: ended("sim://b"), want: "[0] "},
		"no image":                        {state: waits("ErrImagePull"), want: `container "main" in pod "web" is waiting to start: image can't be pulled`},
		"still no image":                  {state: waits("ImagePullBackOff"), want: `container "main" in pod "web" is waiting to start: trying and failing to pull image`},
		"waits":                           {state: waits("PodInitializing"), want: `container "main" in pod "web" is waiting to start: PodInitializing`},
		"nothing is known":                {want: `container "main" in pod "web" is waiting to start - no logs yet`},
	} {
		s := v1.ContainerStatus{Name: "main", ContainerID: "sim://c", State: tt.state, LastTerminationState: tt.last, RestartCount: tt.restarts}
		attempts, id, err := whichLog("web", container{name: "main", status: &s}, tt.previous)
		got := fmt.Sprint(attempts, " ", id)
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	if _, _, err := whichLog("web", container{name: "main"}, false); err == nil || err.Error() != `container "main" in pod "web" is not available` {
		t.Errorf("without a status: %v", err)
	}
}

func TestContainersOfAllKinds(t *testing.T) {
	n := newNode(t, nil)
	pod := n.pod("web", nil, "pause")
	spec := pod.Object.DeepCopy()
	spec.Spec.InitContainers = []v1.Container{{Name: "init"}}
	spec.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug", TTY: true}}}
	pod.Object = spec
	status := pod.Status.DeepCopy()
	status.InitContainerStatuses = []v1.ContainerStatus{{Name: "init", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}}}
	status.EphemeralContainerStatuses = []v1.ContainerStatus{{Name: "debug", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
	pod.Status = status
	for _, name := range []string{"main", "init", "debug"} {
		c, ok := containerOf(pod, name)
		if !ok || c.status == nil || c.status.Name != name || c.tty != (name == "debug") {
			t.Errorf("%s: %+v, %v", name, c, ok)
		}
	}
	if _, ok := containerOf(pod, "none"); ok {
		t.Error("a container that doesn't exist is found")
	}
	bare := podview.Pod{Status: status}
	if _, ok := containerOf(bare, "init"); !ok {
		t.Error("a container that is only in the status isn't found")
	}
}
