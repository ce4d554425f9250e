package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// auditPolicy has the server write down what podconfigd asks of it.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:nodes", "` + fleetGroup + `"]
  resources:
  - resources: [pods, configmaps, secrets]
- level: None
`

// control is the control plane: an etcd that runs throughout, and a server that comes and goes.
type control struct {
	dir, program string
	etcd         *etcd
	authority    *authority
	// admin is a certificate of one who may do everything.
	admin []byte
	// url is the server's address: the one that podconfigd knows.
	url  string
	port int
	// server is the one at url, or nil while it is away.
	server *apiServer
}

// apiServer is a running kube-apiserver, and an administrator's client of it.
type apiServer struct {
	process   *process
	client    kubernetes.Interface
	closeIdle func()
}

// startControl starts everything in the directory. make test-cluster provides the programs.
func startControl(ctx context.Context, dir, etcdProgram, serverProgram string) (_ *control, err error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	c := &control{dir: dir, program: serverProgram, port: ports[0], url: serverURL(ports[0])}
	if c.authority, err = newAuthority(dir); err != nil {
		return nil, err
	}
	if c.admin, err = c.authority.issue("admin", "system:masters", time.Now().Add(certificateLife)); err != nil {
		return nil, err
	}
	serving, err := c.authority.issue("kube-apiserver", "servers", time.Now().Add(certificateLife))
	if err != nil {
		return nil, err
	}
	err = errors.Join(newKeyPair(c.path("tokens.key"), c.path("tokens.pub")),
		os.WriteFile(c.path("serving.pem"), serving, 0o600), os.WriteFile(c.path("audit.yaml"), []byte(auditPolicy), 0o600))
	if err != nil {
		return nil, err
	}
	if c.etcd, err = startEtcd(ctx, dir, etcdProgram); err != nil {
		return nil, err
	}
	if c.server, err = c.start(ctx, c.port); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *control) path(name string) string { return filepath.Join(c.dir, name) }

func serverURL(port int) string { return "https://" + net.JoinHostPort(loopback, strconv.Itoa(port)) }

// close ends what runs.
func (c *control) close() {
	if c.server != nil {
		c.server.kill()
	}
	c.etcd.stop()
}

// start starts a server and waits until it is ready.
func (c *control) start(ctx context.Context, port int) (*apiServer, error) {
	name := fmt.Sprintf("kube-apiserver-%d", port)
	p, err := startProcess(name, c.path(name+".log"), c.program,
		"--etcd-servers="+c.etcd.url, "--etcd-compaction-interval=0", // it is the tests that compact
		"--bind-address="+loopback, "--advertise-address="+loopback, fmt.Sprintf("--secure-port=%d", port), "--endpoint-reconciler-type=none",
		"--shutdown-watch-termination-grace-period=5s", // else open watches hold a server up for a minute
		"--cert-dir="+c.path("certs"), "--tls-cert-file="+c.path("serving.pem"), "--tls-private-key-file="+c.path("serving.pem"),
		"--client-ca-file="+c.authority.file,
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+c.path("tokens.pub"),
		"--service-account-signing-key-file="+c.path("tokens.key"), "--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--disable-admission-plugins=ServiceAccount", // nobody makes the accounts that it asks for
		"--audit-policy-file="+c.path("audit.yaml"), "--audit-log-path="+c.path("audit.log"))
	if err != nil {
		return nil, err
	}
	config := c.clientConfig(serverURL(port), c.admin)
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		p.kill()
		return nil, err
	}
	client, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		p.kill()
		return nil, err
	}
	s := &apiServer{process: p, client: client, closeIdle: func() { utilnet.CloseIdleConnectionsFor(httpClient.Transport) }}
	err = until(ctx, p, "the API server is ready", func(ctx context.Context) error {
		if err := client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
			return err
		}
		_, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		return err
	})
	if err != nil {
		s.kill()
		return nil, err
	}
	return s, nil
}

// clientConfig is one for somebody with this certificate and key.
func (c *control) clientConfig(server string, credentials []byte) *rest.Config {
	return &rest.Config{Host: server, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.authority.file, CertData: credentials, KeyData: credentials}}
}

// stop ends the server with SIGTERM, kill with SIGKILL.
func (s *apiServer) stop() error {
	s.closeIdle()
	return s.process.stop()
}

func (s *apiServer) kill() {
	s.closeIdle()
	s.process.kill()
}

// stop takes the server away as an upgrade does, kill as a crash does; resume brings it back at its address.
func (c *control) stop(t *testing.T) {
	t.Helper()
	s := c.server
	c.server = nil
	must(t, s.stop())
}

func (c *control) kill() {
	s := c.server
	c.server = nil
	s.kill()
}

func (c *control) resume(t *testing.T) {
	t.Helper()
	c.server = get(c.start(t.Context(), c.port))(t)
}

// client is an administrator's client of the server, which comes back first if a test that failed left it away.
func (c *control) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	if c.server == nil {
		c.resume(t)
	}
	return c.server.client
}

// behind changes things while the server is away, through another one of the same cluster.
func (c *control) behind(t *testing.T, change func(client kubernetes.Interface)) {
	t.Helper()
	ports := get(freePorts(1))(t)
	other := get(c.start(t.Context(), ports[0]))(t)
	defer func() { must(t, other.stop()) }()
	change(other.client)
}

// request is one that a podconfigd made, as the server wrote it down.
type request struct {
	verb  string
	query url.Values
	code  int
}

// requests are those that the user made for a resource, in the order in which they were answered first.
func (c *control) requests(t *testing.T, user, resource string) []request {
	t.Helper()
	log := get(os.ReadFile(c.path("audit.log")))(t)
	seen := map[string]int{}
	var out []request
	lines := bufio.NewScanner(bytes.NewReader(log))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			AuditID, Verb, RequestURI string
			User                      struct{ Username string }
			ObjectRef                 struct{ Resource string }
			ResponseStatus            struct{ Code int }
		}
		must(t, json.Unmarshal(lines.Bytes(), &e))
		if e.User.Username != user || e.ObjectRef.Resource != resource {
			continue
		}
		uri := get(url.Parse(e.RequestURI))(t)
		r := request{verb: e.Verb, query: uri.Query(), code: e.ResponseStatus.Code}
		if at, ok := seen[e.AuditID]; ok {
			out[at] = r // a later stage of the same request
			continue
		}
		seen[e.AuditID] = len(out)
		out = append(out, r)
	}
	must(t, lines.Err())
	return out
}

// beginsAnew tells if the request asks for all that there is, instead of the changes since a version.
func (r request) beginsAnew() bool {
	return r.verb == "list" || r.verb == "watch" && r.query.Get("sendInitialEvents") == "true"
}

// countAnew tells how many of the requests begin anew.
func countAnew(all []request) int {
	n := 0
	for _, r := range all {
		if r.beginsAnew() {
			n++
		}
	}
	return n
}
