package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"k8s.io/apimachinery/pkg/util/version"
)

// Etcd is the server's store: one member, on loopback.
type Etcd struct {
	// Version is the version that etcd reports.
	Version *version.Version

	process *Process
	// dir and program are as of startEtcd.
	dir, program string
	url, peerURL string
	http         http.Client
}

func startEtcd(ctx context.Context, dir, program string) (*Etcd, error) {
	ports, err := FreePorts(2)
	if err != nil {
		return nil, err
	}
	url := func(port int) string { return "http://" + net.JoinHostPort(Loopback, strconv.Itoa(port)) }
	e := &Etcd{dir: dir, program: program, url: url(ports[0]), peerURL: url(ports[1]), http: http.Client{Transport: &http.Transport{}}}
	if err := e.start(ctx, FirstStore); err != nil {
		return nil, err
	}
	return e, nil
}

// FirstStore is the name of the store that etcd begins with.
const FirstStore = "etcd"

// Replace ends etcd, and starts it at the same addresses with the store of that name, which is empty at first.
func (e *Etcd) Replace(ctx context.Context, store string) error {
	e.stop()
	return e.start(ctx, store)
}

// Save copies the store to one of that name, which is a snapshot for Replace. etcd restarts meanwhile.
func (e *Etcd) Save(ctx context.Context, store string) error {
	e.stop()
	if err := os.CopyFS(filepath.Join(e.dir, store), os.DirFS(filepath.Join(e.dir, FirstStore))); err != nil {
		return fmt.Errorf("copy etcd's store: %w", err)
	}
	return e.start(ctx, FirstStore)
}

func (e *Etcd) start(ctx context.Context, store string) (err error) {
	e.process, err = StartProcess("etcd", filepath.Join(e.dir, "etcd.log"), e.program, "--name=test",
		"--data-dir="+filepath.Join(e.dir, store),
		"--listen-client-urls="+e.url, "--advertise-client-urls="+e.url,
		"--listen-peer-urls="+e.peerURL, "--initial-advertise-peer-urls="+e.peerURL, "--initial-cluster=test="+e.peerURL,
		"--logger=zap", "--log-level=warn")
	if err != nil {
		return err
	}
	if err := Until(ctx, e.process, "etcd serves", func(ctx context.Context) error {
		var answer struct {
			Server string `json:"etcdserver"`
		}
		err := e.call(ctx, http.MethodGet, "/version", nil, &answer)
		if err != nil {
			return err
		}
		e.Version, err = version.ParseSemantic(answer.Server)
		return err
	}); err != nil {
		e.stop()
		return err
	}
	return nil
}

// stop ends etcd. Its exit status is ignored: etcd kills itself with the SIGTERM that it receives.
func (e *Etcd) stop() {
	_ = e.process.Stop()
	e.http.CloseIdleConnections()
}

// ReportsProgress reports whether the API server trusts this etcd to report the progress of a watch. Without it,
// the server doesn't serve WatchList.
func (e *Etcd) ReportsProgress() bool {
	first := "3.5.13"
	if e.Version.LessThan(version.MustParseSemantic("3.5.0")) {
		first = "3.4.31"
	}
	return e.Version.AtLeast(version.MustParseSemantic(first))
}

// revision returns the store's revision: in Kubernetes, the resource version of the newest change.
func (e *Etcd) revision(ctx context.Context) (int64, error) {
	var answer struct {
		Header struct {
			Revision int64 `json:"revision,string"`
		} `json:"header"`
	}
	err := e.call(ctx, http.MethodPost, "/v3/kv/range", map[string]any{"key": "AA=="}, &answer)
	return answer.Header.Revision, err
}

// Compact removes all versions before the current one, so that no watch can start from an older one.
func (e *Etcd) Compact(ctx context.Context) error {
	revision, err := e.revision(ctx)
	if err != nil {
		return err
	}
	return e.call(ctx, http.MethodPost, "/v3/kv/compaction", map[string]any{"revision": revision, "physical": true}, &struct{}{})
}

// call uses the JSON form of etcd's API, which needs no client library.
func (e *Etcd) call(ctx context.Context, method, path string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, e.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := e.http.Do(req)
	if err != nil {
		return fmt.Errorf("etcd %s: %w", path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("etcd %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd %s: %s: %s", path, resp.Status, text)
	}
	return json.Unmarshal(text, answer)
}

// FreePorts returns ports that no process listens on now.
func FreePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", net.JoinHostPort(Loopback, "0"))
		if err != nil {
			return nil, err
		}
		defer l.Close() // the listeners stay open until all are found, so that the ports differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
