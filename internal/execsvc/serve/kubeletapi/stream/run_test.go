package stream

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestRun(t *testing.T) {
	n := newNode(t, nil)
	n.pod("web", nil, "pause")
	for command, want := range map[string]string{
		"/sample write /f text":                 "",
		"/sample seq write /f text ; cat /f":    "text\n",
		"/sample exit 3":                        "!command terminated with exit code 3",
		"/sample nonsense":                      "!sample: unknown command \"nonsense\"\n\ncommand terminated with exit code 2\n",
		"/none":                                 "!run the command: ",
		"":                                      "!cmd: is empty",
		"/sample seq write /f text ; cat /none": "!sample: ",
	} {
		r := n.ask(http.MethodPost, n.url("/run/default/web/main", "cmd", command))
		got := text(t, r.Body)
		if fails := strings.HasPrefix(want, "!"); fails != (r.StatusCode >= 400) || fails && !strings.HasPrefix(got, want[1:]) || !fails && got != want {
			t.Errorf("%q: %s %q, want %q", command, r.Status, got, want)
		}
	}
	if r := n.ask(http.MethodGet, n.url("/run/default/web/main", "cmd", "/sample exit 0")); r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %s", r.Status)
	}
}

func TestCheckpoint(t *testing.T) {
	n := newNode(t, nil)
	pod := n.pod("web", nil, "pause")
	r := n.ask(http.MethodPost, n.url("/checkpoint/default/web/main", "timeout", "60"))
	var answer struct{ Items []string }
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || len(answer.Items) != 1 {
		t.Fatalf("%s, %v, %v", r.Status, answer, err)
	}
	name := filepath.Base(answer.Items[0])
	if !strings.HasPrefix(name, "checkpoint-web_default-main-") || !strings.HasSuffix(name, ".tar") {
		t.Errorf("it is in %s", name)
	}
	if archive, err := os.ReadFile(filepath.Join(n.root, "checkpoints", name)); err != nil || string(archive) != containerID(pod) {
		t.Errorf("it is %q, %v", archive, err)
	}
	if dir, err := os.Stat(filepath.Join(n.root, "checkpoints")); err != nil || dir.Mode().Perm() != 0o700 {
		t.Errorf("the directory is %v, %v", dir, err)
	}
	for path, want := range map[string]int{
		"/checkpoint/default/web/none":            404,
		"/checkpoint/default/none/main":           404,
		"/checkpoint/default/web/main?timeout=x":  400,
		"/checkpoint/default/web/main?timeout=-1": 400,
	} {
		path, query, _ := strings.Cut(path, "?")
		u := n.url(path)
		u.RawQuery = query
		if r := n.ask(http.MethodPost, u); r.StatusCode != want {
			t.Errorf("%s?%s: %s, want %d", path, query, r.Status, want)
		}
	}
}

// Invalid requests are rejected with the kubelet's messages.
func TestRemoteRefused(t *testing.T) {
	n := newNode(t, nil)
	pod := n.pod("web", nil, "pause")
	shown := func(name string, state v1.ContainerState) {
		p := pod
		p.UID, p.Name = types.UID("uid-"+name), name
		p.Status = &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "main", State: state}}}
		n.board.Set(p)
	}
	shown("waiting", v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}})
	shown("ended", v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}})
	shown("unknown", v1.ContainerState{})
	for path, want := range map[string]string{
		"/exec/default/none/main?output=1&command=x":    `404 pod "none" does not exist`,
		"/exec/default/web/uid-x/main?output=1":         `404 pod "web" does not exist with UID "uid-x"`,
		"/exec/default/web/none?output=1&command=x":     `404 container not found ("none")`,
		"/exec/default/waiting/main?output=1&command=x": `400 container not found ("main"): it is waiting to start: CrashLoopBackOff`,
		"/exec/default/ended/main?output=1&command=x":   `400 container not found ("main"): it has ended`,
		"/attach/default/unknown/main?output=1":         `400 container not found ("main"): it isn't running`,
		"/exec/default/web/main?command=x":              `400 you must specify at least 1 of stdin, stdout, stderr`,
		"/exec/default/web/main?output=1":               `400 you must specify at least one command for the container`,
		"/exec/default/web/main?output=1&command=x":     `400 Upgrade request required`,
		"/attach/default/web/main?output=1":             `400 Upgrade request required`,
	} {
		path, query, _ := strings.Cut(path, "?")
		u := n.url(path)
		u.RawQuery = query
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r := n.ask(method, u)
			if got := r.Status[:4] + text(t, r.Body); got != want {
				t.Errorf("%s %s: %q, want %q", method, path, got, want)
			}
		}
	}
}

// Of two pods of one name the desired one is found, unless a UID is given. A static pod is also found by its
// mirror pod's UID.
func TestFind(t *testing.T) {
	n := newNode(t, func(cfg *Config) {
		cfg.MirrorUID = func(namespace, name string) types.UID { return types.UID("mirror-of-" + namespace + "-" + name) }
	})
	for _, p := range []struct {
		uid     types.UID
		desired bool
	}{{"new", true}, {"old", false}} {
		pod := n.pod("web-"+string(p.uid), nil, "pause")
		n.board.Remove(pod.UID)
		pod.UID, pod.Name, pod.Desired = p.uid, "web", p.desired
		n.board.Set(pod)
	}
	for uid, want := range map[string]types.UID{"": "new", "new": "new", "old": "old", "mirror-of-default-web": "new"} {
		r, err := http.NewRequest(http.MethodGet, "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetPathValue("namespace", "default")
		r.SetPathValue("pod", "web")
		r.SetPathValue("uid", uid)
		if p, err := n.find(r); err != nil || p.UID != want {
			t.Errorf("%q: %s, %v; want %s", uid, p.UID, err, want)
		}
	}
}

// The number of open streams is limited for each pod and for each namespace.
func TestLimits(t *testing.T) {
	n := newNode(t, func(cfg *Config) { cfg.MaxStreams, cfg.MaxStreamsPerPod = 4, 1 })
	a := n.pod("a", nil, "pause")
	n.pod("b", nil, "pause")
	n.pod("c", nil, "pause")
	logs := func(pod string) string {
		r := n.ask(http.MethodGet, n.url("/containerLogs/default/"+pod+"/main"))
		return r.Status[:4] + text(t, r.Body)
	}
	open := func(pod string) *websocket.Conn {
		conn := n.dialWebsocket("v5.channel.k8s.io", "/exec/default/"+pod+"/main", echoing...)
		if err := conn.WriteMessage(websocket.BinaryMessage, []byte("\x00x")); err != nil {
			t.Fatal(err)
		}
		for message := []byte(nil); string(message) != "\x01x"; { // Until the command runs.
			var err error
			if _, message, err = conn.ReadMessage(); err != nil {
				t.Fatal(err)
			}
		}
		return conn
	}
	conn := open("a")
	if got := logs("a"); got != "429 too many streams: pod "+string(a.UID)+" has 1 open, and no more at a time" {
		t.Errorf("one pod: %q", got)
	}
	if got := logs("b"); got != "200 " {
		t.Errorf("another pod: %q", got)
	}
	open("b")
	if got := logs("c"); got != "429 too many streams: namespace default has 2 open, and no more at a time" {
		t.Errorf("the namespace: %q", got)
	}
	_ = conn.Close()
	for deadline := time.Now().Add(10 * time.Second); logs("c") != "200 "; {
		if time.Now().After(deadline) {
			t.Fatal("a stream that ended leaves no room for another")
		}
	}
}
