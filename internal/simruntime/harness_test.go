package simruntime

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/clocktest"
	"github.com/podstream/podstream/internal/simruntime/simtest"
)

func TestMain(m *testing.M) {
	// SPDY keeps a goroutine for a second after a connection has failed.
	simtest.Main(m, goleak.IgnoreAnyFunction("github.com/moby/spdystream.(*Connection).shutdown"))
}

// harness is a Server on a socket, and the client that podexecd uses.
type harness struct {
	*Server
	t     *testing.T
	clock *clocktest.Timers
	dir   string
	// endpoint is the one that the clients are connected to.
	endpoint string
	runtime  internalapi.RuntimeService
	images   internalapi.ImageManagerService
}

func start(t *testing.T, cfg Config) *harness {
	t.Helper()
	h := &harness{t: t, clock: clocktest.NewTimers(time.Unix(1_000_000, 0)), dir: t.TempDir()}
	if cfg.Clock == nil {
		cfg.Clock = h.clock
	}
	h.Server = New(cfg)
	h.connect(simtest.Serve(t, h.Server))
	return h
}

// connect connects the harness's clients to the endpoint.
func (h *harness) connect(endpoint string) {
	h.t.Helper()
	h.endpoint = endpoint
	h.runtime, h.images = simtest.Runtime(h.t, endpoint), simtest.Images(h.t, endpoint)
}

func podConfig(name string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: "uid-" + name},
		Hostname: name,
		Labels:   map[string]string{"io.kubernetes.pod.name": name},
	}
}

// pod runs a sandbox whose logs are in the harness's directory.
func (h *harness) pod(name string) (string, *runtimeapi.PodSandboxConfig) {
	h.t.Helper()
	config := podConfig(name)
	config.LogDirectory = h.dir
	id, err := h.runtime.RunPodSandbox(h.t.Context(), config, "")
	if err != nil {
		h.t.Fatal(err)
	}
	return id, config
}

func containerConfig(name string, args ...string) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: "localhost/podstream-sample:dev"},
		Args:     args,
		Labels:   map[string]string{"io.kubernetes.container.name": name},
		LogPath:  name + ".log",
	}
}

func (h *harness) create(sandbox string, pod *runtimeapi.PodSandboxConfig, config *runtimeapi.ContainerConfig) string {
	h.t.Helper()
	id, err := h.runtime.CreateContainer(h.t.Context(), sandbox, config, pod)
	if err != nil {
		h.t.Fatal(err)
	}
	return id
}

// run creates and starts a container.
func (h *harness) run(sandbox string, pod *runtimeapi.PodSandboxConfig, config *runtimeapi.ContainerConfig) string {
	h.t.Helper()
	id := h.create(sandbox, pod, config)
	if err := h.runtime.StartContainer(h.t.Context(), id); err != nil {
		h.t.Fatal(err)
	}
	return id
}

// sample runs a container of the sample program in a separate pod.
func (h *harness) sample(name string, args ...string) string {
	h.t.Helper()
	sandbox, pod := h.pod(name)
	return h.run(sandbox, pod, containerConfig(name, args...))
}

func (h *harness) status(id string) *runtimeapi.ContainerStatus {
	h.t.Helper()
	resp, err := h.runtime.ContainerStatus(h.t.Context(), id, false)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp.GetStatus()
}

func (h *harness) sandboxStatus(id string) *runtimeapi.PodSandboxStatus {
	h.t.Helper()
	resp, err := h.runtime.PodSandboxStatus(h.t.Context(), id, false)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp.GetStatus()
}

// logs returns the container's log without the timestamps.
func (h *harness) logs(name string) string {
	h.t.Helper()
	content, err := os.ReadFile(filepath.Join(h.dir, name+".log"))
	if err != nil {
		h.t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(content)) {
		_, rest, _ := strings.Cut(line, " ")
		out.WriteString(rest)
	}
	return out.String()
}

// waitTimer waits until code waits for a timer of d on the clock.
func (h *harness) waitTimer(d time.Duration) {
	h.t.Helper()
	for {
		select {
		case have := <-h.clock.Set:
			if have == d {
				return
			}
		case <-h.t.Context().Done():
			h.t.Fatalf("no timer of %v", d)
		}
	}
}

// wantExit checks a container's exit code and reason.
func (h *harness) wantExit(id string, code int32, reason string) {
	h.t.Helper()
	status := h.status(id)
	if status.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED || status.GetExitCode() != code || status.GetReason() != reason {
		h.t.Errorf("container is %v, exit code %d, reason %q; want an exit with %d, %q",
			status.GetState(), status.GetExitCode(), status.GetReason(), code, reason)
	}
}

// waitExit waits for the end of a container that another goroutine ends.
func (h *harness) waitExit(id string) {
	h.Server.mu.Lock()
	c := h.Server.containers[id]
	h.Server.mu.Unlock()
	<-c.exited
}
