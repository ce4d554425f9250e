package apiobjects

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
)

const here = "https://here:6443"

var errRefused = errors.New("connection refused")

func webAt(ip string) *v1.Service {
	return newService("shop", "web", ip, v1.ServicePort{Name: "http", Port: 80})
}

// wantSeen: the pod sees these services, or has to wait with the kubelet's words if there are none.
func (h *harness) wantSeen(pod *v1.Pod, want string) {
	h.t.Helper()
	synctest.Wait()
	env, err := h.Services(pod)
	switch got := hosts(env); {
	case want == "" && (err == nil || err.Error() != "services have not yet been read at least once, cannot construct envvars"):
		h.t.Errorf("it sees %q, %v; want it to wait", got, err)
	case want != "" && (err != nil || got != want):
		h.t.Errorf("it sees %q, %v; want %q", got, err, want)
	}
}

// wantLog wants one log line about stored objects since the last call for each of these words.
func (h *harness) wantLog(words ...string) {
	h.t.Helper()
	var reported []string
	for _, line := range h.lines() {
		if strings.Contains(line, "stored") {
			reported = append(reported, line)
		}
	}
	matches := len(reported) == len(words)
	for _, word := range words {
		matches = matches && strings.Contains(strings.Join(reported, "\n"), word)
	}
	if !matches {
		h.t.Errorf("told:\n%s\nwant %q", strings.Join(reported, "\n"), words)
	}
}

// What was read in one life is used in the next one once a try to read has failed, and until one succeeds.
func TestRemembered(t *testing.T) {
	in(t, func(h *harness) {
		dir := filepath.Join(t.TempDir(), "made", "when needed")
		h.next(dir, here)
		end := h.run()
		written := time.Now()
		end()
		if info := must[os.FileInfo](t)(os.Stat(filepath.Join(dir, "services.json"))); info.Mode().Perm() != 0o600 {
			t.Errorf("the file has mode %v", info.Mode())
		}
		time.Sleep(time.Hour)
		h.wantLog()

		h.goAway(errRefused)
		h.next(dir, here)
		pod, known, other := podOf("a", "api"), ofClass(podOf("b", "api"), "sandboxed"), ofClass(podOf("c", "api"), "kata")
		h.wantSeen(pod, "")
		for _, pod := range []*v1.Pod{known, other} {
			if handler, err := h.Handler(pod); !errors.Is(err, errClassesUnread) {
				t.Errorf("before any try pod %s has the handler %q, %v", pod.Name, handler, err)
			}
		}
		h.run()
		h.wantWoken("a", "b", "c")
		h.wantSeen(pod, "GOES=10.0.0.2 KUBERNETES=10.0.0.1 WEB=10.0.0.3")
		web, _ := cutService(webAt("10.0.0.3"))
		env := must[[]criconfig.EnvVar](t)(h.Services(pod))
		if want := shown(variables([]service{web})); !strings.HasSuffix(shown(env), want) {
			t.Errorf("it sees\n%s\nwant it to end with\n%s", shown(env), want)
		}
		if handler, err := h.Handler(known); handler != "runsc" || err != nil {
			t.Errorf("the handler is %q, %v", handler, err)
		}
		// It may have been made meanwhile.
		if handler, err := h.Handler(other); !errors.Is(err, errClassesUnread) {
			t.Errorf("a class that isn't remembered has the handler %q, %v", handler, err)
		}
		at := "as_of=" + written.UTC().Format("2006-01-02T15:04:05.000Z")
		h.wantLog("objects=services "+at, "objects=RuntimeClasses "+at)

		services := h.api.CoreV1().Services("shop")
		must[*v1.Service](t)(services.Update(t.Context(), webAt("10.0.0.4"), metav1.UpdateOptions{}))
		if err := services.Delete(t.Context(), "goes", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		must[*nodev1.RuntimeClass](t)(h.api.NodeV1().RuntimeClasses().Create(t.Context(), newClass("kata", "kata-qemu"), metav1.CreateOptions{}))
		h.goAway(nil)
		time.Sleep(2 * lastPause)
		h.wantWoken("c")
		h.wantSeen(pod, "KUBERNETES=10.0.0.1 WEB=10.0.0.4")
		if handler, err := h.Handler(other); handler != "kata-qemu" || err != nil {
			t.Errorf("the handler is %q, %v", handler, err)
		}
		h.wantLog()
		if _, services := readFile(t, filepath.Join(dir, "services.json")); len(services) != 2 || services[1].IP != "10.0.0.4" {
			t.Errorf("%v is remembered", services)
		}
	}, webAt("10.0.0.3"), newService("shop", "goes", "10.0.0.2", v1.ServicePort{Port: 80}),
		newService("default", "kubernetes", "10.0.0.1", v1.ServicePort{Port: 443}), newClass("sandboxed", "runsc"))
}

// Stored objects aren't used if the first attempt succeeds.
func TestRememberedAndRead(t *testing.T) {
	in(t, func(h *harness) {
		dir := t.TempDir()
		h.next(dir, here)
		h.run()()
		if err := h.api.CoreV1().Services("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		h.next(dir, here)
		pod := podOf("a", "api")
		h.wantSeen(pod, "")
		h.run()
		h.wantWoken("a")
		h.wantSeen(pod, "KUBERNETES=10.0.0.1")
		time.Sleep(time.Hour)
		h.wantLog()
	}, webAt("10.0.0.3"), newService("default", "kubernetes", "10.0.0.1", v1.ServicePort{Port: 443}))
}

// An API server that doesn't answer doesn't block pods for as long as a list may take.
func TestRememberedWithoutAnswer(t *testing.T) {
	in(t, func(h *harness) {
		dir := t.TempDir()
		h.next(dir, here)
		h.run()()
		h.next(dir, here)
		pod := podOf("a", "api")
		h.wantSeen(pod, "")
		answer, last := make(chan struct{}), page("9", "", webAt("10.0.0.9"))
		h.doing(func(ctx context.Context) {
			h.services.run(ctx, func(context.Context) (Resource, error) {
				r := must[Resource](t)(h.findServices(ctx))
				r.list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
					select {
					case <-answer:
						return last(o)
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
				return r, nil
			})
		})
		time.Sleep(patience - time.Second)
		h.wantSeen(pod, "")
		time.Sleep(time.Second)
		h.wantWoken("a")
		h.wantSeen(pod, "WEB=10.0.0.3")
		close(answer)
		h.wantSeen(pod, "WEB=10.0.0.9")
	}, webAt("10.0.0.3"))
}

// A run in which nothing was read keeps the stored objects of an earlier one.
func TestMemoryOutlivesAnAbsence(t *testing.T) {
	in(t, func(h *harness) {
		dir := t.TempDir()
		h.next(dir, here)
		h.run()()
		h.goAway(errRefused)
		for range 3 {
			h.next(dir, here)
			end := h.run()
			h.wantSeen(podOf("a", "api"), "WEB=10.0.0.3")
			time.Sleep(time.Hour)
			end()
		}
	}, webAt("10.0.0.3"))
}
