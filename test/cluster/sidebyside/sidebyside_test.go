package sidebyside

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// sides are the two users and what has become of the rows.
type sides struct {
	t           *testing.T
	servers     *servers
	there, here *user
	// ran counts the commands that were run, by program. explained counts the differences with a reason.
	ran       map[string]int
	explained int
	unrun     []string
	seen      map[string]bool
}

// TestSideBySide runs the commands of both columns of the table in docs/podctl.md, and compares their answers.
func TestSideBySide(t *testing.T) {
	tasks := rig.Get(podctltest.Documented("docs/podctl.md"))(t)
	s := &sides{t: t, servers: startServers(t), ran: map[string]int{}, seen: map[string]bool{}}
	podman := startPodman(t, strings.TrimPrefix(s.servers.hub.URL, "http://"))
	s.there, s.here = newUser(t, s.servers, podman, "there"), newUser(t, s.servers, podman, "here")
	s.there.makeContexts()
	t.Cleanup(s.removePods)
	s.makePods()
	s.makePodmanPods()

	for _, task := range tasks {
		for _, other := range task.Others {
			for _, problem := range s.compare(other, task.Commands[0]) {
				t.Error(problem)
			}
		}
	}
	for _, rows := range []map[string]row{kubectlRows, crictlRows, podmanRows} {
		for line := range rows {
			if !s.seen[line] {
				t.Errorf("docs/podctl.md has no command %q", line)
			}
		}
	}
	for program, want := range map[string]int{"kubectl": 40, "crictl": 10, "podman": 20} {
		if s.ran[program] < want {
			t.Errorf("%d commands of %s were run; want %d", s.ran[program], program, want)
		}
	}
	t.Logf("not run:\n%s", strings.Join(s.unrun, "\n"))
	t.Logf("%d rows: kubectl %d run, crictl %d run, podman %d run, %d differences explained", len(tasks),
		s.ran["kubectl"], s.ran["crictl"], s.ran["podman"], s.explained)
	s.findsPlanted()
}

// findsPlanted checks that a difference is found: podman's container gets another program.
func (s *sides) findsPlanted() {
	s.t.Helper()
	s.there.must("podman", "exec", "web-app", "sh", "-c", `printf '#!/bin/sh\necho tomorrow\n' > /bin/date`)
	problems := s.compare([]string{"podman", "exec", "CONTAINER", "date"}, []string{"exec", "web", "-c", "app", "--", "date"})
	if len(problems) != 1 || !strings.Contains(problems[0], "tomorrow") {
		s.t.Errorf("the planted difference is reported as %q", problems)
	}
}

// makePods creates the pods that the commands name, and brings about what they show: a container that was restarted, and
// a warning.
func (s *sides) makePods() {
	s.t.Helper()
	for _, name := range []string{"shop", "there", "here"} {
		s.there.must("kubectl", "create", "namespace", name)
	}
	s.there.write("start/settings.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: shop}\ndata: {a: b}\n")
	s.there.must("kubectl", "apply", "-f", "start/settings.yaml")
	for name, manifest := range map[string]string{
		"web": webPod("default"), "db": pod("default", "db", "main", "sleep", ""),
		"bad":  pod("default", "bad", "main", "sleep", `readinessProbe: {exec: {command: [/sample, exit, "1"]}, periodSeconds: 1}`),
		"cart": pod("shop", "cart", "cart", "sleep", "envFrom: [{configMapRef: {name: settings}}]"),
	} {
		s.there.write("start/"+name+".yaml", manifest)
		s.there.must("kubectl", "apply", "-f", "start/"+name+".yaml")
	}
	s.there.must("kubectl", "wait", "--for=condition=Ready", "pod/web", "pod/db", "--timeout=120s")
	s.there.must("kubectl", "wait", "--for=condition=Ready", "pod/cart", "-n", "shop", "--timeout=120s")
	s.here.await("pod/web", "podctl", "restart", "web", "--wait")
	// Containers' state reaches the API server a moment later.
	s.there.await("1true1true", "kubectl", "get", "pod", "web", "-o", "jsonpath={range .status.containerStatuses[*]}{.restartCount}{.ready}{end}")
	s.there.await("Unhealthy", "kubectl", "events", "--for", "pod/bad")
	s.here.await("Unhealthy", "podctl", "events", "bad")
}

// removePods removes all pods: the machine ends only without them.
func (s *sides) removePods() {
	s.here.run(manner{}, "podctl", "delete", "--ignore-not-found", "-f", "web.yaml,shop/")
	for _, namespace := range []string{"default", "shop", "there", "here"} {
		s.there.run(manner{}, "kubectl", "delete", "pods", "--all", "-n", namespace, "--timeout=60s")
	}
}

// compare runs the command of another program and podctl's, and returns how their answers differ.
func (s *sides) compare(other, podctl []string) (problems []string) {
	s.t.Helper()
	line := strings.Join(other, " ")
	r, ok := map[string]map[string]row{"kubectl": kubectlRows, "crictl": crictlRows, "podman": podmanRows}[other[0]][line]
	s.seen[line] = true
	if !ok {
		return []string{line + " has no entry in rows_test.go or podmanrows_test.go"}
	}
	if r.unrun != "" {
		s.unrun = append(s.unrun, line+": "+r.unrun)
		return nil
	}
	podctl = append([]string{"podctl"}, podctl...)
	if r.before != nil {
		r.before(s)
	}
	there := func() answer { return s.run(s.there, r, append(slices.Clone(other), r.there...)) }
	here := func() answer { return s.run(s.here, r, append(podctl, r.here...)) }
	var a, b answer
	switch {
	case r.hereFirst:
		b = here()
		a = there()
	case r.lags:
		// The last answers are compared below.
		_ = rig.Poll(control.Bound, func() error {
			a, b = there(), here()
			if difference := r.compare(a, b); difference != "" {
				return errors.New(difference)
			}
			return nil
		})
	default:
		a = there()
		b = here()
	}
	s.ran[other[0]]++
	fail := func(what string) {
		problems = append(problems, fmt.Sprintf("%s, podctl %s: %s\nthere:\n%s%s\nhere:\n%s%s", line, strings.Join(podctl[1:], " "), what, a.stdout, a.stderr, b.stdout, b.stderr))
	}
	want := r.codes
	if want == nil {
		want = []int{a.code, a.code}
	}
	if !r.anyCode && !slices.Equal(want, []int{a.code, b.code}) {
		fail(differ("exit code", a.code, b.code))
	}
	if difference := r.compare(a, b); difference != "" {
		fail(difference)
	}
	if r.differs != "" {
		s.explained++
		if sameText(a, b) == "" {
			fail("the answers don't differ any more, in spite of: " + r.differs)
		}
	}
	if a.after != b.after {
		fail(differ("afterwards", a.after, b.after))
	}
	return problems
}

// run runs a row's command, and looks at what it has done.
func (s *sides) run(u *user, r row, words []string) answer {
	s.t.Helper()
	a := u.run(r.how, s.runnable(u, words)...)
	if r.after != nil {
		a.after = r.after(u)
	}
	return a
}

// runnable returns the words with this machine's servers, free ports and the IDs of the pod web.
func (s *sides) runnable(u *user, words []string) []string {
	words = slices.Clone(words)
	for i, word := range words {
		switch {
		case word == "docker.io/library/nginx:1.27", word == "IMAGE":
			words[i] = s.servers.image()
		case strings.HasPrefix(word, "https://example.com/"):
			words[i] = strings.Replace(word, "https://example.com", s.servers.web.URL+"/"+u.namespace, 1)
		case word == "8080:80":
			words[i] = ":80"
		// crictl refuses -t without a terminal, and podman gives the process one that repeats the input. The others go on without one.
		case word == "-it" && (words[0] == "crictl" || words[0] == "podman"):
			words[i] = "-i"
		case word == "ID" && (words[1] == "ps" || words[1] == "port-forward"):
			words[i] = strings.TrimSpace(u.must("crictl", "pods", "-q", "--state=Ready", "--name=^web$", "--namespace=default"))
		case strings.Contains(word, "CONTAINER"):
			words[i] = strings.Replace(word, "CONTAINER", "web-app", 1)
		case word == "ID":
			words[i] = strings.TrimSpace(u.must("crictl", "ps", "-q", "--name=^app$"))
		}
	}
	return words
}

// read returns the content of a file, or of the error.
func (u *user) read(name string) string {
	content, err := os.ReadFile(u.path(name))
	if err != nil {
		u.t.Error(err)
	}
	return string(content)
}

// appliedWeb applies web.yaml.
func appliedWeb(s *sides) {
	s.there.must("kubectl", "apply", "-f", "web.yaml")
	s.here.must("podctl", "apply", "-f", "web.yaml")
}

// appliedShop applies the directory shop, and then removes a file from it.
func appliedShop(s *sides) {
	s.there.must("kubectl", "apply", "-f", "shop/")
	s.here.must("podctl", "apply", "--set", "shop", "-f", "shop/")
	for _, u := range []*user{s.there, s.here} {
		rig.Must(s.t, os.Remove(u.path("shop/old.yaml")))
	}
}

// copied reports whether the user's directory is in the container.
func copied(u *user) string {
	content := u.must("podctl", "exec", "web", "-c", "app", "--", "cat", "/srv/data/file")
	return fmt.Sprintf("copied: %t", content == "copied from "+u.namespace+"\n")
}

// deleted waits until the user's pod is gone.
func deleted(u *user) string {
	u.must("podctl", "wait", "--for=delete", "web", "-n", u.namespace, "--timeout=60s")
	return "deleted"
}

// edited reports whether the pod has the label that the editor writes. podctl lists an applied pod's mirror pod too, once it exists.
func edited(u *user) string {
	labels := u.must("podctl", "get", "pods", "-n", u.namespace, "-l", "app=edited", "-o", "jsonpath={.items[*].metadata.labels.app}")
	return fmt.Sprintf("edited: %t", strings.Contains(labels, "edited"))
}

var forwardedFrom = regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+)`)

// forwarded asks for a page through the port that is forwarded.
var forwarded = manner{until: "Forwarding from 127.0.0.1:", during: func(output string) (string, error) {
	address := forwardedFrom.FindStringSubmatch(output)
	if address == nil {
		return "", errors.New("no address in " + output)
	}
	resp, err := http.Get("http://" + address[1] + "/page")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.Status + " " + string(body), err
}}
