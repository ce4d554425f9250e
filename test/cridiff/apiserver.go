package cridiff

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// apiServer is a kube-apiserver and its etcd, in a network namespace of their own, where the agent is too. Every user
// may do everything.
type apiServer struct {
	etcd, server *process
	client       kubernetes.Interface
	// uids are the pods' UIDs, each followed by that of the pod that was given: the server makes its own.
	uids []string
}

const (
	serverURL = "https://127.0.0.1:6443"
	etcdURL   = "http://127.0.0.1:2379"
	// token is that of the node, and of the test.
	token = "test"
	// serverTime bounds each wait for the API server, and for what an agent tells it.
	serverTime = 2 * time.Minute
)

// startServer starts them, waits until the API server is ready, and writes the node's kubeconfig. The site has it also
// after an error.
func (s *Site) startServer(ctx context.Context) error {
	if err := errors.Join(os.WriteFile(s.path("tokens"), []byte(token+",system:node:"+nodeName+",node,system:nodes\n"), 0o600),
		writeKey(s.path("accounts.key")), os.WriteFile(s.path("kubeconfig"), []byte(s.kubeconfig()), 0o600)); err != nil {
		return err
	}
	etcd, err := s.start("etcd", "--name=etcd", "--data-dir="+s.path("etcd"), "--listen-client-urls="+etcdURL,
		"--advertise-client-urls="+etcdURL, "--listen-peer-urls=http://127.0.0.1:2380",
		"--initial-advertise-peer-urls=http://127.0.0.1:2380", "--initial-cluster=etcd=http://127.0.0.1:2380", "--log-level=warn",
		"--unsafe-no-fsync")
	if err != nil {
		return err
	}
	s.api = &apiServer{etcd: etcd}
	pid := nodeAPI(etcd.cmd.Process.Pid)
	if err := s.api.until(ctx, "etcd is ready in a network namespace of its own", pid.hasEtcd); err != nil {
		return err
	}
	if s.api.server, err = s.start("kube-apiserver", s.serverFlags()...); err != nil {
		return err
	}
	if s.api.client, err = kubernetes.NewForConfig(&rest.Config{
		Host: serverURL, BearerToken: token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, // Only the test is there.
		Dial: func(_ context.Context, network, address string) (net.Conn, error) { return pid.dial(network, address) },
	}); err != nil {
		return err
	}
	return s.api.until(ctx, "the API server is ready", func(ctx context.Context) error {
		if err := s.api.client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
			return err
		}
		_, err := s.api.client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
		return err
	})
}

// hasEtcd returns nil once the etcd in the process's network namespace is ready.
func (pid nodeAPI) hasEtcd(ctx context.Context) error {
	if err := pid.isApart(); err != nil {
		return err
	}
	transport := &http.Transport{DialContext: func(_ context.Context, network, address string) (net.Conn, error) { return pid.dial(network, address) }}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, etcdURL+"/health", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd answers %s", resp.Status)
	}
	return nil
}

// serverFlags are the API server's flags.
func (s *Site) serverFlags() []string {
	return []string{
		"--etcd-servers=" + etcdURL, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=6443",
		"--endpoint-reconciler-type=none", "--cert-dir=" + s.path("certs"), "--token-auth-file=" + s.path("tokens"),
		"--authorization-mode=AlwaysAllow", "--disable-admission-plugins=ServiceAccount", "--service-cluster-ip-range=10.96.0.0/24",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + s.path("accounts.key"),
		"--service-account-signing-key-file=" + s.path("accounts.key"),
	}
}

// kill ends the API server, then etcd.
func (a *apiServer) kill() error {
	if a == nil {
		return nil
	}
	return errors.Join(a.server.kill(), a.etcd.kill())
}

// kubeconfig is the node's. The server signs its own certificate.
func (s *Site) kubeconfig() string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: u, user: {token: %q}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`, serverURL, s.path("certs", "apiserver.crt"), token)
}

// writeKey writes a new key for the tokens of service accounts.
func writeKey(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

// until asks until the answer is nil, but not after the end of a server.
func (a *apiServer) until(ctx context.Context, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, serverTime)
	defer cancel()
	for {
		last := ask(ctx)
		switch {
		case last == nil:
			return nil
		case a.etcd.ended() || a.server.ended():
			return fmt.Errorf("wait until %s: a server has ended: %w", what, last)
		}
		select {
		case <-time.After(pollPause / 5):
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w: %w", what, ctx.Err(), last)
		}
	}
}

// awaitNode waits until the agent has made its node, and it is ready.
func (a *apiServer) awaitNode(ctx context.Context) error {
	return a.until(ctx, "the node is ready", func(ctx context.Context) error {
		node, err := a.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", node.Status.Conditions)
	})
}

// create creates the pod on the node, in a new namespace.
func (a *apiServer) create(ctx context.Context, pod *v1.Pod) error {
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pod.Namespace}}
	if _, err := a.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	placed := pod.DeepCopy()
	placed.Spec.NodeName = nodeName
	created, err := a.client.CoreV1().Pods(pod.Namespace).Create(ctx, placed, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	a.uids = append(a.uids, string(created.UID), string(pod.UID))
	return nil
}

// pods returns the pods by the UID of the pod that was given, which is the namespace's name.
func (a *apiServer) pods(ctx context.Context) (map[types.UID]*v1.Pod, error) {
	list, err := a.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	pods := map[types.UID]*v1.Pod{}
	for i := range list.Items {
		pods[types.UID(list.Items[i].Namespace)] = &list.Items[i]
	}
	return pods, nil
}

// resize changes the resources of the pod's containers in place.
func (a *apiServer) resize(ctx context.Context, to *v1.Pod) error {
	type container struct {
		Name      string                  `json:"name"`
		Resources v1.ResourceRequirements `json:"resources"`
	}
	spec := map[string][]container{}
	for list, containers := range map[string][]v1.Container{"initContainers": to.Spec.InitContainers, "containers": to.Spec.Containers} {
		for i := range containers {
			spec[list] = append(spec[list], container{containers[i].Name, containers[i].Resources})
		}
	}
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	_, err = a.client.CoreV1().Pods(to.Namespace).Patch(ctx, to.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "resize")
	return err
}
