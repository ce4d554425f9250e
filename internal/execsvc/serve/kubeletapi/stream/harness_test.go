package stream

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	restclient "k8s.io/client-go/rest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/simruntime"
	"github.com/podstream/podstream/internal/simruntime/simnode"
	"github.com/podstream/podstream/internal/simruntime/simtest"
)

func TestMain(m *testing.M) {
	simtest.Main(m,
		// SPDY keeps a goroutine for a second after a connection broke.
		goleak.IgnoreAnyFunction("github.com/moby/spdystream.(*Connection).shutdown"),
		// A client notices the closed connection at its next ping.
		goleak.IgnoreAnyFunction("k8s.io/client-go/tools/remotecommand.(*heartbeat).start"))
}

// node is a Handler behind a web server with TLS, with a simulated runtime.
type node struct {
	*Handler
	*simnode.Node
	t     *testing.T
	board *podview.Board
	web   *httptest.Server
	root  string
}

// newNode starts a node. change may change the Handler's configuration.
func newNode(t *testing.T, change func(*Config)) *node {
	t.Helper()
	n := &node{t: t, board: podview.New(), root: t.TempDir()}
	n.Node = simnode.New(t, simruntime.Config{Streams: true, Dial: dialEcho})
	cfg := Config{
		Pods: n.board, CheckpointsDir: filepath.Join(n.root, "checkpoints"),
		Runtime: runtime.New(runtime.Config{Runtime: n.CRI, Agent: "me", LogsDir: filepath.Join(n.root, "pods")}),
	}
	if change != nil {
		change(&cfg)
	}
	n.Handler = New(cfg)
	t.Cleanup(n.Handler.Close)
	n.web = httptest.NewTLSServer(n.Handler)
	t.Cleanup(n.web.Close)
	return n
}

// pod runs a pod with one container, main, and adds it to the board.
func (n *node) pod(name string, change func(*runtimeapi.ContainerConfig), args ...string) podview.Pod {
	n.t.Helper()
	uid := types.UID("uid-" + name)
	dir := podmeta.LogDir(filepath.Join(n.root, "pods"), "default", name, uid)
	labels := map[string]string{podmeta.PodUIDLabel: string(uid), podmeta.PodNameLabel: name, podmeta.PodNamespaceLabel: "default"}
	sandbox := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: string(uid)}, LogDirectory: dir,
		Labels: labels, Annotations: map[string]string{podmeta.AgentAnnotation: "me"},
	}
	sandboxID, err := n.CRI.RunPodSandbox(n.t.Context(), sandbox, "")
	if err != nil {
		n.t.Fatal(err)
	}
	config := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "main"}, Image: &runtimeapi.ImageSpec{Image: "localhost/podstream-sample:dev"},
		Args: args, LogPath: podmeta.LogPath("main", 0), Labels: labels, Annotations: map[string]string{podmeta.AgentAnnotation: "me"},
	}
	if change != nil {
		change(config)
	}
	makeDir(n.t, filepath.Join(dir, "main"))
	id, err := n.CRI.CreateContainer(n.t.Context(), sandboxID, config, sandbox)
	if err != nil {
		n.t.Fatal(err)
	}
	if err := n.CRI.StartContainer(n.t.Context(), id); err != nil {
		n.t.Fatal(err)
	}
	p := podview.Pod{
		UID: uid, Namespace: "default", Name: name, Desired: true,
		Object: &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: uid, Name: name, Namespace: "default"},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", TTY: config.GetTty(), Stdin: config.GetStdin()}}},
		},
		Status: &v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{
			Name: "main", ContainerID: "sim://" + id, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		}}},
	}
	n.board.Set(p)
	return p
}

// containerID returns the ID of a pod's only container.
func containerID(p podview.Pod) string { return runtimeID(p.Status.ContainerStatuses[0].ContainerID) }

// url returns the URL of a path on the node. pairs are its query's names and values.
func (n *node) url(path string, pairs ...string) *url.URL {
	n.t.Helper()
	u, err := url.Parse(n.web.URL + path)
	if err != nil {
		n.t.Fatal(err)
	}
	query := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		query.Add(pairs[i], pairs[i+1])
	}
	u.RawQuery = query.Encode()
	return u
}

// client returns a client configuration like the API server's.
func (n *node) client() *restclient.Config {
	return &restclient.Config{Host: n.web.URL, TLSClientConfig: restclient.TLSClientConfig{Insecure: true}}
}

// answer is an answer whose body is closed with the test.
type answer struct {
	Status     string
	StatusCode int
	Header     http.Header
	Body       io.ReadCloser
}

// ask sends a request and returns the answer.
func (n *node) ask(method string, u *url.URL) answer {
	n.t.Helper()
	request, err := http.NewRequestWithContext(n.t.Context(), method, u.String(), nil)
	if err != nil {
		n.t.Fatal(err)
	}
	response, err := n.web.Client().Do(request)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = response.Body.Close() })
	return answer{response.Status, response.StatusCode, response.Header, response.Body}
}
