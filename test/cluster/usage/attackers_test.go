package usage

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

const (
	// crowd is the number of connections of one peer.
	crowd = 10_000
	// attackedMemory is the limit for podexecd's growth during all attacks: the connections of a listener, and
	// garbage that is not yet collected.
	attackedMemory = 48 << 20
	// refusalLines bounds the log: a few lines at once for each reason, then one every five seconds for each.
	refusalLines, refusalReasons = 10, 8
)

// Attempts of callers with no rights, or few, at a node's port are rejected, cost little, and delay no other
// caller.
func TestAttackers(t *testing.T) {
	n := newNode(t, "attacked")
	s := newSpace(t, n)
	s.applyPod(t, "box", sampleImage, sample("print", "hello"), "terminationGracePeriodSeconds: 1")
	s.awaitReady(t, "box")
	other := s.neighbour(t)
	a := &attackers{node: n, space: s, began: time.Now()}
	health := n.watchHealth(t)
	rig.Must(t, a.works(t))
	before := memory(t, n.Podexecd.Pid())

	t.Run("certificates", a.certificates)
	t.Run("tokens", a.tokens)
	t.Run("paths", a.paths)
	t.Run("namespaces", func(t *testing.T) { a.namespaces(t, other) })
	t.Run("sizes", a.sizes)
	t.Run("crowds", a.crowds)

	rig.Must(t, a.works(t))
	after := memory(t, n.Podexecd.Pid())
	lines, took := bytes.Count(rig.Get(os.ReadFile(n.Podexecd.LogPath))(t), []byte("the node's API refused")), time.Since(a.began)
	h := health()
	t.Logf("podexecd's memory was %d MiB before and %d MiB after, at most %d MiB", before.now>>20, after.now>>20, after.peak>>20)
	t.Logf("refusals are logged with %d lines in %.0f s", lines, took.Seconds())
	if after.peak > before.now+attackedMemory {
		t.Errorf("podexecd's memory grew by %d MiB; want %d at most", (after.peak-before.now)>>20, attackedMemory>>20)
	}
	if most := refusalReasons * (refusalLines + int(took.Seconds()/5)); lines > most {
		t.Errorf("refusals are logged with %d lines; want %d at most", lines, most)
	}
	for _, not := range h.unready {
		t.Errorf("the node wasn't ready: %s", not)
	}
}

// attackers have the address of a node, and of a pod on it.
type attackers struct {
	node  *node
	space *space
	began time.Time
}

// address is the address of the node's API, as the API server dials it. loopback is the same API for a peer of
// another address.
func (a *attackers) address() string { return net.JoinHostPort(here.IP, strconv.Itoa(a.node.Port)) }

func (a *attackers) loopback() string {
	return net.JoinHostPort(control.Loopback, strconv.Itoa(a.node.Port))
}

// exec returns the path that runs a program in the container.
func (a *attackers) exec() string {
	return "/exec/" + a.space.name + "/box/main?command=/sample&command=exit&command=0&output=1"
}

// certificates: no certificate, one of another authority and an expired one give no access.
func (a *attackers) certificates(t *testing.T) {
	const admin, group = "admin", "system:masters"
	dir := t.TempDir()
	foreign := rig.Get(control.NewAuthority(dir))(t)
	for _, c := range []struct {
		name        string
		certificate []byte
	}{
		{"no certificate", nil},
		{"another authority's certificate", rig.Get(foreign.Issue(admin, group, time.Now().Add(time.Hour)))(t)},
		{"an expired certificate", rig.Get(here.Plane.Authority.Issue(admin, group, time.Now().Add(-time.Minute)))(t)},
	} {
		for _, path := range []string{"/pods", "/metrics", "/configz", a.exec()} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				if status := a.ask(t, method, path, c.certificate); status != http.StatusUnauthorized {
					t.Errorf("with %s, %s %s is answered %d; want 401", c.name, method, path, status)
				}
			}
		}
	}
}

// tokens: a token without rights allows nothing, one for metrics allows metrics, and "get" of nodes/proxy
// allows reads but no exec.
func (a *attackers) tokens(t *testing.T) {
	none, metrics, reads := a.account(t, "none"), a.account(t, "metrics", "nodes/metrics"), a.account(t, "reads", "nodes/proxy")
	websocket := http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-WebSocket-Version": {"13"}, "Sec-WebSocket-Key": {"MDEyMzQ1Njc4OWFiY2RlZg=="},
		"Sec-WebSocket-Protocol": {"v5.channel.k8s.io"},
	}
	for _, c := range []struct {
		who, token, method, path string
		header                   http.Header
		want                     int
	}{
		{"an unknown token", "no-such-token", http.MethodGet, "/metrics", nil, http.StatusUnauthorized},
		{"none", none, http.MethodGet, "/metrics", nil, http.StatusForbidden},
		{"none", none, http.MethodGet, "/pods", nil, http.StatusForbidden},
		{"none", none, http.MethodPost, a.exec(), nil, http.StatusForbidden},
		{"metrics", metrics, http.MethodGet, "/metrics", nil, http.StatusOK},
		{"metrics", metrics, http.MethodGet, "/metrics/resource", nil, http.StatusOK},
		{"metrics", metrics, http.MethodGet, "/pods", nil, http.StatusForbidden},
		{"metrics", metrics, http.MethodGet, "/configz", nil, http.StatusForbidden},
		{"metrics", metrics, http.MethodGet, "/logs/", nil, http.StatusForbidden},
		{"metrics", metrics, http.MethodGet, "/containerLogs/" + a.space.name + "/box/main", nil, http.StatusForbidden},
		{"metrics", metrics, http.MethodPost, a.exec(), nil, http.StatusForbidden},
		{"metrics", metrics, http.MethodGet, a.exec(), websocket, http.StatusForbidden},
		{"reads", reads, http.MethodGet, "/pods", nil, http.StatusOK},
		{"reads", reads, http.MethodGet, "/containerLogs/" + a.space.name + "/box/main", nil, http.StatusOK},
		{"reads", reads, http.MethodPost, a.exec(), nil, http.StatusForbidden},
		{"reads", reads, http.MethodGet, a.exec(), websocket, http.StatusForbidden},
		{"reads", reads, http.MethodGet, strings.Replace(a.exec(), "/exec/", "/attach/", 1), websocket, http.StatusForbidden},
		{"reads", reads, http.MethodGet, "/portForward/" + a.space.name + "/box?ports=80", websocket, http.StatusForbidden},
		{"reads", reads, http.MethodPost, "/run/" + a.space.name + "/box/main?cmd=/sample", nil, http.StatusForbidden},
	} {
		status := rig.Get(a.request(c.method, c.path, nil, c.token, c.header))(t)
		if status != c.want {
			t.Errorf("with the rights of %q, %s %s %s is answered %d; want %d", c.who, c.method, c.path, c.header.Get("Upgrade"), status, c.want)
		}
	}
}

// paths: a path that could be read as another path gives no access to a caller that may not use that other
// path.
func (a *attackers) paths(t *testing.T) {
	token := a.account(t, "paths", "nodes/metrics")
	for _, path := range []string{
		"/metrics/../pods", "/metrics/..%2fpods", "/metrics%2f..%2fpods", "/metrics/%2e%2e/pods", "//pods", "/./pods", "/metrics/..;/pods", "/metrics\\..\\pods",
		"/metrics/%00/../pods", "/%70ods", "/metrics/../exec/" + a.space.name + "/box/main?command=/sample", "/stats/../pods", "/metrics/..", "/pods/",
		"/METRICS/../pods", "http://other/pods", "/metrics/%252e%252e/pods", "*",
	} {
		answer := a.raw(t, "GET "+path+" HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer "+token+"\r\nConnection: close\r\n\r\n")
		if status := statusOf(answer); status < 400 || status >= 500 || strings.Contains(answer, "PodList") {
			t.Errorf("GET %s is answered %.300q; want a refusal", path, answer)
		}
	}
}

// namespaces: a user that may exec in one namespace is rejected by the API server in another, and by the node
// everywhere.
func (a *attackers) namespaces(t *testing.T, other string) {
	token := a.account(t, "local")
	rbac := here.Client.RbacV1()
	rig.Get(rbac.Roles(other).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "local"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods", "pods/exec"}, Verbs: []string{"get", "create"}}},
	}, metav1.CreateOptions{}))(t)
	rig.Get(rbac.RoleBindings(other).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "local"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "local"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "local", Namespace: a.space.name}},
	}, metav1.CreateOptions{}))(t)
	client := rig.Get(kubernetes.NewForConfig(&rest.Config{
		Host: here.Plane.URL, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAFile: here.Plane.Authority.File},
	}))(t)
	err := client.CoreV1().RESTClient().Post().Namespace(a.space.name).Resource("pods").Name("box").SubResource("exec").Param("command", "/sample").
		Do(t.Context()).Error()
	if !apierrors.IsForbidden(err) {
		t.Errorf("exec in another namespace, through the API server: %v; want that it is forbidden", err)
	}
	for _, namespace := range []string{a.space.name, other} {
		path := strings.Replace(a.exec(), "/"+a.space.name+"/", "/"+namespace+"/", 1)
		if status := rig.Get(a.request(http.MethodPost, path, nil, token, nil))(t); status != http.StatusForbidden {
			t.Errorf("exec in namespace %s at the node itself is answered %d; want 403", namespace, status)
		}
	}
}

// sizes: requests that are too large or too slow are ended.
func (a *attackers) sizes(t *testing.T) {
	token := a.account(t, "sizes", "nodes/proxy")
	giant := "GET /metrics HTTP/1.1\r\nHost: node\r\nX-Giant: " + strings.Repeat("x", 1<<20) + "\r\n\r\n"
	if answer := a.raw(t, giant); answer != "" && statusOf(answer) != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 1 MiB is answered %.100q", answer)
	}
	many := "GET /metrics HTTP/1.1\r\nHost: node\r\n" + strings.Repeat("X-Many: x\r\n", 100_000) + "\r\n"
	if answer := a.raw(t, many); answer != "" && statusOf(answer) != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("100,000 headers are answered %.100q", answer)
	}
	var all sync.WaitGroup
	for what, text := range map[string]string{
		"header": "GET /metrics HTTP/1.1\r\nHost: ",
		"body":   "PUT /debug/flags/v HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer " + token + "\r\nContent-Length: 1000000\r\n\r\n",
	} {
		all.Go(func() {
			began := time.Now()
			conn, err := tls.Dial("tcp", a.loopback(), &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			answered := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, conn)
				answered <- err
			}()
			if _, err := io.WriteString(conn, text); err != nil {
				t.Error(err)
				return
			}
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					_, _ = io.WriteString(conn, "x") // until the server stops reading
				case <-answered:
					took := time.Since(began)
					t.Logf("a %s of a byte a second is ended after %.0f s", what, took.Seconds())
					if took < 5*time.Second {
						t.Errorf("it was refused for something else")
					}
					return
				case <-time.After(control.Bound):
					t.Errorf("a %s of a byte a second isn't ended in %v", what, control.Bound)
					return
				}
			}
		})
	}
	all.Wait()
}

// works returns nil if the API server's own requests succeed.
func (a *attackers) works(t *testing.T) error {
	t.Helper()
	if said, err := a.space.try(t.Context(), "", "logs", "box"); said != "hello\n" {
		return fmt.Errorf("kubectl logs says %q: %w", said, err)
	}
	if _, err := a.space.try(t.Context(), "", "exec", "box", "--", "/sample", "exit", "7"); exitCode(err) != 7 {
		return fmt.Errorf("kubectl exec of exit 7: %w", err)
	}
	return nil
}
