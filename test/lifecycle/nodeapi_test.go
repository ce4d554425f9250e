package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/porttest"
	"github.com/podstream/podstream/test/devnode"
)

// nodeAPI is a bench whose podexecd serves the kubelet API, and an authorized client.
type nodeAPI struct {
	*bench
	t      *testing.T
	port   int
	client *restclient.Config
}

// newNodeAPI starts a bench with the kubelet API; flags are podexecd's.
func newNodeAPI(t *testing.T, kind devnode.Runtime, flags ...string) *nodeAPI {
	t.Helper()
	port := porttest.Reserve(t)
	ca, file := certtest.NewCA(t, "clients"), filepath.Join(t.TempDir(), "ca.pem")
	certtest.WriteFile(t, file, ca.PEM)
	certificate, key := ca.Issue(certtest.Request{CommonName: "kube-apiserver-kubelet-client"})
	flags = append(flags, "--address=127.0.0.1", fmt.Sprintf("--port=%d", port), "--authorization-mode=AlwaysAllow", "--client-ca-file="+file)
	return &nodeAPI{
		bench: ownBench(t, kind, flags...),
		t:     t, port: port,
		client: &restclient.Config{
			Host:            fmt.Sprintf("https://127.0.0.1:%d", port),
			TLSClientConfig: restclient.TLSClientConfig{Insecure: true, CertData: certificate, KeyData: key},
		},
	}
}

// onEachNodeAPI runs the test on those runtimes, each with a separate node; flags are podexecd's.
func onEachNodeAPI(t *testing.T, runtimes []namedRuntime, flags []string, test func(t *testing.T, n *nodeAPI)) {
	t.Parallel()
	for _, r := range runtimes {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			test(t, newNodeAPI(t, r.kind, flags...))
		})
	}
}

// url returns the URL of a path. pairs are the names and values of its query.
func (n *nodeAPI) url(path string, pairs ...string) *url.URL {
	query := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		query.Add(pairs[i], pairs[i+1])
	}
	u, err := url.Parse(n.client.Host + path)
	check(n.t, err)
	u.RawQuery = query.Encode()
	return u
}

// of returns the path of a pod's resource, for instance exec.
func (n *nodeAPI) of(resource string, p *pod, more ...string) string {
	return strings.Join(append([]string{"", resource, "default", p.name + "-" + n.Name}, more...), "/")
}

// get returns the status code and the body.
func (n *nodeAPI) get(u *url.URL) (int, string) {
	n.t.Helper()
	client, err := restclient.HTTPClientFor(n.client)
	check(n.t, err)
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	check(n.t, err)
	response, err := client.Do(request)
	check(n.t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	check(n.t, err)
	return response.StatusCode, string(text)
}

// protocols are the streaming protocols of kubectl and the API server.
var protocols = map[string]func(n *nodeAPI, u *url.URL) (remotecommand.Executor, error){
	"spdy": func(n *nodeAPI, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewSPDYExecutor(n.client, "POST", u)
	},
	"websocket": func(n *nodeAPI, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewWebSocketExecutor(n.client, "GET", u.String())
	},
	"websocket v4": func(n *nodeAPI, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewWebSocketExecutorForProtocols(n.client, "GET", u.String(), "v4.channel.k8s.io")
	},
}

// stream runs a request with streams to its end, and returns the exit code.
func (n *nodeAPI) stream(protocol string, u *url.URL, options remotecommand.StreamOptions) (int, error) {
	n.t.Helper()
	executor, err := protocols[protocol](n, u)
	check(n.t, err)
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	err = executor.StreamWithContext(ctx, options)
	if exit, ok := errors.AsType[utilexec.CodeExitError](err); ok {
		return exit.Code, nil
	}
	return 0, err
}

// command returns the query for a command of the sample program.
func command(streams string, args ...string) []string {
	pairs := []string{"command", "/sample"}
	for _, a := range args {
		pairs = append(pairs, "command", a)
	}
	for name := range strings.FieldsSeq(streams) {
		pairs = append(pairs, name, "1")
	}
	return pairs
}

// The requests of the API server, of a monitoring agent, and of a user with a certificate, to a standalone node.
func TestNodeAPIAnswers(t *testing.T) {
	onEachNodeAPI(t, all, nil, func(t *testing.T, n *nodeAPI) {
		p := n.run(t, `containers: [{name: main, args: [sleep], readinessProbe: {exec: {command: [/sample, exit, "0"]}}}]`)
		p.awaitReady()
		for path, want := range map[string]string{
			"/healthz": "ok", "/healthz/syncloop": "ok", "/configz": `"authorization":{"mode":"AlwaysAllow"`, "/metrics": "kubelet_http_requests_total",
			"/runningpods/": p.name,
		} {
			if status, text := n.get(n.url(path)); status != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("%s: %d, without %q:\n%s", path, status, want, text)
			}
		}
		n.wantMetrics(t)
		var pods v1.PodList
		_, text := n.get(n.url("/pods"))
		check(t, json.Unmarshal([]byte(text), &pods))
		if len(pods.Items) != 1 || pods.Items[0].Name != p.name+"-"+n.Name || pods.Items[0].Status.Phase != v1.PodRunning {
			t.Errorf("/pods: %s", text)
		}
		n.client.CertData, n.client.KeyData = nil, nil
		for _, path := range []string{"/healthz", "/pods", n.of("containerLogs", p, "main"), "/nonsense"} {
			if status, _ := n.get(n.url(path)); status != http.StatusUnauthorized {
				t.Errorf("%s without a certificate: %d", path, status)
			}
		}
	})
}

// A followed log ends with its container, and is complete.
func TestNodeAPILogs(t *testing.T) {
	onEachNodeAPI(t, all, nil, func(t *testing.T, n *nodeAPI) {
		p := n.run(t, `
restartPolicy: Never
containers: [{name: main, args: [seq, append, /log/1, first, ;, cat, /log/1, ;, sleep, "10", ;, append, /log/2, grüße, ;, cat, /log/2, ;, exit, "1"]}]`)
		p.awaitReady()
		status, text := n.get(n.url(n.of("containerLogs", p, "main"), "follow", "true"))
		if status != http.StatusOK || text != "first\ngrüße\n" {
			t.Errorf("followed: %d %q", status, text)
		}
		p.awaitPhase(v1.PodFailed)
		for query, want := range map[string]string{
			"": "first\ngrüße\n", "tailLines=1": "grüße\n", "limitBytes=5": "first", "stream=Stderr": "", "tailLines=0&follow=true": "",
		} {
			u := n.url(n.of("containerLogs", p, "main"))
			u.RawQuery = query
			if status, text := n.get(u); status != http.StatusOK || text != want {
				t.Errorf("?%s: %d %q; want %q", query, status, text, want)
			}
		}
		if status, text := n.get(n.url(n.of("containerLogs", p, "main"), "timestamps", "1", "tailLines", "1")); status != http.StatusOK {
			t.Errorf("with times: %d %q", status, text)
		} else if at, line, _ := strings.Cut(text, " "); line != "grüße\n" {
			t.Errorf("with times: %q", text)
		} else if _, err := time.Parse(time.RFC3339Nano, at); err != nil {
			t.Errorf("with times: %v", err)
		}
	})
}

// Streams end when podexecd ends. podexecd doesn't wait for them.
func TestNodeAPIEndsWithPodexecd(t *testing.T) {
	onEachNodeAPI(t, latestContainerd, nil, func(t *testing.T, n *nodeAPI) {
		p := n.run(t, `containers: [{name: main, args: [sleep]}]`)
		p.awaitReady()
		begun, ended := make(chan struct{}, 8), make(chan error, 8)
		stdin, typed := io.Pipe()
		defer func() { _ = typed.Close() }()
		for protocol := range protocols {
			go func() {
				_, err := n.stream(protocol, n.url(n.of("exec", p, "main"), command("input output", "print", "x")...),
					remotecommand.StreamOptions{Stdin: stdin, Stdout: writerFunc(func(b []byte) (int, error) { begun <- struct{}{}; return len(b), nil })})
				ended <- err
			}()
			select {
			case <-begun:
			case err := <-ended:
				t.Fatalf("%s: %v", protocol, err)
			}
		}
		began := time.Now()
		n.restartPodexecd(t, (*devnode.Process).Stop)
		for range protocols {
			<-ended
		}
		if took := time.Since(began); took > slack {
			t.Errorf("it took %v", took)
		}
	})
}

// writerFunc is a function as an io.Writer.
type writerFunc func(p []byte) (int, error)

// Write implements io.Writer.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
