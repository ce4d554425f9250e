package simruntime

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	created = runtimeapi.ContainerState_CONTAINER_CREATED
	running = runtimeapi.ContainerState_CONTAINER_RUNNING
	exited  = runtimeapi.ContainerState_CONTAINER_EXITED
)

// A container behaves as its command line says.
func TestContainerPlaysItsScript(t *testing.T) {
	h := start(t, Config{})
	for _, test := range []struct {
		name     string
		command  []string
		args     []string
		startErr string // a part of it
		state    runtimeapi.ContainerState
		code     int32
		reason   string
		log      string
	}{
		{name: "nothing-serves", state: running, log: "stdout F serving args=[] host=nothing-serves pid=1\n"},
		{name: "serve", args: []string{"serve", ":80"}, state: running, log: "stdout F serving args=[\":80\"] host=serve pid=1 address=:80\n"},
		{name: "print", args: []string{"print", "one", "two"}, state: running, log: "stdout F one two\n"},
		{name: "print-lines", args: []string{"print", "one\ntwo"}, state: running, log: "stdout F one\nstdout F two\n"},
		{name: "env", args: []string{"env"}, state: running, log: "stdout F A=1\nstdout F B=2\n"},
		{name: "sleep", args: []string{"sleep"}, state: running},
		{name: "exit-0", args: []string{"exit", "0"}, state: exited, reason: "Completed"},
		{name: "exit-3", args: []string{"exit", "3"}, state: exited, code: 3, reason: "Error"},
		{name: "exit-later", args: []string{"exit", "3", "1h"}, state: running},
		{name: "pause", args: []string{"pause"}, state: running},
		{name: "hog", args: []string{"hog", "10"}, state: running, log: "stdout F holding 10 MiB\n"},
		{name: "hog-too-much", args: []string{"hog", "11"}, state: exited, code: 137, reason: "OOMKilled"},
		{name: "no-subcommand", command: []string{"/sample"}, state: exited, code: 2, reason: "Error", log: "stderr F sample: no command\n"},
		{name: "misused", args: []string{"exit", "many"}, state: exited, code: 2, reason: "Error",
			log: "stderr F sample: exit: the code must be a number from 0 to 255\n"},
		{name: "other-program", command: []string{"sh"}, args: []string{"-c", "true"}, state: exited, code: 128, reason: "StartError",
			startErr: `failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: ` +
				`unable to start container process: exec: "sh": executable file not found in $PATH: unknown`},
		{name: "fail-start", args: []string{"fail-start"}, state: exited, code: 128, reason: "StartError",
			startErr: `exec: "fail-start": executable file not found in $PATH: unknown`},
	} {
		t.Run(test.name, func(t *testing.T) {
			sandbox, pod := h.pod(test.name)
			config := containerConfig(test.name, test.args...)
			config.Command = test.command
			config.Envs = []*runtimeapi.KeyValue{{Key: "B", Value: []byte("2")}, {Key: "A", Value: []byte("1")}}
			config.Linux = &runtimeapi.LinuxContainerConfig{Resources: &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 10 << 20}}
			id := h.create(sandbox, pod, config)
			err := h.runtime.StartContainer(t.Context(), id)
			if (err != nil) != (test.startErr != "") {
				t.Fatalf("StartContainer: %v", err)
			}
			if err != nil && (status.Code(err) != codes.Unknown || !strings.Contains(err.Error(), test.startErr)) {
				t.Errorf("StartContainer: %v, want Unknown with %q", err, test.startErr)
			}
			got := h.status(id)
			if got.GetState() != test.state || got.GetExitCode() != test.code || got.GetReason() != test.reason {
				t.Errorf("%v %d %q, want %v %d %q", got.GetState(), got.GetExitCode(), got.GetReason(), test.state, test.code, test.reason)
			}
			if err != nil && !strings.Contains(got.GetMessage(), test.startErr) {
				t.Errorf("message %q lacks %q", got.GetMessage(), test.startErr)
			}
			if log := h.logs(test.name); log != test.log {
				t.Errorf("log %q, want %q", log, test.log)
			}
		})
	}
}

// Each time in a container's status is set only after its event.
func TestContainerTimes(t *testing.T) {
	h := start(t, Config{})
	sandbox, pod := h.pod("p")
	at := func() int64 { return h.clock.Now().UnixNano() }
	t0 := at()
	id := h.create(sandbox, pod, containerConfig("c", "exit", "4", "10s"))
	if s := h.status(id); s.GetState() != created || s.GetCreatedAt() != t0 || s.GetStartedAt() != 0 || s.GetFinishedAt() != 0 {
		t.Errorf("created: %v", s)
	}
	h.clock.Step(time.Second)
	t1 := at()
	if err := h.runtime.StartContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if s := h.status(id); s.GetState() != running || s.GetStartedAt() != t1 || s.GetFinishedAt() != 0 {
		t.Errorf("running: %v", s)
	}
	h.clock.Step(10 * time.Second)
	h.waitExit(id)
	if s := h.status(id); s.GetCreatedAt() != t0 || s.GetStartedAt() != t1 || s.GetFinishedAt() != at() {
		t.Errorf("exited: %v", s)
	}
	h.wantExit(id, 4, "Error")
}

// The status returns the config of the caller unchanged.
func TestContainerShowsItsConfig(t *testing.T) {
	h := start(t, Config{})
	sandbox, pod := h.pod("p")
	config := containerConfig("c")
	config.Metadata.Attempt = 2
	config.Annotations = map[string]string{"io.kubernetes.container.hash": "abc"}
	config.Mounts = []*runtimeapi.Mount{{ContainerPath: "/data", HostPath: "/tmp"}}
	image, err := h.images.ImageStatus(t.Context(), config.GetImage(), false)
	if err != nil {
		t.Fatal(err)
	}
	config.Image = &runtimeapi.ImageSpec{Image: image.GetImage().GetId()} // as the kubelet does
	id := h.create(sandbox, pod, config)

	s := h.status(id)
	if s.GetId() != id || s.GetMetadata().GetName() != "c" || s.GetMetadata().GetAttempt() != 2 ||
		s.GetLabels()["io.kubernetes.container.name"] != "c" || s.GetAnnotations()["io.kubernetes.container.hash"] != "abc" {
		t.Errorf("identity: %v", s)
	}
	if len(s.GetMounts()) != 1 || s.GetMounts()[0].GetContainerPath() != "/data" || s.GetLogPath() != filepath.Join(h.dir, "c.log") {
		t.Errorf("mounts and log path: %v", s)
	}
	// The status has the image's tag and digest, also if the config has its ID.
	if s.GetImage().GetImage() != "localhost/podstream-sample:dev" || s.GetImageRef() != image.GetImage().GetRepoDigests()[0] ||
		s.GetImageId() != image.GetImage().GetId() {
		t.Errorf("image: %v %v %v", s.GetImage(), s.GetImageRef(), s.GetImageId())
	}
	list, err := h.runtime.ListContainers(t.Context(), nil)
	if err != nil || len(list) != 1 || list[0].GetPodSandboxId() != sandbox || list[0].GetAnnotations()["io.kubernetes.container.hash"] != "abc" {
		t.Errorf("list: %v, %v", list, err)
	}
}

// A container starts only once. No container starts in a sandbox that isn't ready.
func TestContainerThatCannotStart(t *testing.T) {
	h := start(t, Config{})
	sandbox, pod := h.pod("p")
	runs, ended := h.run(sandbox, pod, containerConfig("runs")), h.run(sandbox, pod, containerConfig("ended", "exit", "0"))
	for id, state := range map[string]string{runs: "CONTAINER_RUNNING", ended: "CONTAINER_EXITED"} {
		if err := h.runtime.StartContainer(t.Context(), id); err == nil || !strings.Contains(err.Error(), "container is in "+state+" state") {
			t.Errorf("second start: %v", err)
		}
	}
	if s := h.status(runs); s.GetState() != running {
		t.Errorf("the second start has changed the container: %v", s)
	}
	if err := h.runtime.StartContainer(t.Context(), "unknown"); status.Code(err) != codes.NotFound {
		t.Errorf("unknown: %v", err)
	}

	late := h.create(sandbox, pod, containerConfig("late"))
	if err := h.runtime.StopPodSandbox(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
	if err := h.runtime.StartContainer(t.Context(), late); err == nil || !strings.Contains(err.Error(), "is not running") {
		t.Errorf("start in a stopped sandbox: %v", err)
	}
	h.wantExit(late, 128, "StartError")
	if _, err := h.runtime.CreateContainer(t.Context(), sandbox, containerConfig("later"), pod); status.Code(err) != codes.NotFound {
		t.Errorf("create in a stopped sandbox: %v", err)
	}
}

func TestCreateContainerErrors(t *testing.T) {
	h := start(t, Config{})
	sandbox, pod := h.pod("p")
	if _, err := h.runtime.CreateContainer(t.Context(), "unknown", containerConfig("c"), pod); status.Code(err) != codes.NotFound {
		t.Errorf("unknown sandbox: %v", err)
	}
	absent := containerConfig("c")
	absent.Image.Image = "sim/app:1" // in the registry, not pulled
	if _, err := h.runtime.CreateContainer(t.Context(), sandbox, absent, pod); status.Code(err) != codes.NotFound {
		t.Errorf("absent image: %v", err)
	}
	// The failed create released its reserved name.
	h.create(sandbox, pod, containerConfig("c"))
}

// A log directory that doesn't exist makes the start fail, as with a real runtime.
func TestContainerWithoutLogDirectory(t *testing.T) {
	h := start(t, Config{})
	sandbox, pod := h.pod("p")
	config := containerConfig("c")
	config.LogPath = "no/such/0.log"
	id := h.create(sandbox, pod, config)
	if err := h.runtime.StartContainer(t.Context(), id); err == nil || !strings.Contains(err.Error(), "failed to create container loggers") {
		t.Errorf("StartContainer: %v", err)
	}
	h.wantExit(id, 128, "StartError")
}

// After a rotation the container writes to the renamed file until its log is reopened.
func TestReopenContainerLog(t *testing.T) {
	h := start(t, Config{})
	id := h.sample("c", "ignore-term")
	if err := os.Rename(filepath.Join(h.dir, "c.log"), filepath.Join(h.dir, "old.log")); err != nil {
		t.Fatal(err)
	}
	h.Server.mu.Lock()
	h.Server.print(h.Server.containers[id], runtimeapi.Stdout, "before")
	h.Server.mu.Unlock()
	if err := h.runtime.ReopenContainerLog(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	h.Server.mu.Lock()
	h.Server.print(h.Server.containers[id], runtimeapi.Stderr, "after")
	h.Server.mu.Unlock()
	if old, now := h.logs("old"), h.logs("c"); old != "stdout F before\n" || now != "stderr F after\n" {
		t.Errorf("old log %q, new log %q", old, now)
	}
	if err := h.runtime.StopContainer(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	if err := h.runtime.ReopenContainerLog(t.Context(), id); err == nil {
		t.Error("the log of a container that doesn't run was reopened; want an error")
	}
}

// An update sets the resources in the request and keeps the others.
func TestUpdateContainerResources(t *testing.T) {
	h := start(t, Config{})
	sandbox, pod := h.pod("p")
	config := containerConfig("c")
	config.Linux = &runtimeapi.LinuxContainerConfig{Resources: &runtimeapi.LinuxContainerResources{CpuShares: 100, MemoryLimitInBytes: 1000}}
	id := h.run(sandbox, pod, config)
	update := &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 2000}}
	if err := h.runtime.UpdateContainerResources(t.Context(), id, update); err != nil {
		t.Fatal(err)
	}
	if got := h.status(id).GetResources().GetLinux(); got.GetCpuShares() != 100 || got.GetMemoryLimitInBytes() != 2000 {
		t.Errorf("resources: %v", got)
	}
	if err := h.runtime.UpdateContainerResources(t.Context(), "unknown", update); status.Code(err) != codes.NotFound {
		t.Errorf("unknown: %v", err)
	}
}

// A "write" to a mount writes to the host. Containers write their termination messages in this way.
func TestContainerWritesToItsMounts(t *testing.T) {
	h := start(t, Config{})
	message := filepath.Join(h.dir, "message")
	if err := os.WriteFile(message, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sandbox, pod := h.pod("p")
	config := containerConfig("c", "write", "/dev/termination-log", "out of ideas")
	config.Mounts = []*runtimeapi.Mount{{ContainerPath: "/dev/termination-log", HostPath: message}}
	h.wantExit(h.run(sandbox, pod, config), 0, "Completed")
	if content, err := os.ReadFile(message); err != nil || string(content) != "out of ideas" {
		t.Errorf("message %q, %v", content, err)
	}
}
