package usage

import (
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"
	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/test/rig"
)

// idle is a container that sleeps.
var idle = sample("sleep")

// protocols are kubectl's streaming protocols. The first one is its default.
var protocols = []struct{ name, websockets string }{{"websocket", "true"}, {"spdy", "false"}}

// kubectl exec runs a program with its streams and its exit code, also on a terminal, with each protocol.
func TestKubectlExec(t *testing.T) {
	s := newSpace(t)
	s.applyPod(t, "box", toolsImage, idle, "terminationGracePeriodSeconds: 1")
	s.awaitReady(t, "box")
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			t.Setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", p.websockets)
			if got := s.kubectl(t, "exec", "box", "--", "sh", "-c", "echo out; echo err >&2"); got != "out\n" {
				t.Errorf("its output is %q; want only the standard output", got)
			}
			if _, err := s.try(t.Context(), "", "exec", "box", "--", "/sample", "exit", "7"); exitCode(err) != 7 {
				t.Errorf("exit code 7 is reported as %v", err)
			}
			if _, err := s.try(t.Context(), "", "exec", "box", "--", "/no/such/program"); err == nil {
				t.Error("a program that isn't there runs")
			}
			input := noise(1 << 20)
			if got := rig.Get(s.try(t.Context(), input, "exec", "-i", "box", "--", "/sample", "stdin"))(t); got != input {
				t.Errorf("%d bytes were sent and %d came back, or different ones", len(input), len(got))
			}
			terminal := s.beginTerminal(t, 120, 33, "exec", "-it", "box", "--", "sh")
			terminal.say(t, "/sample tty 120x33\n") // which waits until it is that: sizes come beside what is typed
			terminal.expect(t, "terminal 120x33")
			rig.Must(t, pty.Setsize(terminal.in.(*os.File), &pty.Winsize{Cols: 90, Rows: 20}))
			terminal.say(t, "/sample tty 90x20\n")
			terminal.expect(t, "terminal 90x20")
			terminal.say(t, "echo $((6*7)) is it; exit 5\n")
			terminal.expect(t, "42 is it")
			if err := terminal.wait(t); exitCode(err) != 5 {
				t.Errorf("the shell's exit 5 comes as %v: %q", err, terminal.text())
			}
		})
	}
}

// noise returns text that doesn't repeat.
func noise(size int) string {
	text := make([]byte, size)
	for i := range text {
		text[i] = byte(' ' + rand.IntN(95))
	}
	return string(text)
}

// kubectl attach connects to the streams of the container itself, and kubectl run -it ends with its program.
func TestKubectlAttach(t *testing.T) {
	s := newSpace(t)
	s.applyPod(t, "echo", sampleImage, sample("stdin")+", stdin: true, stdinOnce: true", "restartPolicy: Never")
	s.awaitReady(t, "echo")
	attached := s.begin(t, "attach", "-i", "echo")
	attached.say(t, "hello container\n")
	attached.expect(t, "hello container\n")
	rig.Must(t, attached.in.Close())
	if err := attached.wait(t); err != nil {
		t.Errorf("kubectl attach ends with its input: %v, %q", err, attached.text())
	}
	s.awaitPod(t, "echo", "has succeeded, as its input has ended", func(pod *corev1.Pod) error {
		return when(pod.Status.Phase == corev1.PodSucceeded)
	})
	terminal := s.beginTerminal(t, 100, 30, "run", "try", "-it", "--rm", "--restart=Never", "--image="+toolsImage, "--command", "--", "sh")
	terminal.say(t, "echo $((6*7)) is it\n")
	terminal.expect(t, "42 is it")
	terminal.say(t, "exit\n")
	if err := terminal.wait(t); err != nil || !strings.Contains(terminal.text(), `pod "try" deleted`) {
		t.Errorf("kubectl run -it --rm ends with %v: %q", err, terminal.text())
	}
}

// kubectl cp copies files in both directions.
func TestKubectlCp(t *testing.T) {
	s := newSpace(t)
	s.applyPod(t, "box", toolsImage, idle, "terminationGracePeriodSeconds: 1")
	s.awaitReady(t, "box")
	dir := t.TempDir()
	large := noise(5 << 20)
	rig.Must(t, os.MkdirAll(filepath.Join(dir, "there", "sub"), 0o755))
	rig.Must(t, os.WriteFile(filepath.Join(dir, "there", "large"), []byte(large), 0o644))
	rig.Must(t, os.WriteFile(filepath.Join(dir, "there", "sub", "program"), []byte("#!/bin/sh\necho it runs\n"), 0o755))
	s.kubectl(t, "cp", filepath.Join(dir, "there"), "box:/tmp/copied")
	if got := s.kubectl(t, "exec", "box", "--", "/tmp/copied/sub/program"); got != "it runs\n" {
		t.Errorf("the program that was copied prints %q", got)
	}
	s.kubectl(t, "cp", "box:/tmp/copied", filepath.Join(dir, "back"))
	if got := rig.Get(os.ReadFile(filepath.Join(dir, "back", "large")))(t); string(got) != large {
		t.Errorf("%d bytes were copied and %d came back, or different ones", len(large), len(got))
	}
}

// kubectl port-forward forwards many connections at a time, to a pod and to the pod of a Service.
func TestKubectlPortForward(t *testing.T) {
	s := newSpace(t)
	s.applyPod(t, "web", sampleImage, sample("serve", ":8080")+", readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}", "terminationGracePeriodSeconds: 1")
	s.apply(t, `{apiVersion: v1, kind: Service, metadata: {name: front}, spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}`)
	s.awaitReady(t, "web")
	for _, p := range protocols {
		for _, target := range []string{"pod/web :8080", "service/front :80"} {
			t.Run(p.name+" "+target, func(t *testing.T) {
				t.Setenv("KUBECTL_PORT_FORWARD_WEBSOCKETS", p.websockets)
				forward := s.begin(t, append([]string{"port-forward"}, strings.Fields(target)...)...)
				said := forward.expect(t, "Forwarding from 127.0.0.1")
				port := regexp.MustCompile(`127\.0\.0\.1:(\d+)`).FindStringSubmatch(said)
				if port == nil {
					t.Fatalf("kubectl port-forward said %q", said)
				}
				client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
				var all sync.WaitGroup
				for range 20 {
					all.Go(func() {
						resp, err := client.Get("http://127.0.0.1:" + port[1])
						if err != nil {
							t.Error(err)
							return
						}
						defer resp.Body.Close()
						if body, err := io.ReadAll(resp.Body); string(body) != "hello\n" || err != nil {
							t.Errorf("the answer is %q, %v", body, err)
						}
					})
				}
				all.Wait()
			})
		}
	}
}

// kubectl debug adds a container to a running pod, which sees the processes of the target container; and
// creates a pod on the node.
func TestKubectlDebug(t *testing.T) {
	s := newSpace(t)
	s.applyPod(t, "bare", sampleImage, idle, "terminationGracePeriodSeconds: 1")
	before := s.awaitReady(t, "bare")
	terminal := s.beginTerminal(t, 100, 30, "debug", "-it", "bare", "--image="+toolsImage, "--target=main", "--container=debugger", "--profile=general", "--", "sh")
	terminal.say(t, "cat /proc/1/cmdline; echo; echo $((6*7)) is it\n")
	if said := terminal.expect(t, "42 is it"); !strings.Contains(said, "/sample") {
		t.Errorf("process 1 of the target isn't seen: %q", said)
	}
	terminal.say(t, "exit 4\n")
	_ = terminal.wait(t) // kubectl's exit code differs
	pod := s.awaitPod(t, "bare", "has an ephemeral container that ended", func(pod *corev1.Pod) error {
		return when(len(pod.Status.EphemeralContainerStatuses) == 1 && pod.Status.EphemeralContainerStatuses[0].State.Terminated != nil)
	})
	if ended := pod.Status.EphemeralContainerStatuses[0].State.Terminated; ended.ExitCode != 4 {
		t.Errorf("the debugger ended with %+v; want code 4", ended)
	}
	if main := pod.Status.ContainerStatuses[0]; main.ContainerID != before.Status.ContainerStatuses[0].ContainerID || !isReady(pod) {
		t.Errorf("the container that was debugged is %+v", main)
	}
	if got := s.kubectl(t, "logs", "bare", "-c", "debugger"); !strings.Contains(got, "42 is it") {
		t.Errorf("the debugger's log is %q", got)
	}

	said := s.kubectl(t, "debug", "node/"+s.node.Name, "--image="+toolsImage, "--profile=general", "--", "sh", "-c", "cat /host/proc/sys/kernel/ostype")
	name := regexp.MustCompile(`node-debugger-\S+`).FindString(said)
	if name == "" {
		t.Fatalf("kubectl debug node said %q", said)
	}
	s.awaitPod(t, name, "has succeeded", func(pod *corev1.Pod) error { return when(pod.Status.Phase == corev1.PodSucceeded) })
	if got := s.kubectl(t, "logs", name); got != "Linux\n" {
		t.Errorf("the node's own file has %q", got)
	}
}
