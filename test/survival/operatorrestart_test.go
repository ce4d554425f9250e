package survival

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/failpoint"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// isRestarted is a pod whose restart policy starts no container again. Its container records its starts and ends in DIR.
const isRestarted = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 10
  containers:
  - name: main
    image: "` + devnode.SampleImage + `"
    imagePullPolicy: Never
    args: [seq, append, /log/starts, x, ;, on-term, /log/terms, x, 0s, "0"]
    lifecycle: {preStop: {exec: {command: [/sample, append, /log/hooks, x]}}}
    volumeMounts: [{name: log, mountPath: /log}]
  - {name: other, image: "` + devnode.SampleImage + `", imagePullPolicy: Never, args: [sleep]}
  volumes: [{name: log, hostPath: {path: DIR}}]
`

// TestRestartPoints kills podexecd at each step of a restart that an operator has requested, and starts it again. The
// restart must be completed, exactly once, while podconfigd doesn't run.
func TestRestartPoints(t *testing.T) {
	points := failpoint.RestartPoints()
	for _, call := range []string{"StopContainer", "CreateContainer"} {
		points = append(points, failpoint.BeforeCall(call), failpoint.AfterCall(call))
	}
	t.Run("containerd-2", func(t *testing.T) {
		t.Parallel()
		testRestartPoints(t, devnode.Containerd2, points)
	})
	t.Run("sim", func(t *testing.T) {
		t.Parallel()
		for _, call := range []string{"ExecSync", "StartContainer"} {
			points = append(points, failpoint.BeforeCall(call), failpoint.AfterCall(call))
		}
		testRestartPoints(t, devnode.Sim, points)
	})
}

func testRestartPoints(t *testing.T, runtime devnode.Runtime, points []failpoint.Point) {
	node := startNode(t, devnode.Config{Runtime: runtime, BinDir: binaries(t, "failpoints")})
	r, err := rig.Start(node, "restart")
	if err != nil {
		t.Fatal(err)
	}
	w := restartedPod{t: t, r: r}
	t.Cleanup(func() {
		if err := errors.Join(r.Clear(), r.Close()); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(os.MkdirAll(r.Path("life"), 0o777), r.Write("web.yaml", strings.ReplaceAll(isRestarted, "DIR", r.Path("life")))); err != nil {
		t.Fatal(err)
	}
	w.await(0)
	other := w.container("other").ContainerID
	if err := r.Podconfigd.Stop(); err != nil {
		t.Fatal(err)
	}
	for i, point := range points {
		if err := errors.Join(r.Podexecd.Stop(), startToDie(r.Podexecd, point)); err != nil {
			t.Fatal(err)
		}
		w.request()
		if err := diedAt(r.Podexecd, point); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := r.Podexecd.Start(); err != nil {
			t.Fatal(err)
		}
		w.await(int32(i + 1))
		t.Logf("%s: restarted after %v", point, time.Since(began).Round(time.Millisecond))
	}
	if now := w.container("other").ContainerID; now != other {
		t.Errorf("the other container was %s, and is now %s", other, now)
	}
}

// restartedPod is the pod of isRestarted.
type restartedPod struct {
	t *testing.T
	r *rig.Rig
}

// request requests restarts until podexecd has died. It may die before the answer, or refuse before it has read the
// runtime.
func (w restartedPod) request() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	go func() {
		select {
		case <-w.r.Podexecd.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	req := &podexecv1.RestartPodRequest{Ref: &podconfigv1.PodRef{Name: "web-restart"}, Container: "main"}
	err := rig.Poll(patience, func() error {
		_, err := w.r.Exec.RestartPod(ctx, req)
		select {
		case <-w.r.Podexecd.Done():
			return nil
		default:
			return err
		}
	})
	if err != nil {
		w.t.Fatalf("the restart wasn't accepted: %v", err)
	}
	<-ctx.Done()
	if alive(w.r.Podexecd) {
		w.t.Fatal("podexecd didn't reach the point")
	}
}

// await waits until main runs after that number of restarts, and checks that it was started and stopped so often.
func (w restartedPod) await(restarts int32) {
	w.t.Helper()
	err := rig.Poll(patience, func() error {
		c := w.container("main")
		if c.State.Running == nil || c.RestartCount != restarts {
			return fmt.Errorf("main is %+v", c)
		}
		if n := w.lines("starts"); n != int(restarts)+1 {
			return fmt.Errorf("main was started %d times", n)
		}
		return nil
	})
	if err != nil {
		w.t.Fatalf("want main running after %d restarts: %v", restarts, err)
	}
	if terms, hooks := w.lines("terms"), w.lines("hooks"); terms != int(restarts) || hooks < int(restarts) {
		w.t.Errorf("main got %d SIGTERMs and %d hooks in %d restarts", terms, hooks, restarts)
	}
}

// container returns the status of a container, as far as podexecd has one.
func (w restartedPod) container(name string) v1.ContainerStatus {
	w.t.Helper()
	var s v1.PodStatus
	resp, err := w.r.Exec.GetPod(w.t.Context(), &podexecv1.GetPodRequest{
		Ref: &podconfigv1.PodRef{Name: "web-restart"}, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF,
	})
	if err == nil {
		err = s.Unmarshal(resp.GetPod().GetProtobuf())
	}
	if err != nil {
		return v1.ContainerStatus{}
	}
	for _, c := range s.ContainerStatuses {
		if c.Name == name {
			return c
		}
	}
	return v1.ContainerStatus{}
}

// lines returns the number of lines in a file of the container.
func (w restartedPod) lines(file string) int {
	w.t.Helper()
	text, err := os.ReadFile(w.r.Path("life", file))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}
