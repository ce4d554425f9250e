package podconfigd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/logtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// applyPods writes two pods of an image, and returns the actions and the response.
func applyPods(ctx context.Context, api podconfigv1.PodConfigServiceClient, image string) (string, *podconfigv1.ApplyManifestsResponse, error) {
	text := fmt.Sprintf("%s\n---\n%s\n", imageText("a", image), imageText("b", image))
	resp, err := api.ApplyManifests(ctx, &podconfigv1.ApplyManifestsRequest{Files: []*podconfigv1.ManifestFile{{Name: "f", Content: []byte(text)}}})
	var out []string
	for _, r := range resp.GetResults() {
		out = append(out, strings.TrimPrefix(r.GetAction().String(), "MANIFEST_ACTION_"))
	}
	return strings.Join(out, " "), resp, err
}

func imageText(name, image string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: main, image: %q}]}}", name, image)
}

// appliedPods returns the names and images of the served pods of the source applied, once that has been read.
func appliedPods(t *testing.T, api podconfigv1.PodConfigServiceClient) string {
	t.Helper()
	var pods string
	awaitState(t, api, "the source applied is ready", func() bool {
		sources, err := api.ListSources(t.Context(), &podconfigv1.ListSourcesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sources.GetSources() {
			// A source is ready before its revision is published.
			var revision uint64
			if pods, revision = podsAndRevision(t, api); s.GetName() == "applied" && s.GetReady() && revision >= s.GetReadyRevision() {
				return true
			}
		}
		return false
	})
	return pods
}

// awaitState waits until podconfigd has a state, which is checked after each message of its stream.
func awaitState(t *testing.T, api podconfigv1.PodConfigServiceClient, what string, reached func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := api.WatchPodUpdates(ctx, &podconfigv1.WatchPodUpdatesRequest{
		Consumer: "await", Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE, HeartbeatInterval: durationpb.New(time.Second),
	})
	for err == nil && !reached() {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatalf("waited in vain until %s: %v", what, err)
	}
}

func podsOfApplied(t *testing.T, api podconfigv1.PodConfigServiceClient) string {
	t.Helper()
	pods, _ := podsAndRevision(t, api)
	return pods
}

func podsAndRevision(t *testing.T, api podconfigv1.PodConfigServiceClient) (string, uint64) {
	t.Helper()
	resp, err := api.ListPods(t.Context(), &podconfigv1.ListPodsRequest{Filter: &podconfigv1.PodFilter{Sources: []string{"applied"}}})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range resp.GetPods() {
		spec := p.GetJson().GetFields()["spec"].GetStructValue().GetFields()["containers"].GetListValue().GetValues()[0]
		out = append(out, p.GetRef().GetName()+"="+spec.GetStructValue().GetFields()["image"].GetStringValue())
	}
	return strings.Join(out, " "), resp.GetRevision()
}

// TestApplied: podconfigd takes writes if it is told to, keeps them over a restart and a reload, and loses the pods, but not
// the documents, while the source isn't configured.
func TestApplied(t *testing.T) {
	dir := shortDir(t)
	writeManifest(t, dir, "file", "one")
	config := filepath.Join(dir, "config.yaml")
	sources := func(applied string) {
		t.Helper()
		text := "apiVersion: podstream.io/v1alpha1\nkind: PodSources\nfiles: [{path: " + filepath.Join(dir, "manifests") + "}]\n" + applied
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sources("")
	r := launchWith(t, dir, t.Output(), "--config", config)
	if _, _, err := applyPods(t.Context(), r.api, "v1"); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "--applied") {
		t.Errorf("a write without the source: %v; want FailedPrecondition", err)
	}
	r.stop()
	sources("applied: {enabled: true}\n")
	r = launchWith(t, dir, t.Output(), "--config", config)
	if got := appliedPods(t, r.api); got != "" {
		t.Errorf("at first, the pods are %q", got)
	}
	if got := names(r.sources()); got != "file applied" {
		t.Errorf("the sources are %q; want applied to be the last", got)
	}
	got, resp, err := applyPods(t.Context(), r.api, "v1")
	if err != nil || got != "CREATED CREATED" || podsOfApplied(t, r.api) != "a-node=v1 b-node=v1" {
		t.Fatalf("a write: %q, %v; the pods are %q", got, err, podsOfApplied(t, r.api))
	}
	r.stop()
	r = launchWith(t, dir, t.Output(), "--config", config)
	if pods := appliedPods(t, r.api); pods != "a-node=v1 b-node=v1" {
		t.Errorf("after the restart, the pods are %q", pods)
	}
	got, again, err := applyPods(t.Context(), r.api, "v1")
	if err != nil || got != "UNCHANGED UNCHANGED" || again.GetInstanceId() != resp.GetInstanceId() || again.GetRevision() < resp.GetRevision() {
		t.Errorf("the same again: %q, %v, at %s %d", got, err, again.GetInstanceId(), again.GetRevision())
	}
	sources("")
	awaitSources(t, r, "file")
	// A source is removed before its revision is published.
	awaitState(t, r.api, "the pods of the source are removed", func() bool { return podsOfApplied(t, r.api) == "" })
	sources("applied: {enabled: true}\n")
	awaitSources(t, r, "file applied")
	if pods := appliedPods(t, r.api); pods != "a-node=v1 b-node=v1" {
		t.Errorf("with the source again, the pods are %q; want those of the store", pods)
	}
}

// awaitSources waits until podconfigd has these sources.
func awaitSources(t *testing.T, r *running, want string) {
	t.Helper()
	awaitState(t, r.api, "the sources are "+want, func() bool { return names(r.sources()) == want })
}

// TestGatewayTakesNoWrites: a podconfigd that serves other nodes refuses writes, and so passes none on.
func TestGatewayTakesNoWrites(t *testing.T) {
	for nodes, want := range map[string]codes.Code{"other": codes.FailedPrecondition, "*": codes.FailedPrecondition, "node,other": codes.FailedPrecondition, "node": codes.OK} {
		r := launch(t, shortDir(t), t.Output(), "--applied", "--nodes="+nodes)
		appliedPods(t, r.api)
		if _, _, err := applyPods(t.Context(), r.api, "v1"); status.Code(err) != want {
			t.Errorf("--nodes=%s: %v; want %v", nodes, err, want)
		}
		r.stop()
	}
}

// ownProcess is podconfigd as a process of its own.
type ownProcess struct {
	cmd *exec.Cmd
	log *logtest.Buffer
	api podconfigv1.PodConfigServiceClient
}

func startProcess(t *testing.T, binary, dir string, env ...string) *ownProcess {
	t.Helper()
	cmd := exec.Command(binary, "--applied", "--pod-manifest-path", filepath.Join(dir, "manifests"), "--root-dir", filepath.Join(dir, "root"),
		"--listen", "unix://"+filepath.Join(dir, "s"), "--hostname-override", "node")
	cmd.Env = append(os.Environ(), slices.DeleteFunc(env, func(v string) bool { return v == "" })...)
	log := &logtest.Buffer{}
	cmd.Stderr = io.MultiWriter(t.Output(), log)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &ownProcess{cmd, log, dial(t, dir)}
	t.Cleanup(func() { _ = p.kill() })
	return p
}

// kill kills the process, if it runs, and returns how it ended.
func (p *ownProcess) kill() error {
	_ = p.cmd.Process.Kill()
	return p.cmd.Wait()
}

// TestKilledBeforePublication: podconfigd is killed when a write is stored, and neither merged nor published. After the restart
// the change is published, whole, and the same write finds it unchanged. With the fault that nothing is stored, the test notices.
func TestKilledBeforePublication(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "podconfigd")
	if output, err := exec.Command("go", "build", "-tags=failpoints", "-o", binary, "../../cmd/podconfigd").CombinedOutput(); err != nil {
		t.Fatalf("build podconfigd: %v\n%s", err, output)
	}
	for _, tc := range []struct {
		name, env, want, again string
	}{
		{"stored", "", "a-node=v2 b-node=v2", "UNCHANGED UNCHANGED"},
		{"planted fault", failpoint.Variable + "=" + string(failpoint.SkipAppliedStore), "a-node=v1 b-node=v1", "CONFIGURED CONFIGURED"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := shortDir(t)
			p := startProcess(t, binary, dir)
			appliedPods(t, p.api)
			if got, _, err := applyPods(t.Context(), p.api, "v1"); err != nil || got != "CREATED CREATED" {
				t.Fatalf("the first write: %q, %v", got, err)
			}
			_ = p.kill()
			p = startProcess(t, binary, dir, failpoint.DieAt+"="+string(failpoint.AfterAppliedStore), tc.env)
			appliedPods(t, p.api)
			ctx, cancel := context.WithCancel(t.Context())
			answer := make(chan error, 1)
			go func() {
				_, _, err := applyPods(ctx, p.api, "v2")
				answer <- err
			}()
			exit := (*exec.ExitError)(nil)
			if err := p.cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("podconfigd has ended with %v; want SIGKILL", err)
			}
			// The client would wait for the next podconfigd, and repeat the call.
			cancel()
			if err := <-answer; err == nil {
				t.Fatal("the write was answered")
			}
			p = startProcess(t, binary, dir)
			if got := appliedPods(t, p.api); got != tc.want {
				t.Errorf("after the restart, the pods are %q; want %q", got, tc.want)
			}
			if got, _, err := applyPods(t.Context(), p.api, "v2"); err != nil || got != tc.again {
				t.Errorf("the same write again: %q, %v; want %q", got, err, tc.again)
			}
			// The write that wasn't answered has its audit lines, once: they aren't repeated at the next start.
			want := map[string]int{"": 2}[tc.env]
			if n := p.log.Count(`msg="manifest write"`, "recovered=true", "identity=uid:0", "action=configured", "decision=allowed", "revision="); n != want {
				t.Errorf("the write has %d lines after the restart; want %d", n, want)
			}
			_ = p.kill()
			p = startProcess(t, binary, dir)
			if appliedPods(t, p.api); p.log.Count("recovered=true") > 0 {
				t.Error("the write is logged again at the next start")
			}
		})
	}
}

// TestKilledWhileWriting: podconfigd is killed again and again while a client writes two pods of rising versions. After each
// restart both pods have one version: the last one that was answered, or the one that was under way.
func TestKilledWhileWriting(t *testing.T) {
	dir := shortDir(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	for round := range 6 {
		p := startProcess(t, self, dir, asDaemon+"=1")
		got := appliedPods(t, p.api)
		answered := fmt.Sprintf("a-node=v%d b-node=v%d", written, written)
		underWay := fmt.Sprintf("a-node=v%d b-node=v%d", written+1, written+1)
		switch {
		case got == underWay:
			written++
		case got != answered && (written > 0 || got != ""):
			t.Fatalf("round %d: the pods are %q; want %q or %q", round, got, answered, underWay)
		}
		// Each round ends at another point of a write: after so many answers, and a little later.
		ended := make(chan int, 1)
		answers := make(chan struct{}, 1000)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			last := written
			for {
				if _, _, err := applyPods(ctx, p.api, fmt.Sprint("v", last+1)); err != nil {
					ended <- last
					return
				}
				last++
				answers <- struct{}{}
			}
		}()
		for range 3 + round {
			<-answers
		}
		_ = p.kill()
		cancel()
		written = <-ended
	}
}
