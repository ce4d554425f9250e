package systemd_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

const (
	podconfigd = "podconfigd.service"
	podexecd   = "podexecd.service"
	containerd = "unix:///run/containerd/containerd.sock"
	// patience bounds the waits for what has to happen at once.
	patience = time.Minute
)

func must(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := run(argv...)
	if err != nil {
		t.Fatalf("%v\n%s", err, diagnosis())
	}
	return out
}

// show returns a property of a unit.
func show(t *testing.T, unit, property string) string {
	t.Helper()
	return must(t, "systemctl", "show", "--value", "--property", property, unit)
}

// userID returns podconfigd's user, which the node has allocated.
func userID(t *testing.T) string {
	t.Helper()
	return must(t, "id", "-u", "_podconfigd")
}

// eventually waits until check has no error.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	eventuallyWithin(t, patience, what, check)
}

func eventuallyWithin(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	if err := rig.Poll(limit, check); err != nil {
		t.Fatalf("%s: %v\n%s", what, err, diagnosis())
	}
}

// start is a start of a unit: a restart by systemd, or a crash, makes another one.
type start struct{ id, restarts, pid string }

func startOf(t *testing.T, unit string) start {
	t.Helper()
	return start{show(t, unit, "InvocationID"), show(t, unit, "NRestarts"), show(t, unit, "MainPID")}
}

// awaitActive waits until a unit is ready.
func awaitActive(t *testing.T, units ...string) {
	t.Helper()
	awaitActiveWithin(t, patience, units...)
}

func awaitActiveWithin(t *testing.T, limit time.Duration, units ...string) {
	t.Helper()
	for _, unit := range units {
		eventuallyWithin(t, limit, unit+" is active", func() error {
			if state := show(t, unit, "ActiveState") + "/" + show(t, unit, "SubState"); state != "active/running" {
				return fmt.Errorf("it is %s", state)
			}
			return nil
		})
	}
}

// awaitStatus waits until the unit's status has the text.
func awaitStatus(t *testing.T, unit, text string) {
	t.Helper()
	eventually(t, unit+" has the status "+text, func() error {
		if status := show(t, unit, "StatusText"); !strings.Contains(status, text) {
			return fmt.Errorf("it is %q", status)
		}
		return nil
	})
}

// dropIn adds settings of [Service] to a unit until the test ends, or undo is called. They hold from its next start.
func dropIn(t *testing.T, unit string, settings ...string) (undo func()) {
	t.Helper()
	const name = "test.conf"
	file := filepath.Join("/etc/systemd/system", unit+".d", name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("[Service]\n"+strings.Join(settings, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	must(t, "systemctl", "daemon-reload")
	undo = func() {
		if os.Remove(file) == nil {
			must(t, "systemctl", "daemon-reload")
		}
	}
	t.Cleanup(func() {
		undo()
		// A daemon with its own flags again and one with those of the test would run the test's pods in containerd.
		if left, err := filepath.Glob("/etc/systemd/system/*.d/" + name); err != nil || len(left) > 0 {
			return
		}
		must(t, "systemctl", "reset-failed")
		must(t, "systemctl", "restart", podconfigd, podexecd)
		awaitActive(t, podconfigd, podexecd)
	})
	return undo
}

// manifest returns a pod that sleeps.
func manifest(name, more string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {terminationGracePeriodSeconds: 1,
  containers: [{name: c, image: %q, imagePullPolicy: IfNotPresent, args: [sleep], %s`, name, devnode.SampleImage, more)
}

// plain is the end of a manifest without anything special.
const plain = "}]}}\n"

// write writes a manifest, until the test ends.
func write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(manifests, name+".yaml")
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, name) })
}

// remove removes a manifest, and waits until the pod is gone.
func remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(manifests, name+".yaml")); err != nil {
		t.Error(err)
	}
	eventually(t, "the pod "+name+" is gone", func() error {
		if all, err := containers(t, name); err != nil || len(all) > 0 {
			return fmt.Errorf("it has %d containers, %w", len(all), err)
		}
		return nil
	})
}

// containers returns the containers of the pods whose name starts with a text, in any state, from containerd.
func containers(t *testing.T, prefix string) ([]*runtimeapi.Container, error) {
	t.Helper()
	conn, err := rig.Dial(containerd)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	// In a clean-up, the test's context has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
	defer cancel()
	resp, err := runtimeapi.NewRuntimeServiceClient(conn).ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, err
	}
	var out []*runtimeapi.Container
	for _, c := range resp.GetContainers() {
		if strings.HasPrefix(c.GetLabels()["io.kubernetes.pod.name"], prefix) {
			out = append(out, c)
		}
	}
	return out, nil
}

// awaitRunning waits until each of the pods has a container that runs, and returns the IDs by pod.
func awaitRunning(t *testing.T, pods ...string) map[string]string {
	t.Helper()
	ids := map[string]string{}
	for _, pod := range pods {
		eventually(t, "the pod "+pod+" runs", func() error {
			all, err := containers(t, pod)
			if err != nil {
				return err
			}
			if len(all) != 1 || all[0].GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
				return fmt.Errorf("its containers are %v", all)
			}
			ids[pod] = all[0].GetId()
			return nil
		})
	}
	return ids
}

// wantSame checks that the pods have the containers that they had, and no others.
func wantSame(t *testing.T, when string, before map[string]string) {
	t.Helper()
	for pod, id := range before {
		all, err := containers(t, pod)
		if err != nil {
			t.Fatalf("%s: %v\n%s", when, err, diagnosis())
		}
		if len(all) != 1 || all[0].GetId() != id || all[0].GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			t.Errorf("%s the pod %s has the containers %v; want only %s, running\n%s", when, pod, all, id, diagnosis())
		}
	}
}

// pidOf returns the main process of a pod's container.
func pidOf(t *testing.T, pod string) string {
	t.Helper()
	for _, id := range awaitRunning(t, pod) {
		for line := range strings.Lines(must(t, "ctr", "--namespace", "k8s.io", "tasks", "ls")) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == id {
				if _, err := strconv.Atoi(fields[1]); err == nil {
					return fields[1]
				}
			}
		}
	}
	t.Fatalf("the pod %s has no process", pod)
	return ""
}
