package lifecycle

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/devnode"
)

// probed are the probes for the file /log/up: the container's command, and the probe.
var probed = []struct {
	name, args, probe string
	network           bool
}{
	{"exec", "sleep", "exec: {command: [/sample, exists, /log/up]}", false},
	{"http", "serve, ':8080', --ready=/log/up", "httpGet: {path: /ready, port: web}", true},
	{"grpc", "grpc-health, ':8080', /log/up, main", "grpc: {port: 8080, service: main}", true},
}

// onEachProbe runs the test with each kind of probe, on those runtimes that support it.
func onEachProbe(t *testing.T, runtimes []namedRuntime, test func(t *testing.T, b *bench, args, probe string)) {
	t.Parallel()
	for _, c := range probed {
		t.Run(c.name, func(t *testing.T) {
			runtimes := runtimes
			if c.network {
				runtimes = slices.DeleteFunc(slices.Clone(runtimes), func(r namedRuntime) bool { return r.kind == devnode.Sim })
			}
			on(t, runtimes, func(t *testing.T, b *bench) { test(t, b, c.args, c.probe) })
		})
	}
}

// A pod is ready while its readiness probes succeed. A failure doesn't restart a container.
func TestReadiness(t *testing.T) {
	onEachProbe(t, latest, func(t *testing.T, b *bench, args, probe string) {
		p := b.run(t, `
containers:
- name: main
  args: [`+args+`]
  ports: [{name: web, containerPort: 8080}]
  readinessProbe: {`+probe+`, periodSeconds: 1, failureThreshold: 1}
- {name: other, args: [sleep]}`)
		p.awaitEvent("Unhealthy", "Readiness probe failed")
		s := p.awaitNow("both run", func(s *state) bool { return s.runs("main") && s.runs("other") })
		if c := s.condition(v1.ContainersReady); c.Status != v1.ConditionFalse || c.Reason != "ContainersNotReady" ||
			c.Message != "containers with unready status: [main]" || s.is(v1.PodReady) {
			t.Errorf("before the probe succeeds: conditions %+v", s.Conditions)
		}
		for range 2 {
			p.touch("up")
			if s := p.awaitReady(); !s.is(v1.ContainersReady) || !s.of("main").Ready {
				t.Errorf("ready with conditions %+v", s.Conditions)
			}
			p.untouch("up")
			s := p.awaitNow("not ready", func(s *state) bool { return !s.is(v1.PodReady) })
			if s.of("main").Ready || !s.of("other").Ready || s.Phase != v1.PodRunning {
				t.Errorf("not ready, with main %+v, other %+v", s.of("main"), s.of("other"))
			}
		}
		if s := p.now(); s.of("main").RestartCount != 0 {
			t.Errorf("main was restarted %d times", s.of("main").RestartCount)
		}
	})
}

// A container whose liveness probe fails is killed and restarted.
func TestLiveness(t *testing.T) {
	onEachProbe(t, all, func(t *testing.T, b *bench, args, probe string) {
		p := b.run(t, `
containers:
- name: main
  args: [seq, write, /log/up, "1", ;, `+args+`]
  ports: [{name: web, containerPort: 8080}]
  livenessProbe: {`+probe+`, periodSeconds: 1, failureThreshold: 2}`)
		p.awaitLines("up", "1")
		p.untouch("up")
		p.awaitEvent("Unhealthy", "Liveness probe failed")
		p.awaitEvent("Killing", "Container main failed liveness probe, will be restarted")
		s := p.awaitNow("main runs again", func(s *state) bool { return s.runs("main") && s.of("main").RestartCount == 1 })
		if last := s.endedBefore("main"); last == nil || last.ExitCode != 143 {
			t.Errorf("main ended with %+v before; want 143, of SIGTERM", last)
		}
	})
}

// TCP probes: one port is open, the other isn't.
func TestTCPProbes(t *testing.T) {
	on(t, latestContainerd, func(t *testing.T, b *bench) {
		p := b.run(t, `
containers:
- name: open
  args: [serve, ':8080']
  readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
- name: closed
  args: [sleep]
  readinessProbe: {tcpSocket: {port: 8081}, periodSeconds: 1}
- name: dead
  args: [sleep]
  livenessProbe: {tcpSocket: {port: 8082}, periodSeconds: 1, failureThreshold: 1}`)
		p.await("dead is restarted", func(s *state) bool { return s.of("dead").RestartCount > 0 })
		s := p.awaitNow("open is ready", func(s *state) bool { return s.of("open").Ready })
		if s.of("closed").Ready || s.of("closed").RestartCount+s.of("open").RestartCount != 0 {
			t.Errorf("closed %+v, open %+v", s.of("closed"), s.of("open"))
		}
		p.awaitEvent("Unhealthy", "Readiness probe failed", "8081")
	})
}

// With the policy Never, a container that fails its liveness probe isn't restarted.
func TestLivenessUnderNever(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		p := b.run(t, `
restartPolicy: Never
containers:
- name: main
  args: [sleep]
  livenessProbe: {exec: {command: [/sample, exists, /log/up]}, periodSeconds: 1, failureThreshold: 1}`)
		s := p.awaitPhase(v1.PodFailed)
		if end := s.ended("main"); end == nil || end.ExitCode != 143 || s.of("main").RestartCount != 0 {
			t.Errorf("main is %+v", s.of("main"))
		}
	})
}

// Until the startup probe has succeeded, the container isn't started, and its other probes don't run.
func TestStartupHoldsTheOthersBack(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		p := b.run(t, `
containers:
- name: main
  args: [sleep]
  startupProbe: {exec: {command: [/sample, exists, /log/started]}, periodSeconds: 1, failureThreshold: 100}
  livenessProbe: {exec: {command: [/sample, exists, /log/up]}, periodSeconds: 1, failureThreshold: 1}
  readinessProbe: {exec: {command: [/sample, append, /log/asked, ready]}, periodSeconds: 1}`)
		eventually(t, "the startup probe has failed three times", func() error {
			if e := p.event("Unhealthy", "Startup probe failed"); e.GetCount() < 3 {
				return fmt.Errorf("%d times", e.GetCount())
			}
			return nil
		})
		if s := p.now(); s.of("main").Started == nil || *s.of("main").Started || s.of("main").Ready || s.of("main").RestartCount != 0 {
			t.Errorf("before the startup probe has succeeded main is %+v", s.of("main"))
		}
		p.wrote("asked")
		p.touch("up")
		p.touch("started")
		if s := p.awaitReady(); s.of("main").Started == nil || !*s.of("main").Started || s.of("main").RestartCount != 0 {
			t.Errorf("ready, with main %+v", s.of("main"))
		}
		p.untouch("up")
		p.awaitEvent("Killing", "Container main failed liveness probe, will be restarted")
	})
}

// A container whose startup probe fails is killed and restarted.
func TestStartupFails(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		p := b.run(t, `
containers:
- name: main
  args: [sleep]
  startupProbe: {exec: {command: [/sample, exists, /log/up]}, periodSeconds: 1, failureThreshold: 2}`)
		p.awaitEvent("Unhealthy", "Startup probe failed")
		p.awaitEvent("Killing", "Container main failed startup probe, will be restarted")
		p.awaitNow("main runs again", func(s *state) bool { return s.runs("main") && s.of("main").RestartCount > 0 })
		p.touch("up")
		p.awaitReady()
	})
}

// A probe can have its own grace period, for instance if the pod's is too long for a container that hangs.
func TestProbeGracePeriod(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		p := b.run(t, `
terminationGracePeriodSeconds: 55
containers:
- name: main
  args: [ignore-term]
  startupProbe: {exec: {command: [/sample, exists, /log/begun]}, periodSeconds: 1, failureThreshold: 100}
  livenessProbe: {exec: {command: [/sample, exists, /log/up]}, periodSeconds: 1, failureThreshold: 1, terminationGracePeriodSeconds: 1}`)
		killing := p.awaitEvent("Killing", "failed liveness probe").GetFirstTime().AsTime()
		s := p.await("main runs again", func(s *state) bool { return s.runs("main") && s.of("main").RestartCount == 1 })
		last := s.endedBefore("main")
		if last == nil || last.ExitCode != 137 || last.FinishedAt.Sub(killing) > slack {
			t.Errorf("main, killed at %v, ended with %+v; want 137, of SIGKILL, soon", killing, last)
		}
		// The pod's own grace period isn't waited for.
		p.remove()
		s = p.await("the pod is ending", func(s *state) bool { return s.worker == podexecv1.WorkerState_WORKER_STATE_TERMINATING })
		b.kill(t, s.of("main"))
	})
}

// visitor is an HTTP server that stores its requests by path.
type visitor struct {
	*httptest.Server
	mu       sync.Mutex
	requests map[string][]*http.Request
}

// newVisitor starts a visitor. It redirects /to/HOST to that host, and answers all other paths with 200.
func newVisitor(t *testing.T, start func(http.Handler) *httptest.Server) *visitor {
	v := &visitor{requests: map[string][]*http.Request{}}
	v.Server = start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		v.requests[r.URL.Path] = append(v.requests[r.URL.Path], r)
		v.mu.Unlock()
		if host, ok := strings.CutPrefix(r.URL.Path, "/to/"); ok {
			http.Redirect(w, r, "http://"+host+"/landed", http.StatusFound)
		}
	}))
	t.Cleanup(v.Close)
	return v
}

func (v *visitor) asked(path string) []*http.Request {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.requests[path]
}

func (v *visitor) port() int { return v.Listener.Addr().(*net.TCPAddr).Port }

// An HTTP probe sends what the manifest says, and follows redirects to the same host only. A redirect to another host
// causes a warning, and the probe succeeds.
func TestHTTPProbes(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		v := newVisitor(t, httptest.NewServer)
		secure := newVisitor(t, httptest.NewTLSServer)
		p := b.run(t, fmt.Sprintf(`
containers:
- name: headers
  args: [sleep]
  readinessProbe:
    httpGet:
      {host: 127.0.0.1, port: %[1]d, path: /headers, httpHeaders: [{name: X-Mine, value: yes-mine}, {name: Host, value: probed.example}]}
- name: redirect
  args: [sleep]
  readinessProbe: {httpGet: {host: 127.0.0.1, port: %[1]d, path: '/to/127.0.0.1:%[1]d'}}
- name: away
  args: [sleep]
  readinessProbe: {httpGet: {host: 127.0.0.1, port: %[1]d, path: /to/elsewhere.invalid}}
- name: secure
  args: [sleep]
  readinessProbe: {httpGet: {host: 127.0.0.1, port: %[2]d, path: /secure, scheme: HTTPS}}
`, v.port(), secure.port()))
		p.awaitReady()
		asked := v.asked("/headers")[0]
		if agent := asked.UserAgent(); !strings.HasPrefix(agent, "kube-probe/") || asked.Header.Get("Accept") != "*/*" ||
			asked.Header.Get("X-Mine") != "yes-mine" || asked.Host != "probed.example" {
			t.Errorf("the probe requests host %s with the headers %v", asked.Host, asked.Header)
		}
		if len(v.asked("/landed")) == 0 || len(secure.asked("/secure")) == 0 {
			t.Error("a redirect wasn't followed, or no request used TLS")
		}
		p.awaitEvent("ProbeWarning", "Readiness probe warning")
	})
}
