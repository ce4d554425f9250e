package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// KubeletClient is the server's user name at nodes.
const KubeletClient = "kube-apiserver-kubelet-client"

// Config configures a control plane.
type Config struct {
	// Dir is the directory of all its files. Required.
	Dir string
	// Etcd and Tools are the path of the etcd and the directory of Kubernetes' programs. Required; make test-cluster
	// provides them.
	Etcd, Tools string
	// ServerFlags are additional flags of kube-apiserver.
	ServerFlags []string
	// Addresses are those of this machine at which clients reach the server besides Loopback. ServerFlags must make it listen there.
	Addresses []net.IP
}

// Plane is the control plane: an etcd that always runs, and a server that can be stopped and started. A Plane
// is used by one goroutine.
type Plane struct {
	Etcd      *Etcd
	Authority *Authority
	// URL is the server's address, for all clients.
	URL string

	config Config
	port   int
	// admin is an administrator's certificate and key. The file admin.pem has them too.
	admin []byte
	// server is the server at URL, or nil while it is stopped.
	server *Server
	// others are the other daemons.
	others []*Process
}

// Server is a running kube-apiserver, and an administrator's client for it.
type Server struct {
	Client kubernetes.Interface

	process   *Process
	closeIdle func()
}

// Start starts an etcd and a server, and waits until it is ready.
func Start(ctx context.Context, config Config) (_ *Plane, err error) {
	ports, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	p := &Plane{config: config, port: ports[0], URL: serverURL(ports[0])}
	if p.Authority, err = NewAuthority(config.Dir); err != nil {
		return nil, err
	}
	p.Authority.Addresses = config.Addresses
	if err := errors.Join(p.issue(), newKeyPair(p.Path("tokens.key"), p.Path("tokens.pub"))); err != nil {
		return nil, err
	}
	if p.Etcd, err = startEtcd(ctx, config.Dir, config.Etcd); err != nil {
		return nil, err
	}
	if p.server, err = p.StartServer(ctx, p.port); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Path returns the path of a file of the control plane.
func (p *Plane) Path(name string) string { return filepath.Join(p.config.Dir, name) }

func serverURL(port int) string { return "https://" + net.JoinHostPort(Loopback, strconv.Itoa(port)) }

// Close ends all processes.
func (p *Plane) Close() {
	for _, other := range p.others {
		other.Kill()
	}
	if p.server != nil {
		p.server.kill()
	}
	p.Etcd.stop()
}

// StartServer starts a server and waits until it is ready.
func (p *Plane) StartServer(ctx context.Context, port int) (*Server, error) {
	name := fmt.Sprintf("kube-apiserver-%d", port)
	process, err := StartProcess(name, p.Path(name+".log"), filepath.Join(p.config.Tools, "kube-apiserver"), append([]string{
		"--etcd-servers=" + p.Etcd.url, "--etcd-compaction-interval=0", // the tests compact
		"--bind-address=" + Loopback, "--advertise-address=" + Loopback, fmt.Sprintf("--secure-port=%d", port), "--endpoint-reconciler-type=none",
		"--shutdown-watch-termination-grace-period=5s", // otherwise open watches delay the server's end for a minute
		"--cert-dir=" + p.Path("certs"), "--tls-cert-file=" + p.Path("serving.pem"), "--tls-private-key-file=" + p.Path("serving.pem"),
		"--client-ca-file=" + p.Authority.File, "--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate=" + p.Path("kubelet-client.pem"), "--kubelet-client-key=" + p.Path("kubelet-client.pem"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + p.Path("tokens.pub"),
		"--service-account-signing-key-file=" + p.Path("tokens.key"), "--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
	}, p.config.ServerFlags...)...)
	if err != nil {
		return nil, err
	}
	config := p.ClientConfig(serverURL(port), p.admin)
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		process.Kill()
		return nil, err
	}
	client, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		process.Kill()
		return nil, err
	}
	s := &Server{process: process, Client: client, closeIdle: func() { utilnet.CloseIdleConnectionsFor(httpClient.Transport) }}
	err = Until(ctx, process, "the API server is ready", func(ctx context.Context) error {
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

// ClientConfig returns a configuration for a client with this certificate and key.
func (p *Plane) ClientConfig(server string, credentials []byte) *rest.Config {
	return &rest.Config{Host: server, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: p.Authority.File, CertData: credentials, KeyData: credentials}}
}

// Stop ends the server with SIGTERM, kill with SIGKILL.
func (s *Server) Stop() error {
	s.closeIdle()
	return s.process.Stop()
}

func (s *Server) kill() {
	s.closeIdle()
	s.process.Kill()
}

// Stop stops the server, as an upgrade does.
func (p *Plane) Stop() error {
	s := p.server
	p.server = nil
	return s.Stop()
}

// Kill kills the server, like a crash.
func (p *Plane) Kill() {
	s := p.server
	p.server = nil
	s.kill()
}

// Resume starts the server again at its address.
func (p *Plane) Resume(ctx context.Context) (err error) {
	p.server, err = p.StartServer(ctx, p.port)
	return err
}

// Client returns an administrator's client of the server. It first starts the server if a failed test left it
// stopped.
func (p *Plane) Client(ctx context.Context) (kubernetes.Interface, error) {
	if p.server == nil {
		if err := p.Resume(ctx); err != nil {
			return nil, err
		}
	}
	return p.server.Client, nil
}

// Behind changes objects while the server is stopped, through another server of the same cluster.
func (p *Plane) Behind(ctx context.Context, change func(client kubernetes.Interface)) (err error) {
	ports, err := FreePorts(1)
	if err != nil {
		return err
	}
	other, err := p.StartServer(ctx, ports[0])
	if err != nil {
		return err
	}
	defer func() {
		if stopped := other.Stop(); err == nil {
			err = stopped
		}
	}()
	change(other.Client)
	return nil
}
